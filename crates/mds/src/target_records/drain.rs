//! The drain and the removal of a target.

use super::TargetRecords;
use crate::origin::RequestOrigin;
use gupfs_proto::cluster::{
    ClusterReply, ClusterReplyBody, DrainAction, DrainChange, DrainProgress, DrainState,
};
use gupfs_proto::{FsError, OstId};

impl TargetRecords {
    /// `manage_drain` for a command of a former version.
    ///
    /// # Errors
    /// As of `manage_drain`.
    pub async fn drain(&self, ost: OstId, action: DrainAction) -> ClusterReply {
        let change = match action {
            DrainAction::Start => DrainChange::Start { rate: None },
            DrainAction::Cancel => DrainChange::Cancel,
            DrainAction::Ask => DrainChange::Ask,
        };
        let state = self.change_drain(ost, change).await?;
        Ok(ClusterReplyBody::Draining(state.progress))
    }

    /// Begins, changes or ends the drain of a target, durably; returns how far it is.
    ///
    /// # Errors
    /// `TargetDown` for a target that was never recorded, or is lost, if no other target could take an object, or to pause what is not
    /// drained; of the store.
    pub async fn manage_drain(&self, ost: OstId, change: DrainChange) -> ClusterReply {
        let state = self.change_drain(ost, change).await?;
        Ok(ClusterReplyBody::DrainState(state))
    }

    async fn change_drain(&self, ost: OstId, change: DrainChange) -> Result<DrainState, FsError> {
        let now = self.clock.now();
        if let Some(known) = self.targets.drain(ost, change, now)? {
            tracing::info!(%ost, ?change, "drain");
            self.stage_record(ost, known)?;
            // Before the walk begins: it finds every file that was laid out on the target.
            self.placement.update();
            self.replacement.expect();
            if change == DrainChange::Cancel {
                // It leaves objects behind that no layout names.
                self.sweep.request(self.targets.all().len() as u64);
            }
        }
        if change != DrainChange::Ask {
            // Also of an earlier request: its requester may not have received the reply.
            self.make_durable("drain a target").await?;
        }
        let since = self.targets.draining().get(&ost).copied();
        let status = self.replacement.status();
        let walked = status.draining.iter().find(|drain| drain.ost == ost);
        let walked = walked.filter(|drain| Some(drain.since) == since);
        let (used, available_elsewhere) = self.targets.room_for_drain(ost);
        let settings = self.targets.drain_settings(ost);
        let estimate = status.estimate.filter(|_| status.is_walking);
        let progress = DrainProgress {
            since,
            is_drained: walked.is_some_and(|drain| drain.files_left == 0),
            inodes_examined: status.is_walking.then_some(status.inodes_examined),
            files_moved: status.files_moved,
            bytes_moved: status.bytes_moved,
            files_left: walked.map(|drain| drain.files_left),
            why: walked.and(status.last_error),
            used,
            available_elsewhere,
        };
        Ok(DrainState {
            progress,
            rate: settings.rate,
            is_paused: settings.is_paused,
            bytes_left: estimate.map(|estimate| estimate.bytes_left),
            seconds_left: estimate.and_then(|estimate| estimate.seconds_left),
        })
    }

    /// Removes a drained target, durably.
    ///
    /// # Errors
    /// `TargetDown` for a target that is not drained, was never recorded, or was declared lost; of the store.
    pub async fn remove(&self, ost: OstId) -> ClusterReply {
        let since = self.targets.draining().get(&ost).copied();
        if let Some(since) = since {
            let status = self.replacement.status();
            let mut drained = status.draining.iter();
            if !drained.any(|it| (it.ost, it.since, it.files_left) == (ost, since, 0)) {
                let reason = "files may still have objects there".to_owned();
                return Err(FsError::TargetDown { ost, reason });
            }
        }
        let (record, since) = self.targets.remove(ost, self.clock.now())?;
        if let Some(known) = record {
            tracing::warn!(%ost, "the drained target was removed from the cluster");
            self.stage_record(ost, known)?;
            self.placement.update();
            // Mirrored files that had no other domain for a member since the last walk.
            self.replacement.expect();
        }
        self.make_durable("remove a target").await?;
        Ok(ClusterReplyBody::TargetRemoved {
            since,
            is_new: record.is_some(),
        })
    }

    pub(super) async fn make_durable(&self, what: &'static str) -> Result<(), FsError> {
        let origin = RequestOrigin::server(what);
        self.store.durable(origin, self.store.last_seq()).await
    }
}
