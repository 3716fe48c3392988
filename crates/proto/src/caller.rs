//! The user on whose behalf a client sends a request.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The credentials that the metadata server checks. `groups` are the supplementary groups, without `gid`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
    pub groups: Arc<[u32]>,
}

/// The uid and gid that replace root's if root of the host is squashed: no file belongs to them.
const NOBODY: u32 = 65_534;

impl Caller {
    pub fn root() -> Caller {
        Caller {
            uid: 0,
            gid: 0,
            groups: Arc::from([]),
        }
    }

    pub fn new(uid: u32, gid: u32, groups: impl Into<Arc<[u32]>>) -> Caller {
        Caller {
            uid,
            gid,
            groups: groups.into(),
        }
    }

    /// The caller as a server sees it that squashes root of the caller's host: uid 0, gid 0 and the supplementary group 0 become
    /// those of nobody.
    pub fn squash_root(&mut self) {
        let squashed = |id: u32| match id {
            0 => NOBODY,
            id => id,
        };
        if self.groups.contains(&0) {
            self.groups = self.groups.iter().map(|gid| squashed(*gid)).collect();
        }
        (self.uid, self.gid) = (squashed(self.uid), squashed(self.gid));
    }

    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}
