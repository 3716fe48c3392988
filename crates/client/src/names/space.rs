//! statfs(2).

use crate::join;
use crate::limits::SPACE_WAIT;
use crate::reply;
use crate::service::Client;
use gupfs_proto::meta::{MetaOp, MetaReplyBody};
use gupfs_proto::{Caller, FsError, OstId, data};
use std::collections::BTreeSet;

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

impl Client {
    /// # Errors
    /// When the metadata server or every target fails; with one target down the call returns the space of the others.
    pub async fn statfs(&self, caller: &Caller) -> Result<FileSystemSpace, FsError> {
        let MetaReplyBody::StatFs(names) = self.call_mds(caller, MetaOp::StatFs).await? else {
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
        let osts = self.route.all(self.replay_log.map_epoch()).await?;
        let asked = osts.into_iter().map(|ost| async move {
            let space = self.target_space(ost).await;
            TargetSpace { ost, space }
        });
        Ok(join::all(asked.collect()).await)
    }

    /// A target that does not reply does not block the others: operators run df(1) when something is wrong.
    async fn target_space(&self, ost: OstId) -> Result<data::TargetCapacity, FsError> {
        let reply = tokio::select! {
            biased;
            reply = self.call_ost(ost, data::DataOp::Space) => reply?,
            () = self.platform.clock.sleep(SPACE_WAIT) => {
                return Err(FsError::TimedOut(format!("the space of ost{ost}")));
            }
        };
        match reply {
            data::DataReplyBody::Space(space) => Ok(space),
            _ => reply::unexpected("space"),
        }
    }
}
