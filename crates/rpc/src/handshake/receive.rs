//! The side that is connected to.

use super::words::{
    Answer, CLIENT_PROOF, Challenge, Hello, Refused, SERVER_PROOF, Terms, Verdict, agree, spoken,
};
use super::{Met, Myself, hear, proved, say};
use crate::key::ClusterKey;
use crate::link::{Link, LinkError, Reader};
use gupfs_proto::ClusterId;
use gupfs_proto::wire::Kind;
use gupfs_world::Dice;

/// Longest name of a peer: it goes into lists and logs.
const NAME_MAX: usize = 256;

/// Who decides whom to let in.
pub struct Porter {
    pub me: Myself,
    pub cluster: ClusterId,
    /// None: everybody who can reach us is let in.
    pub key: Option<ClusterKey>,
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
    #[error("its key is not the cluster's")]
    WrongKey,
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
}

impl Porter {
    /// Up to the last word, which the caller says: `welcome` or `refuse`.
    pub async fn receive(
        &self,
        link: &Link,
        reader: &mut Reader,
        dice: &Dice,
    ) -> Result<Guest, Turned> {
        let (hello, said_hello) = hear::<Hello>(reader).await?;
        let versions = agree(&hello.speaks, &spoken());
        if let Err((turned, why)) = self.judge(&hello, &versions) {
            let refused = Refused {
                why,
                for_good: true,
            };
            say(link, &Challenge::Refused(refused));
            return Err(turned);
        }
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
        let bond = link.stream().bond();
        let said_terms = postcard::to_stdvec(&terms).expect("terms are plain data");
        let proof = self.key.as_ref().map(|key| {
            key.prove(&proved(
                SERVER_PROOF,
                &said_hello,
                &said_terms,
                bond.as_ref(),
            ))
        });
        say(link, &Challenge::Known { terms, proof });
        let (answer, _) = hear::<Answer>(reader).await.map_err(|error| match error {
            LinkError::Ended => Turned::Left,
            other => Turned::Link(other),
        })?;
        if let Some(key) = &self.key {
            let proof = answer.proof.unwrap_or_default();
            if !key.verifies(
                &proved(CLIENT_PROOF, &said_hello, &said_terms, bond.as_ref()),
                &proof,
            ) {
                refuse(link, "the key is not the key of this cluster", true);
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
            met: Met {
                who: hello.who,
                role: hello.role,
                name,
                cluster: self.cluster,
                fenced: hello.fenced,
                versions,
            },
            number: hello.number,
        })
    }

    fn judge(&self, hello: &Hello, versions: &[(u16, u8)]) -> Result<(), (Turned, String)> {
        if let Some(meant) = hello.cluster
            && meant != self.cluster
        {
            let why = format!("this is cluster {}, not {meant}", self.cluster);
            return Err((Turned::Foreign(meant), why));
        }
        if self.key.is_some() && !hello.has_key {
            let why = "this cluster has a key, and none was given".to_string();
            return Err((Turned::NoKey, why));
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
            return Err((Turned::Speechless, why));
        }
        Ok(())
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
pub fn welcome(link: &Link, met: &Met) {
    say(link, &Verdict::Welcome);
    link.agree(met.versions.clone());
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
    use crate::handshake::words::Role;

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
            porter.judge(&hello, &versions).map_err(|(_, why)| why)
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
