//! How a client behaves.

use crate::metrics::Observer;
use gupfs_proto::{Attr, Timestamp};
use std::sync::Arc;

#[derive(Clone)]
pub struct Options {
    /// What the server calls this client in lists: host and mount point.
    pub name: String,
    pub atime: AtimeRule,
    /// Listing a directory moves its access time, by the same rule. (nodiratime: it does not.)
    pub directory_atime: bool,
    /// Other clients may use the same files: of what is not held here nothing is believed that another could have changed.
    pub shared: bool,
    /// What the site calls the job, for the servers' accounting; 0 is unknown.
    pub job: u64,
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            name: "client".to_string(),
            atime: AtimeRule::Relative,
            directory_atime: true,
            shared: false,
            job: 0,
            observer: None,
        }
    }
}

/// When reading a file moves its access time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtimeRule {
    /// relatime: when it is not later than the last change, or older than a day.
    Relative,
    /// strictatime
    Always,
    /// noatime
    Never,
}

impl AtimeRule {
    /// Whether reading something with these attributes now moves its access time.
    pub(crate) fn moves(self, attr: &Attr, now: Timestamp) -> bool {
        const DAY: i64 = 24 * 60 * 60;
        match self {
            AtimeRule::Never => false,
            AtimeRule::Always => true,
            AtimeRule::Relative => {
                attr.atime <= attr.mtime
                    || attr.atime <= attr.ctime
                    || now.secs - attr.atime.secs >= DAY
            }
        }
    }
}
