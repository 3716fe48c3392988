//! What a client says about itself.

use crate::calls::{Call, Whom};
use crate::metrics::Counted;
use gupfs_platform::BootTime;
use serde::Serialize;

/// The client's part of `gupfs status`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Status {
    pub session: u64,
    /// The newest change seen, and up to where changes are known to survive a power cut.
    pub seq: u64,
    pub durable: u64,
    /// Changes that are kept because they may not be durable yet.
    pub kept: usize,
    /// Open files (handles), the inodes they belong to, and how many of these are held for writing.
    pub open_files: usize,
    pub open_inodes: usize,
    pub held_inodes: usize,
    /// Inodes the kernel knows, and how many of them have no name any more.
    pub known_inodes: usize,
    pub orphans: usize,
    pub lanes_in_use: usize,
    /// Objects of closed files that are written and not synced.
    pub left_unsynced: usize,
    /// At most `limits::STATUS_FILES` of the open or held files, by inode.
    pub files: Vec<FileStatus>,
    /// Calls under way, oldest first.
    pub waiting: Vec<Waiting>,
    pub counted: Counted,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FileStatus {
    /// As in objects' names: hexadecimal.
    pub ino: String,
    pub handles: u32,
    pub writers: u32,
    pub size: u64,
    /// Size, times and objects are this client's word.
    pub held: bool,
    /// There is something the metadata server was not told yet.
    pub untold: bool,
    pub unsynced_objects: usize,
}

/// A call that is under way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Waiting {
    /// "mds" or "ost3".
    pub whom: String,
    pub what: &'static str,
    pub ino: Option<String>,
    pub for_ms: u64,
}

impl Waiting {
    pub(crate) fn of(call: &Call, now: BootTime) -> Waiting {
        Waiting {
            whom: match call.whom {
                Whom::Mds => "mds".to_string(),
                Whom::Ost(ost) => format!("ost{ost}"),
            },
            what: call.what,
            ino: call.ino.map(|ino| format!("{:x}", ino.0)),
            for_ms: now.since(call.since).as_millis() as u64,
        }
    }
}
