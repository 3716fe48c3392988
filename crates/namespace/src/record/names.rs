//! Records with names in their keys: `E` directory entries, `B` back links, `X` extended attributes.

use super::{Record, RecordDecodeError, V1, impl_record_v1};
use bytes::Bytes;
use gupfs_proto::{FileKind, InodeId};
use serde::{Deserialize, Serialize};

/// `E dir hash name`: the inode that a name refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EntryRecord {
    pub ino: InodeId,
    /// A copy of the inode's type: readdir returns it without reading the inode.
    pub kind: FileKind,
    /// Snapshot sequence of its volume at creation; 0 as long as there are no snapshots.
    pub birth_snapshot: u64,
}

/// `B ino dir hash name`: a second or further name of an inode. The value is empty: the key has all fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BackLink;

impl_record_v1!(EntryRecord, BackLink);

/// `X ino name`: the raw value after the version byte, so that reading 64 KiB does not copy them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct XattrRecord(pub Bytes);

impl Record for XattrRecord {
    fn encode(&self) -> Bytes {
        let mut value = Vec::with_capacity(1 + self.0.len());
        value.push(V1);
        value.extend_from_slice(&self.0);
        Bytes::from(value)
    }

    fn decode(value: &Bytes) -> Result<XattrRecord, RecordDecodeError> {
        match value.first() {
            None => Err(RecordDecodeError::Empty),
            Some(&V1) => Ok(XattrRecord(value.slice(1..))),
            Some(other) => Err(RecordDecodeError::Version(*other)),
        }
    }
}
