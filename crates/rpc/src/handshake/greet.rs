//! The side that connects.

use super::words::{Answer, Challenge, Hello, NOW, Shown, Terms, Verdict, agree, domains, offered};
use super::{Met, Myself, Said, hear, say};
use crate::client_key::{ClientOptions, Key, KeyKind};
use crate::link::{Agreed, Link, LinkError, Reader};
use gupfs_platform::Dice;
use gupfs_proto::ClusterId;

/// Why a server was not met.
#[derive(Debug, thiserror::Error)]
pub enum GreetError {
    #[error(transparent)]
    Link(#[from] LinkError),
    /// With `for_good` asking again will not help.
    #[error("it refused us: {why}")]
    Refused { why: String, for_good: bool },
    #[error("it did not prove that it has the key of this cluster")]
    Impostor,
    #[error("it does not prove roles: its gupfs is older than ours, and is to be upgraded first")]
    Former,
    #[error("it has no key, and we have one: it is not of this cluster")]
    Keyless,
    #[error("it serves cluster {0}, not the one that is meant")]
    Foreign(ClusterId),
}

impl GreetError {
    /// Asking again will not help: something must be set right first.
    pub fn is_for_good(&self) -> bool {
        match self {
            GreetError::Link(LinkError::Tls(fault)) => fault.is_for_good(),
            GreetError::Link(_) => false,
            GreetError::Refused { for_good, .. } => *for_good,
            GreetError::Impostor
            | GreetError::Former
            | GreetError::Keyless
            | GreetError::Foreign(_) => true,
        }
    }
}

/// What is wanted of a connection.
#[derive(Clone, Copy)]
pub struct Wish<'a> {
    /// Above those of all former ones to this server.
    pub number: u64,
    pub cluster: Option<ClusterId>,
    pub key: Option<&'a Key>,
    pub fenced: bool,
}

/// Opens a connection.
pub async fn greet(
    link: &Link,
    reader: &mut Reader,
    dice: &Dice,
    me: &Myself,
    wish: Wish<'_>,
) -> Result<Met, GreetError> {
    greet_in(link, reader, dice, me, wish, offered()).await
}

/// Opens a connection in one of these versions: (kind, oldest, newest).
pub(crate) async fn greet_in(
    link: &Link,
    reader: &mut Reader,
    dice: &Dice,
    me: &Myself,
    wish: Wish<'_>,
    offers: Vec<(u16, u8, u8)>,
) -> Result<Met, GreetError> {
    let mut nonce = [0; 32];
    dice.fill(&mut nonce);
    let shown = match wish.key {
        None => Shown::Nothing,
        Some(Key::Cluster(_)) => Shown::Cluster,
        Some(Key::Client(key)) => Shown::Client(key.of.clone()),
    };
    let hello = Hello {
        who: me.who,
        number: wish.number,
        role: me.role,
        name: me.name.clone(),
        cluster: wish.cluster,
        has_key: wish.key.is_some(),
        fenced: wish.fenced,
        nonce,
        speaks: offers.clone(),
    };
    let hello = say(link, &(hello, shown));
    let (challenge, _) = hear::<Challenge>(reader).await?;
    let (terms, proof) = match challenge {
        Challenge::Known { terms, proof } => (terms, proof),
        Challenge::Refused(refused) => {
            return Err(GreetError::Refused {
                why: refused.why,
                for_good: refused.for_good,
            });
        }
    };
    check_versions(&terms, &offers)?;
    let domains = domains(&terms.versions).unwrap_or(&NOW);
    let said_terms = postcard::to_stdvec(&terms).expect("terms are plain data");
    let said = Said {
        hello: &hello,
        terms: &said_terms,
        bond: link.stream().bond(),
    };
    match (wish.key, proof) {
        (Some(key), Some(proof)) => {
            let proving = key.proving();
            if !proving.verifies(&said.parts(domains.server), &proof) {
                return Err(GreetError::Impostor);
            }
        }
        (Some(_), None) => return Err(GreetError::Keyless),
        // It asks for none: a server without a key listens to its own host alone.
        (None, _) => {}
    }
    if wish.cluster.is_some_and(|meant| meant != terms.cluster) {
        return Err(GreetError::Foreign(terms.cluster));
    }
    let proof = wish
        .key
        .map(|key| key.proving().prove(&said.parts(domains.client)));
    say(link, &Answer { proof });
    match hear::<Verdict>(reader).await?.0 {
        Verdict::Welcome => {
            let codes = wish
                .key
                .and_then(|key| said.codes(key.proving(), domains, false));
            link.agree(Agreed {
                versions: terms.versions.clone(),
                codes,
            });
            Ok(Met {
                who: terms.who,
                role: terms.role,
                key: kind_of(wish.key),
                name: terms.name,
                cluster: terms.cluster,
                fenced: wish.fenced,
                versions: terms.versions,
            })
        }
        Verdict::Refused(refused) => Err(GreetError::Refused {
            why: refused.why,
            for_good: refused.for_good,
        }),
    }
}

/// The server chooses among what was offered. A kind that it does not know is missing, but for how to say anything.
fn check_versions(terms: &Terms, offers: &[(u16, u8, u8)]) -> Result<(), GreetError> {
    let kinds: Vec<_> = (terms.versions.iter())
        .map(|(kind, version)| (*kind, *version, *version))
        .collect();
    if agree(&kinds, offers).len() != kinds.len() {
        return Err(LinkError::Handshake("it chose a version that was not offered").into());
    }
    match domains(&terms.versions) {
        Some(_) => Ok(()),
        None => Err(GreetError::Former),
    }
}

fn kind_of(key: Option<&Key>) -> KeyKind {
    match key {
        None => KeyKind::None,
        Some(Key::Cluster(_)) => KeyKind::Cluster,
        Some(Key::Client(key)) => KeyKind::Client {
            of: key.of.clone(),
            options: ClientOptions::default(),
        },
    }
}
