//! Records behind names: `E` entries, `B` back links, `X` extended attributes.

use super::{Record, Undecodable, V1, first_version};
use bytes::Bytes;
use gupfs_proto::{FileKind, InodeId};
use serde::{Deserialize, Serialize};

/// `E dir hash name`: what a name refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub ino: InodeId,
    /// So that readdir tells the type without the inode.
    pub kind: FileKind,
    /// Snapshot sequence of its volume when it was made; 0 as long as there are no snapshots.
    pub born: u64,
}

/// `B ino dir hash name`: a second or further name of an inode. The key says it all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BackLink;

first_version!(Entry, BackLink);

/// `X ino name`: the value as it is behind the version byte, so that 64 KiB are not copied to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Xattr(pub Bytes);

impl Record for Xattr {
    fn encode(&self) -> Bytes {
        let mut value = Vec::with_capacity(1 + self.0.len());
        value.push(V1);
        value.extend_from_slice(&self.0);
        Bytes::from(value)
    }

    fn decode(value: &Bytes) -> Result<Xattr, Undecodable> {
        match value.first() {
            None => Err(Undecodable::Empty),
            Some(&V1) => Ok(Xattr(value.slice(1..))),
            Some(other) => Err(Undecodable::Version(*other)),
        }
    }
}
