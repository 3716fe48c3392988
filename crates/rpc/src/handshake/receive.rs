//! The side that is connected to.

use super::words::{
    Answer, Challenge, Hello, NOW, PROVES_ROLES, Refused, Role, Shown, Terms, Verdict, agree,
    domains, spoken,
};
use super::{Met, Myself, Said, hear, hear_bytes, say, unreadable};
use crate::client_key::{CLIENT_NAME_MAX, ClientKey, ClientKeys, ClientName, Key, KeyKind};
use crate::code::Codes;
use crate::key::ClusterKey;
use crate::link::{Agreed, Link, LinkError, Reader};
use gupfs_platform::Dice;
use gupfs_proto::ClusterId;
use gupfs_proto::wire::Kind;
use std::sync::Arc;

/// Longest name of a peer: it goes into lists and logs.
const NAME_MAX: usize = 256;

/// Who decides whom to let in.
pub struct Porter {
    pub me: Myself,
    pub cluster: ClusterId,
    /// None: everybody who can reach us is let in.
    pub key: Option<ClusterKey>,
    /// Which hosts that only mount are let in.
    pub clients: Arc<dyn ClientKeys>,
}

/// Why somebody was not let in.
#[derive(Debug, thiserror::Error)]
pub enum Turned {
    #[error(transparent)]
    Link(#[from] LinkError),
    /// He did not believe us, or does not know the key.
    #[error("it left when it was to prove that it has the key")]
    Left,
    #[error("it has no key")]
    NoKey,
    #[error("its key is not the cluster's, nor a client key of it")]
    WrongKey,
    #[error("client key {0}: {1}")]
    NotListed(ClientName, String),
    #[error("it says that it is a server ({role}), and proves {key}, which is not enough for that")]
    Role { role: &'static str, key: String },
    #[error("it looks for cluster {0}")]
    Foreign(ClusterId),
    #[error("it speaks nothing that we speak")]
    Speechless,
}

/// Somebody who has proved what is to be proved, and is not let in yet.
#[derive(Clone)]
pub struct Guest {
    pub met: Met,
    /// Of this connection, among those of the same `who`.
    pub number: u64,
    codes: Option<Codes>,
}

/// Why the handshake ends here: for us, and for the other side.
struct Refusing(Turned, String);

impl Porter {
    /// Up to the last word, which the caller says: `welcome` or `refuse`.
    pub async fn receive(
        &self,
        link: &Link,
        reader: &mut Reader,
        dice: &Dice,
    ) -> Result<Guest, Turned> {
        let said_hello = hear_bytes(reader).await?;
        let (hello, shown) = read_hello(&said_hello)?;
        let versions = agree(&hello.speaks, &spoken());
        let known =
            (self.judge(&hello, &versions)).and_then(|()| self.known(&hello, &shown, &versions));
        let (key, kind) = match known {
            Ok(known) => known,
            Err(Refusing(turned, why)) => {
                let refused = Refused {
                    why,
                    for_good: true,
                };
                say(link, &Challenge::Refused(refused));
                return Err(turned);
            }
        };
        let mut nonce = [0; 32];
        dice.fill(&mut nonce);
        let terms = Terms {
            who: self.me.who,
            role: self.me.role,
            name: self.me.name.clone(),
            cluster: self.cluster,
            nonce,
            versions: versions.clone(),
        };
        let said_terms = postcard::to_stdvec(&terms).expect("terms are plain data");
        let said = Said {
            hello: &said_hello,
            terms: &said_terms,
            bond: link.stream().bond(),
        };
        let domains = domains(&versions).unwrap_or(&NOW);
        let proving = key.as_ref().map(Key::proving);
        let proof = proving.map(|key| key.prove(&said.parts(domains.server)));
        say(link, &Challenge::Known { terms, proof });
        let (answer, _) = hear::<Answer>(reader).await.map_err(|error| match error {
            LinkError::Ended => Turned::Left,
            other => Turned::Link(other),
        })?;
        if let Some(key) = proving {
            let proof = answer.proof.unwrap_or_default();
            if !key.verifies(&said.parts(domains.client), &proof) {
                let why = match kind {
                    KeyKind::Client { .. } => "the client key is not one of this cluster",
                    _ => "the key is not the key of this cluster",
                };
                refuse(link, why, true);
                return Err(Turned::WrongKey);
            }
        }
        let mut name = hello.name;
        name.truncate(
            (0..=NAME_MAX)
                .rev()
                .find(|at| name.is_char_boundary(*at))
                .unwrap_or(0),
        );
        Ok(Guest {
            codes: proving.and_then(|key| said.codes(key, domains, true)),
            met: Met {
                // A number is believed only among the processes of one key's holder.
                who: match &key {
                    Some(Key::Client(key)) => key.process(hello.who),
                    _ => hello.who,
                },
                role: hello.role,
                key: kind,
                name,
                cluster: self.cluster,
                fenced: hello.fenced,
                versions,
            },
            number: hello.number,
        })
    }

    fn judge(&self, hello: &Hello, versions: &[(u16, u8)]) -> Result<(), Refusing> {
        if let Some(meant) = hello.cluster
            && meant != self.cluster
        {
            let why = format!("this is cluster {}, not {meant}", self.cluster);
            return Err(Refusing(Turned::Foreign(meant), why));
        }
        if self.key.is_some() && !hello.has_key {
            let why = "this cluster has a key, and none was given".to_string();
            return Err(Refusing(Turned::NoKey, why));
        }
        let agreed = |kind: u16| versions.iter().any(|(known, _)| *known == kind);
        for (kind, oldest, newest) in spoken() {
            let theirs = hello.speaks.iter().find(|(known, ..)| *known == kind);
            // A kind that only one knows is said by nobody, but for how to say anything.
            if agreed(kind) || (theirs.is_none() && kind != Kind::LINK.0) {
                continue;
            }
            let (from, to) = theirs.map_or((0, 0), |(_, from, to)| (*from, *to));
            let why = format!(
                "there is no version that both speak: messages of kind {kind} in {from} to {to} there, in {oldest} to {newest} here; one of the two is older and is to be upgraded"
            );
            return Err(Refusing(Turned::Speechless, why));
        }
        Ok(())
    }

    /// With which key it is to prove what it says, and whether that key goes with its role.
    fn known(
        &self,
        hello: &Hello,
        shown: &Option<Shown>,
        versions: &[(u16, u8)],
    ) -> Result<(Option<Key>, KeyKind), Refusing> {
        let Some(cluster) = &self.key else {
            return Ok((None, KeyKind::None));
        };
        let link = versions.iter().find(|(kind, _)| *kind == Kind::LINK.0);
        let proves_roles = link.is_some_and(|(_, version)| *version >= PROVES_ROLES);
        let (key, kind) = match (shown, proves_roles) {
            (_, false) => (Key::Cluster(cluster.clone()), KeyKind::Former),
            (Some(Shown::Cluster), true) => (Key::Cluster(cluster.clone()), KeyKind::Cluster),
            (Some(Shown::Client(of)), true) => {
                let options = self.clients.find(of).map_err(|why| {
                    let turned = Turned::NotListed(of.clone(), why.clone());
                    Refusing(turned, format!("client key '{}': {why}", of.name))
                })?;
                let of = of.clone();
                let key = ClientKey::derive(cluster, of.clone());
                (Key::Client(key), KeyKind::Client { of, options })
            }
            (Some(Shown::Nothing) | None, true) => {
                let why = "this cluster has a key, and none was given".to_string();
                return Err(Refusing(Turned::NoKey, why));
            }
        };
        let is_host = matches!(hello.role, Role::Client | Role::Visitor);
        if !is_host && kind != KeyKind::Cluster {
            let why = format!(
                "it says that it is a server ({}), and a server proves the cluster's key: give it the cluster's key, and the same gupfs as this one",
                hello.role.name()
            );
            let turned = Turned::Role {
                role: hello.role.name(),
                key: kind.name().into(),
            };
            return Err(Refusing(turned, why));
        }
        Ok((Some(key), kind))
    }
}

/// A hello, and which key it says it will prove; a peer of LINK 1 says nothing of that.
fn read_hello(body: &[u8]) -> Result<(Hello, Option<Shown>), LinkError> {
    let (hello, rest) = postcard::take_from_bytes::<Hello>(body).map_err(|_| unreadable())?;
    if rest.is_empty() {
        return Ok((hello, None));
    }
    let shown: Shown = postcard::from_bytes(rest).map_err(|_| unreadable())?;
    match &shown {
        Shown::Client(of) if of.name.len() > CLIENT_NAME_MAX => Err(unreadable()),
        _ => Ok((hello, Some(shown))),
    }
}

/// A word to who speaks TLS where nobody does, or does not where everybody must.
pub fn refuse_manner(link: &Link, why: &str) {
    link.stream().speak_plainly();
    let refused = Refused {
        why: why.to_string(),
        for_good: true,
    };
    say(link, &Challenge::Refused(refused));
}

/// The last word of the handshake. What follows has the agreed versions.
pub fn welcome(link: &Link, guest: &Guest) {
    say(link, &Verdict::Welcome);
    link.agree(Agreed {
        versions: guest.met.versions.clone(),
        codes: guest.codes.clone(),
    });
}

pub fn refuse(link: &Link, why: &str, for_good: bool) {
    let refused = Refused {
        why: why.to_string(),
        for_good,
    };
    say(link, &Verdict::Refused(refused));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_key::EveryClientKey;

    #[test]
    fn who_speaks_another_version_is_told_so_and_a_kind_of_one_side_does_no_harm() {
        let porter = Porter {
            me: Myself {
                who: 1,
                role: Role::Mds,
                name: String::new(),
            },
            cluster: ClusterId(1),
            key: None,
            clients: Arc::new(EveryClientKey),
        };
        let hello = |speaks: Vec<(u16, u8, u8)>| Hello {
            who: 2,
            number: 1,
            role: Role::Client,
            name: String::new(),
            cluster: None,
            has_key: false,
            fenced: false,
            nonce: [0; 32],
            speaks,
        };
        let judge = |hello: Hello| {
            let versions = agree(&hello.speaks, &spoken());
            porter
                .judge(&hello, &versions)
                .map_err(|Refusing(_, why)| why)
        };
        let mut speaks = spoken();
        speaks.push((77, 1, 1));
        assert_eq!(judge(hello(speaks.clone())), Ok(()));
        // The former version of a kind whose newest is a superset.
        speaks[1] = (Kind::META.0, 6, 6);
        assert_eq!(judge(hello(speaks.clone())), Ok(()));
        speaks[1] = (Kind::META.0, 1, 1);
        let why = judge(hello(speaks)).unwrap_err();
        assert!(why.contains("kind 1 in 1 to 1 there"), "{why}");
    }
}
