//! # handshake: who is there, in which role, and with which key
//!
//! Owns   the four messages that open a connection, what is proved by them, which versions both sides speak, the keys of the
//!        codes of the frames that follow.
//! Never  lets anything else be read before it is over.
//! Enter  at `greet` (who connects) and `Porter::receive` (who is connected to).
//!
//! ```text
//! client                                    server
//! Hello { who, number, nonce, … }      →
//!                                      ←    Challenge { cluster, nonce, versions, proof over all that was said }
//! Answer { proof over the same }       →
//!                                      ←    Welcome, or Refused { why }
//! ```
//!
//! Both proofs are HMACs over all that was said, both nonces, the role and the offered versions among it, so neither side can be
//! played back to the other, and nobody between them can make them agree on less. They are made with the cluster's key, or by a
//! host that only mounts with its client key, which the server derives. A client does not show anything to a server that does
//! not prove the key. What follows is not encrypted unless TLS lies below; without TLS each frame has a code (`code`).

mod greet;
mod receive;
mod words;

#[cfg(any(test, fuzzing))]
pub(crate) use greet::greet_in;
pub use greet::{GreetError, Wish, greet};
pub use receive::{Guest, Porter, Turned, refuse, refuse_manner, welcome};
use words::Domains;
#[cfg(any(test, fuzzing))]
pub(crate) use words::offered;
pub use words::{Met, Myself, Role};

use crate::code::{CodeKey, Codes};
use crate::frame::{Flags, Limits, pack};
use crate::key::ClusterKey;
use crate::link::{LINK_VERSION, Link, LinkError, Reader};
use bytes::Bytes;
use gupfs_proto::wire::{Kind, Written};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// All that was said before the proofs. With TLS also what binds them to this very connection: whoever sits between two
/// connections cannot pass proofs on.
struct Said<'a> {
    hello: &'a [u8],
    terms: &'a [u8],
    bond: Option<[u8; 32]>,
}

impl Said<'_> {
    fn parts<'a>(&'a self, domain: &'a [u8]) -> Vec<&'a [u8]> {
        let mut parts = vec![domain, self.hello, self.terms];
        parts.extend(self.bond.as_ref().map(|bond| &bond[..]));
        parts
    }

    /// The codes of frames that we send and receive. None where TLS does what they do, and with a peer of LINK 1.
    fn codes(&self, key: &ClusterKey, domains: &Domains, is_server: bool) -> Option<Codes> {
        if self.bond.is_some() || domains.to_server.is_empty() {
            return None;
        }
        let code_key = |domain| CodeKey::new(&key.prove(&self.parts(domain)));
        let (up, down) = (code_key(domains.to_server), code_key(domains.to_client));
        Some(match is_server {
            true => Codes::new(down, up),
            false => Codes::new(up, down),
        })
    }
}

/// Says one word of the handshake.
fn say<T: Serialize>(link: &Link, word: &T) -> Vec<u8> {
    let body = postcard::to_stdvec(word).expect("a word is plain data");
    let message = Written {
        since: LINK_VERSION,
        body: body.clone(),
        payload: Bytes::new(),
    };
    // Words are short: ours always fit.
    if let Ok(packed) = pack(Kind::LINK, Flags::empty(), 0, message) {
        link.send(packed);
    }
    body
}

/// Hears one word, and the bytes it was.
async fn hear<T: DeserializeOwned>(reader: &mut Reader) -> Result<(T, Bytes), LinkError> {
    let body = hear_bytes(reader).await?;
    let word = postcard::from_bytes(&body).map_err(|_| unreadable())?;
    Ok((word, body))
}

async fn hear_bytes(reader: &mut Reader) -> Result<Bytes, LinkError> {
    let frame = reader.next(Limits::OF_STRANGERS).await?;
    if frame.head.kind != Kind::LINK
        || frame.head.version != LINK_VERSION
        || !frame.payload.is_empty()
    {
        return Err(unreadable());
    }
    Ok(frame.body)
}

fn unreadable() -> LinkError {
    LinkError::Handshake("it is no word of a handshake")
}
