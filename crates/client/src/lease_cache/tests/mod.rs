//! Tests of the cache: single rules, and a model of a server with another client.

mod model;
mod model_server;
mod rules;

use gupfs_proto::attr::InodeFlags;
use gupfs_proto::{Attr, FileKind, FileMode, InodeId, Name, ProjectId, Timestamp, VolumeId};

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

pub fn attr(ino: u64, kind: FileKind, change: u64) -> Attr {
    let at = Timestamp::default();
    Attr {
        ino: InodeId(ino),
        kind,
        mode: FileMode(0o755),
        nlink: 1,
        uid: 1000,
        gid: 100,
        rdev: 0,
        size: 0,
        blocks: 0,
        atime: at,
        mtime: at,
        ctime: at,
        btime: at,
        change,
        flags: InodeFlags::empty(),
        project: ProjectId(0),
        volume: VolumeId(0),
    }
}
