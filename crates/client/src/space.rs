//! statfs(2): the space of all targets.

use crate::join;
use crate::osts::OstCalls;
use crate::reply;
use crate::session::MdsSession;
use gupfs_proto::meta::{MetaOp, MetaReplyBody};
use gupfs_proto::{Caller, FsError, OstId, data};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The space of all targets, in bytes, and the inodes in use. A local file system with several targets counts once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileSystemSpace {
    pub total: u64,
    pub free: u64,
    /// Bytes that writers may still allocate.
    pub available: u64,
    pub inodes: u64,
    /// Removed files whose space is not freed yet.
    pub purging: u64,
    /// Targets that did not reply, and why: their space is not in the numbers.
    pub missing: Vec<(OstId, FsError)>,
}

/// One target's space.
pub struct TargetSpace {
    pub ost: OstId,
    pub space: Result<data::TargetCapacity, FsError>,
}

pub struct Space {
    mds: Arc<MdsSession>,
    osts: Arc<OstCalls>,
}

impl Space {
    pub fn new(mds: Arc<MdsSession>, osts: Arc<OstCalls>) -> Space {
        Space { mds, osts }
    }

    /// # Errors
    /// When the metadata server or every target fails; with one target down the call returns the space of the others.
    pub async fn statfs(&self, caller: &Caller) -> Result<FileSystemSpace, FsError> {
        let MetaReplyBody::StatFs(names) = self.mds.call(caller, MetaOp::StatFs).await? else {
            return reply::unexpected("statfs");
        };
        let mut space = FileSystemSpace {
            inodes: names.inodes,
            purging: names.purging,
            ..FileSystemSpace::default()
        };
        let rooms = self.target_spaces().await?;
        let targets = rooms.len();
        let mut seen = BTreeSet::new();
        for TargetSpace { ost, space: reply } in rooms {
            match reply {
                // Targets on one local file system share its space.
                Ok(room) if seen.insert(room.volume) => {
                    space.total += room.total;
                    space.free += room.free;
                    space.available += room.available;
                }
                Ok(_) => {}
                Err(error) => space.missing.push((ost, error)),
            }
        }
        match space.missing.first() {
            Some((_, error)) if space.missing.len() == targets => Err(error.clone()),
            _ => Ok(space),
        }
    }

    /// The space of each target.
    pub async fn target_spaces(&self) -> Result<Vec<TargetSpace>, FsError> {
        let osts = self.osts.all().await?;
        let asked = osts.into_iter().map(|ost| async move {
            let space = self.osts.space(ost).await;
            TargetSpace { ost, space }
        });
        Ok(join::all(asked.collect()).await)
    }
}
