//! What stands behind a key: a version byte, then the body of that version (postcard). The byte tables are in
//! docs/formats/metadata.md; `images` in the tests keep version 1 as it was first written.
//!
//! Postcard does not describe itself: a new field is a new version, read by its own module and stepped up.

mod inode;
mod names;
mod service;
mod sessions;
mod work;

pub use inode::{Body, Cutting, Directory, File, Inode, Link, Ruled};
pub use names::{BackLink, Entry, Xattr};
pub use service::{AcceptedLoss, EndedLife, Format, KnownTarget, Numbers, Usage};
pub use sessions::{Essence, Orphan, Reply, Session, Unconfirmed, Writer};
pub use work::{Purge, PurgeWhat};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A record of the current version.
pub trait Record: Sized {
    fn encode(&self) -> Bytes;
    /// # Errors
    /// `Undecodable` for a version this program does not know and for bytes that are no body of theirs.
    fn decode(value: &Bytes) -> Result<Self, Undecodable>;
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Undecodable {
    #[error("empty record")]
    Empty,
    #[error("record of version {0}, which this program does not know")]
    Version(u8),
    #[error("record body: {0}")]
    Body(postcard::Error),
    #[error("{0} bytes behind the record's body")]
    Trailing(usize),
}

/// First version of every record.
const V1: u8 = 1;

fn encode_body<T: Serialize>(version: u8, body: &T) -> Bytes {
    // An inode with its layout is below 256 bytes; inline bytes make it grow once.
    let mut value = Vec::with_capacity(256);
    value.push(version);
    let value =
        postcard::to_extend(body, value).expect("a record in memory always serialises into memory");
    Bytes::from(value)
}

fn decode_body<T: DeserializeOwned>(known: u8, value: &Bytes) -> Result<T, Undecodable> {
    let (version, body) = value.split_first().ok_or(Undecodable::Empty)?;
    if *version != known {
        return Err(Undecodable::Version(*version));
    }
    let (record, rest) = postcard::take_from_bytes(body).map_err(Undecodable::Body)?;
    if rest.is_empty() {
        Ok(record)
    } else {
        Err(Undecodable::Trailing(rest.len()))
    }
}

/// Records that have only ever had version 1, with themselves as its body.
macro_rules! first_version {
    ($($record:ty),+) => {
        $(impl crate::record::Record for $record {
            fn encode(&self) -> bytes::Bytes {
                crate::record::encode_body(crate::record::V1, self)
            }

            fn decode(value: &bytes::Bytes) -> Result<Self, crate::record::Undecodable> {
                crate::record::decode_body(crate::record::V1, value)
            }
        })+
    };
}
use first_version;

#[cfg(test)]
mod images;
