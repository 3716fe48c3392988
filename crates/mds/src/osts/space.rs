//! Requests the free space of targets.

use super::Targets;
use super::call::unexpected_reply;
use super::entry::{TargetEntry, UnknownSpace};
use crate::limits::SPACE_TIMEOUT;
use futures_util::future::join_all;
use gupfs_proto::data::{DataOp, DataReplyBody, TargetCapacity};
use gupfs_proto::{FsError, OstId};
use std::collections::BTreeMap;

impl Targets {
    /// Asks every local target, concurrently, and stores the replies. A target that does not reply in time
    /// gets no new files until it does. Remote servers report their space by themselves.
    pub async fn poll_space(&self) {
        self.expire_silent();
        let is_local = |entry: &TargetEntry| entry.remote.is_none() && entry.peer.is_some();
        let osts: Vec<OstId> = {
            let list = self.list.lock();
            let ours = list.iter().filter(|(_, entry)| is_local(entry));
            ours.map(|(ost, _)| *ost).collect()
        };
        let polls = osts.into_iter().map(|ost| async move {
            let space = tokio::select! {
                biased;
                space = self.space_of(ost) => space,
                () = self.clock.sleep(SPACE_TIMEOUT) => Err(FsError::TimedOut(format!("the space of ost{ost}"))),
            };
            (ost, space)
        });
        for (ost, space) in join_all(polls).await {
            if let Some(entry) = self.list.lock().get_mut(&ost) {
                entry.space = space.map_err(|error| match error {
                    FsError::TimedOut(_) => UnknownSpace::NotYet(error.to_string()),
                    _ => UnknownSpace::Failed(error.to_string()),
                });
            }
        }
        self.changed.notify_waiters();
    }

    /// Whether no target can be used, and some may become usable soon: their servers have not reported or are silent, or their
    /// disks have not reported their free space.
    pub fn is_waiting_for_first(&self) -> bool {
        let list = self.list.lock();
        list.values().all(|entry| entry.why_not().is_some())
            && list.values().any(TargetEntry::may_become_usable)
    }

    /// Returns when a target can be used, or none is expected any more.
    pub async fn wait_for_usable(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if !self.is_waiting_for_first() {
                return;
            }
            changed.await;
        }
    }

    /// Bytes in use on the disks of all targets, as far as they are known.
    pub fn used_bytes(&self) -> u64 {
        let list = self.list.lock();
        let spaces = (list.values()).filter_map(|entry| entry.space.as_ref().ok());
        let volumes: BTreeMap<u64, u64> = spaces
            .map(|space| (space.volume, space.total.saturating_sub(space.free)))
            .collect();
        volumes.into_values().sum()
    }

    async fn space_of(&self, ost: OstId) -> Result<TargetCapacity, FsError> {
        match self.call(ost, DataOp::Space).await? {
            DataReplyBody::Space(space) => Ok(space),
            other => Err(unexpected_reply(ost, &other)),
        }
    }
}
