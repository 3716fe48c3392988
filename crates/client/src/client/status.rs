//! The client's report of itself.

use super::Client;
use crate::limits::STATUS_FILES;
use crate::metrics::ClientCounts;
use crate::status::{ClientStatus, FileStatus, PendingCallStatus};

impl Client {
    pub fn counts(&self) -> ClientCounts {
        self.counters.read()
    }

    pub fn status(&self) -> ClientStatus {
        let files = self.inodes.all();
        let (known_inodes, orphans) = self.lookups.count();
        let described = files.iter().take(STATUS_FILES).map(|file| {
            let state = file.state();
            FileStatus {
                ino: format!("{:x}", file.ino.0),
                handles: state.opens.handles(),
                writers: state.opens.writers(),
                size: state.end_of_file().0,
                has_write_lease: state.has_write_lease(),
                is_lease_concurrent: state.has_concurrent_write_lease(),
                unreported: state.has_unreported(),
                unsynced_objects: state.objects.unsynced(file.ino).len(),
            }
        });
        let (seq, durable) = self.mds.positions();
        let calls = self.pending_calls.pending();
        let now = self.mds.clock().boot();
        let lease_cache = self.mds.lease_cache_status();
        ClientStatus {
            session: self.session().0,
            seq: seq.0,
            durable: durable.0,
            replayable_changes: self.mds.replayable_changes(),
            open_files: self.open_files.len(),
            open_inodes: files.len(),
            leased_inodes: files
                .iter()
                .filter(|file| file.state().has_write_lease())
                .count(),
            concurrently_leased_inodes: files
                .iter()
                .filter(|file| file.state().has_concurrent_write_lease())
                .count(),
            known_inodes,
            orphans,
            leases_accepted: lease_cache.accepted,
            leased_values: lease_cache.values,
            kernel_attributes: self.mds.kernel_attributes_given(),
            kernel_pages: self.mds.kernel_pages().files(),
            cached_bytes: self.mds.data_cache().bytes(),
            unsent_bytes: self.files.write_behind.unsent_bytes(),
            reservations: self.osts.reserved_space().status(),
            slots_in_use: self.mds.slots_in_use(),
            closed_unsynced: self.closed_unsynced.lock().len(),
            files: described.collect(),
            pending_calls: (calls.iter())
                .map(|call| PendingCallStatus::of(call, now))
                .collect(),
            counts: self.counts(),
        }
    }
}
