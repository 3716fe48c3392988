//! Options of a session.

use crate::limits::DATA_CACHE_MAX;
use crate::metrics::Observer;
use gupfs_proto::{Attr, Timestamp};
use std::sync::Arc;

#[derive(Clone)]
pub struct SessionOptions {
    /// The client's name in the server's lists: host and mount point.
    pub name: String,
    pub atime: AtimeMode,
    /// Listing a directory updates its access time, by the same mode. (nodiratime: it does not.)
    pub directory_atime: bool,
    /// Other clients may use the same files: without the write lease of a file this client trusts nothing that another client
    /// could have changed.
    pub shared: bool,
    pub observer: Option<Arc<dyn Observer>>,
    /// Bytes of files that a shared client keeps by its leases. Zero: none, and nothing is read ahead.
    pub data_cache_max: usize,
    /// The client keeps small writes in memory for some milliseconds, and sends them together. The end of its process loses those that were
    /// not sent.
    pub write_behind: bool,
    /// When object servers relay writes of mirrored files to each other.
    pub relay: RelayMode,
}

/// When a client sends the bytes of a mirrored file once, and the first member's server relays them to the other members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelayMode {
    /// Writes of 16 KiB and more, to servers on other hosts: there the client's link is the narrowest part of the way.
    Auto,
    /// All writes, also to servers on this host.
    Always,
    /// The client sends the bytes to each member.
    Never,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            name: "client".to_string(),
            atime: AtimeMode::Relative,
            directory_atime: true,
            shared: false,
            observer: None,
            data_cache_max: DATA_CACHE_MAX,
            write_behind: false,
            relay: RelayMode::Auto,
        }
    }
}

/// When reading a file updates its access time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtimeMode {
    /// relatime: when the access time is not later than mtime or ctime, or is older than a day.
    Relative,
    /// strictatime
    Always,
    /// noatime
    Never,
}

impl AtimeMode {
    /// Whether reading an inode with these attributes now updates its access time.
    pub(crate) fn updates_atime(self, attr: &Attr, now: Timestamp) -> bool {
        const DAY: i64 = 24 * 60 * 60;
        match self {
            AtimeMode::Never => false,
            AtimeMode::Always => true,
            AtimeMode::Relative => {
                attr.atime <= attr.mtime
                    || attr.atime <= attr.ctime
                    || now.secs - attr.atime.secs >= DAY
            }
        }
    }
}
