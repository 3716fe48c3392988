//! The side that connects.

use super::words::{Answer, CLIENT_PROOF, Challenge, Hello, SERVER_PROOF, Verdict, agree, offered};
use super::{Met, Myself, hear, proved, say};
use crate::key::ClusterKey;
use crate::link::{Link, LinkError, Reader};
use gupfs_proto::ClusterId;
use gupfs_world::Dice;

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
            GreetError::Impostor | GreetError::Keyless | GreetError::Foreign(_) => true,
        }
    }
}

/// What is wanted of a connection.
#[derive(Clone, Copy)]
pub struct Wish<'a> {
    /// Above those of all former ones to this server.
    pub number: u64,
    pub cluster: Option<ClusterId>,
    pub key: Option<&'a ClusterKey>,
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
    let hello = say(
        link,
        &Hello {
            who: me.who,
            number: wish.number,
            role: me.role,
            name: me.name.clone(),
            cluster: wish.cluster,
            has_key: wish.key.is_some(),
            fenced: wish.fenced,
            nonce,
            speaks: offers.clone(),
        },
    );
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
    let said = postcard::to_stdvec(&terms).expect("terms are plain data");
    let bond = link.stream().bond();
    match (wish.key, proof) {
        (Some(key), Some(proof)) => {
            if !key.verifies(&proved(SERVER_PROOF, &hello, &said, bond.as_ref()), &proof) {
                return Err(GreetError::Impostor);
            }
        }
        (Some(_), None) => return Err(GreetError::Keyless),
        // It asks for none: a server without a key listens to its own host alone.
        (None, _) => {}
    }
    // It chooses among what was offered. A kind that it does not know is missing.
    let kinds: Vec<_> = (terms.versions.iter())
        .map(|(kind, version)| (*kind, *version, *version))
        .collect();
    if agree(&kinds, &offers).len() != kinds.len() {
        return Err(LinkError::Handshake("it chose a version that was not offered").into());
    }
    if wish.cluster.is_some_and(|meant| meant != terms.cluster) {
        return Err(GreetError::Foreign(terms.cluster));
    }
    let proof = wish
        .key
        .map(|key| key.prove(&proved(CLIENT_PROOF, &hello, &said, bond.as_ref())));
    say(link, &Answer { proof });
    match hear::<Verdict>(reader).await?.0 {
        Verdict::Welcome => {
            link.agree(terms.versions.clone());
            Ok(Met {
                who: terms.who,
                role: terms.role,
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
