//! # handshake: who is there, and does he have the key
//!
//! Owns   the four messages that open a connection, what is proved by them, which versions both sides speak.
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
//! Both proofs are HMACs with the cluster's key over both nonces, so neither side can be played back to the other, and a
//! client does not show anything to a server without the key. What follows is not encrypted unless TLS lies below.

mod greet;
mod receive;
mod words;

#[cfg(test)]
pub(crate) use greet::greet_in;
pub use greet::{GreetError, Wish, greet};
pub use receive::{Guest, Porter, Turned, refuse, refuse_manner, welcome};
#[cfg(any(test, fuzzing))]
pub(crate) use words::offered;
pub use words::{Met, Myself, Role};

use crate::frame::{Flags, Limits, pack};
use crate::link::{HANDSHAKE_VERSION, Link, LinkError, Reader};
use bytes::Bytes;
use gupfs_proto::wire::{Kind, Written};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a proof is made over. With TLS also what binds it to this very connection: whoever sits between two connections cannot
/// pass proofs on.
fn proved<'a>(
    domain: &'a [u8],
    hello: &'a [u8],
    terms: &'a [u8],
    bond: Option<&'a [u8; 32]>,
) -> Vec<&'a [u8]> {
    let mut parts = vec![domain, hello, terms];
    parts.extend(bond.map(|bond| &bond[..]));
    parts
}

/// Says one word of the handshake.
fn say<T: Serialize>(link: &Link, word: &T) -> Vec<u8> {
    let body = postcard::to_stdvec(word).expect("a word is plain data");
    let message = Written {
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
    let frame = reader.next(Limits::OF_STRANGERS).await?;
    let unreadable = || LinkError::Handshake("it is no word of a handshake");
    if frame.head.kind != Kind::LINK
        || frame.head.version != HANDSHAKE_VERSION
        || !frame.payload.is_empty()
    {
        return Err(unreadable());
    }
    match postcard::from_bytes(&frame.body) {
        Ok(word) => Ok((word, frame.body)),
        Err(_) => Err(unreadable()),
    }
}
