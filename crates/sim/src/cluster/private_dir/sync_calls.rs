//! Syncs, and the losses that they report.

use super::{ClientInstance, PrivateDirProgram};
use crate::cluster::client_host::Failure;
use crate::cluster::fault_record::is_loss;
use gupfs_proto::InodeId;

impl PrivateDirProgram {
    pub(super) async fn fsync(&mut self, instance: &ClientInstance<'_>) {
        let Some(ino) = self.any_file() else { return };
        // A power loss while the file is opened counts, too.
        let power_losses = self.cluster.fault_record.power_losses();
        let Some(file) = self.open_once(instance, ino).await else {
            return;
        };
        let since = self.cluster.millis();
        let client = instance.client.clone();
        let synced = self
            .call(instance, client.fsync(&file, self.random.one_in(3)))
            .await;
        match synced {
            Ok(()) => {
                self.record(format_args!("fsync {ino}"));
                self.note_synced(
                    ino,
                    power_losses == self.cluster.fault_record.power_losses(),
                );
            }
            Err(failure) => {
                self.note_reported_loss(ino, &failure);
                self.note_failure(&format!("fsync {ino}"), &failure, since, true);
            }
        }
    }

    /// Calls fsync on an open file before the recheck after a fault. Returns false, so that the recheck follows.
    pub(super) async fn fsync_before_recheck(&mut self, instance: &ClientInstance<'_>) -> bool {
        let open: Vec<InodeId> = self.open.keys().copied().collect();
        if open.is_empty() || self.names.is_unanswered() {
            return false;
        }
        let ino = open[self.random.below(open.len() as u64) as usize];
        let file = self.open[&ino].clone();
        let since = self.cluster.millis();
        match self
            .call(instance, instance.client.fsync(&file, false))
            .await
        {
            Ok(()) => {
                self.record(format_args!("fsync {ino} before the recheck"));
                self.note_synced(ino, false);
            }
            Err(failure) => {
                self.note_reported_loss(ino, &failure);
                self.note_failure(
                    &format!("fsync {ino} before the recheck"),
                    &failure,
                    since,
                    true,
                );
            }
        }
        self.must_recheck = true;
        false
    }

    /// # Panics
    /// When no bytes can be lost because all were synced.
    fn note_reported_loss(&mut self, ino: InodeId, failure: &Failure) {
        if !is_loss(failure) {
            return;
        }
        self.cluster.monitor.count("fsync that reported a loss");
        if let Some(known) = self.contents.get_mut(&ino) {
            // The client does not know that another client synced its bytes, and reports that they may be lost.
            if self.synced_by_others.contains(&ino) && !known.is_unsynced() {
                return;
            }
            assert!(
                known.is_unsynced(),
                "c{} got a report of a loss in {ino}, but all its bytes were synced",
                self.host_number
            );
            // The client reports a loss once; the next fsync concerns the bytes that are there then.
            known.mark_unanswered();
        }
    }

    /// The file's bytes and all names survive a power loss from now on. `without_power_loss`: no power loss came during the
    /// call.
    fn note_synced(&mut self, ino: InodeId, without_power_loss: bool) {
        let now = self.cluster.fault_record.power_losses();
        self.synced_by_others.remove(&ino);
        if let Some(known) = self.contents.get_mut(&ino) {
            known.synced_if_answered();
        }
        if without_power_loss
            && now.metadata == self.power_losses.metadata
            && !self.names.is_unanswered()
        {
            self.names.synced();
        }
    }

    pub(super) async fn fsync_dir(&mut self, instance: &ClientInstance<'_>) {
        let (since, power_losses) = (
            self.cluster.millis(),
            self.cluster.fault_record.power_losses(),
        );
        match self.call(instance, instance.client.fsync_dir()).await {
            Ok(()) => {
                self.record("fsync of the directory");
                let power_losses_now = self.cluster.fault_record.power_losses();
                if power_losses == power_losses_now
                    && power_losses.metadata == self.power_losses.metadata
                {
                    self.names.synced();
                }
            }
            Err(failure) => self.note_failure("fsync of the directory", &failure, since, true),
        }
    }
}
