//! The value of a key: a version byte, then the body of that version (postcard). docs/formats/metadata.md has the byte tables;
//! the tests in `images` keep version 1 as it was first written.
//!
//! Postcard is not self-describing: a new field needs a new version, which the decoder reads by its own struct and converts.

mod inode;
mod names;
mod purge;
mod rebalance;
mod sessions;
mod shard;

pub use inode::{
    DentryPosition, DirectoryBody, DirectoryDefaultLayout, FileBody, Inode, InodeBody,
    UnfinishedTruncate,
};
pub use names::{BackLink, EntryRecord, XattrRecord};
pub use purge::{Purge, PurgeAction};
pub use rebalance::Rebalance;
pub use sessions::{
    Orphan, ReplySummary, SessionRecord, StaleMembers, StoredReply, UNASKED_SESSIONS, Unconfirmed,
    WriteLease, WriteLeaseMode,
};
pub use shard::{
    AcceptedCopy, AcceptedLoss, DrainSettings, InodeCounter, KnownTarget, RecordedInterest,
    RetiredVerifier, StoreFormat, Usage,
};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A record of the current version.
pub trait Record: Sized {
    /// The value with its version byte.
    fn encode(&self) -> Bytes;

    /// Decodes a value.
    ///
    /// # Errors
    /// For a version that this program does not know, and for bytes that are not a body of that version.
    fn decode(value: &Bytes) -> Result<Self, RecordDecodeError>;
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordDecodeError {
    #[error("empty record")]
    Empty,
    #[error(
        "the record has version {0}, which this program does not know: start the newer program"
    )]
    Version(u8),
    #[error("record body: {0}")]
    Body(postcard::Error),
    #[error("{0} bytes after the record's body")]
    Trailing(usize),
}

/// The first version of every record.
const V1: u8 = 1;

fn encode_body<T: Serialize>(version: u8, body: &T) -> Bytes {
    // An inode with its layout is smaller than 256 bytes; with inline bytes the buffer grows once.
    let mut value = Vec::with_capacity(256);
    value.push(version);
    let value =
        postcard::to_extend(body, value).expect("a record in memory always serialises into memory");
    Bytes::from(value)
}

fn decode_body<T: DeserializeOwned>(known: u8, value: &Bytes) -> Result<T, RecordDecodeError> {
    let (version, body) = value.split_first().ok_or(RecordDecodeError::Empty)?;
    if *version != known {
        return Err(RecordDecodeError::Version(*version));
    }
    let (record, rest) = postcard::take_from_bytes(body).map_err(RecordDecodeError::Body)?;
    if rest.is_empty() {
        Ok(record)
    } else {
        Err(RecordDecodeError::Trailing(rest.len()))
    }
}

/// Implements `Record` for structs that have only version 1 and are its body themselves.
macro_rules! impl_record_v1 {
    ($($record:ty),+) => {
        $(impl crate::record::Record for $record {
            fn encode(&self) -> bytes::Bytes {
                crate::record::encode_body(crate::record::V1, self)
            }

            fn decode(value: &bytes::Bytes) -> Result<Self, crate::record::RecordDecodeError> {
                crate::record::decode_body(crate::record::V1, value)
            }
        })+
    };
}
use impl_record_v1;

#[cfg(test)]
mod images;
