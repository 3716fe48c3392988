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

    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}
