//! Reads of another program's private directory: a read sees every change that was answered before it.

use super::{ClientInstance, SharedDirProgram};
use crate::cluster::call_arguments::{caller, read_write};
use crate::cluster::client_host::Failure;
use crate::cluster::fault_record::PowerLosses;
use crate::cluster::private_dir::NameTree;
use gupfs_client::{EntryName, OpenFile, ReadOptions};
use gupfs_proto::{FsError, InodeId};
use std::sync::Arc;

/// The number of the other program's rechecks and the power losses. If both are unchanged after a read, the published state was
/// valid during it.
type KnownState = (u64, PowerLosses);

/// More than the size of any file.
const READ_MAX: u64 = 1 << 20;

impl SharedDirProgram {
    pub(super) async fn observe(&mut self, instance: ClientInstance<'_>) {
        let number = self.random.below(self.others.len() as u64) as usize;
        self.observe_program(instance, number).await;
    }

    pub(super) async fn observe_program(&mut self, instance: ClientInstance<'_>, number: usize) {
        let files: Vec<InodeId> = self.others[number].lock().bytes.keys().copied().collect();
        match self.random.below(files.len() as u64 + 1) as usize {
            0 => self.observe_names(instance, number).await,
            file => self.observe_file(instance, number, files[file - 1]).await,
        }
    }

    /// Returns the number of rechecks so far if the published state is certain.
    fn known_state(&self, number: usize) -> Option<KnownState> {
        let (published, power_losses) = (
            self.others[number].lock(),
            self.cluster.fault_record.power_losses(),
        );
        // A lease holder reports its own view, also of bytes that an object server has lost. Without its session, the objects
        // decide.
        let has_session = |session| {
            let mds = self.cluster.metadata.mds();
            mds.is_some_and(|mds| mds.has_session(session))
        };
        let is_authoritative = power_losses.objects == 0 || has_session(published.session);
        (!published.is_uncertain && published.power_losses == power_losses && is_authoritative)
            .then_some((published.rechecks, power_losses))
    }

    async fn observe_names(&mut self, instance: ClientInstance<'_>, number: usize) {
        let Some(known_state) = self.known_state(number) else {
            return;
        };
        let (since, begun, caller) = (self.cluster.millis(), self.cluster.event_number(), caller());
        let dir = self.others[number].lock().dir;
        let listing = instance.client.readdir(&caller, dir, 0, 1000, false);
        let listing = match self.call(instance, listing).await {
            Ok(listing) => listing,
            Err(failure) => {
                return self.require_excuse(
                    "listing of another program's names",
                    &failure,
                    since,
                    false,
                );
            }
        };
        let now = self.cluster.event_number();
        if self.known_state(number) != Some(known_state) {
            return;
        }
        let entries = listing.entries.iter();
        let mut found: Vec<u8> = entries
            .filter_map(|entry| match &entry.name {
                EntryName::Name(text) => Some(text.as_bytes()[0] - b'a'),
                _ => None,
            })
            .collect();
        found.sort_unstable();
        let published = self.others[number].lock();
        if since < published.late_change_until {
            return;
        }
        let Some(states) = published.names.between(begun, now) else {
            return;
        };
        self.cluster
            .monitor
            .count("listing of another program's names");
        let fits = |tree: &&NameTree| {
            let here = tree.keys().filter(|(of, _)| *of == dir);
            here.map(|(_, name)| *name).eq(found.iter().copied())
        };
        assert!(
            states.iter().any(fits),
            "c{} sees the names {found:?} of c{number}, the states of that time are {states:?}",
            self.host_number
        );
    }

    async fn observe_file(&mut self, instance: ClientInstance<'_>, number: usize, ino: InodeId) {
        let Some(known_state) = self.known_state(number) else {
            return;
        };
        let (since, caller) = (self.cluster.millis(), caller());
        let flags = self.cluster.open_flags();
        let opened = instance.client.open(&caller, ino, read_write(), flags);
        let file = match self.call(instance, opened).await {
            Ok(opened) => opened.file,
            // The file has lost its last name.
            Err(Failure::Refused(FsError::Stale | FsError::NotFound)) => return,
            Err(failure) => {
                return self.require_excuse(
                    "read of another program's file",
                    &failure,
                    since,
                    false,
                );
            }
        };
        if self.random.one_in(2) {
            self.sync_for(instance, number, &file, known_state).await;
        }
        let begun = self.cluster.event_number();
        let read = instance
            .client
            .read(&file, 0, READ_MAX, ReadOptions::default());
        let read = self.call(instance, read).await;
        let now = self.cluster.event_number();
        let closed = self
            .call(instance, instance.client.release(file.id()))
            .await;
        if let Err(failure) = closed {
            self.require_excuse("close of another program's file", &failure, since, true);
        }
        let found = match read {
            Ok(found) => found.concat(),
            Err(failure) => {
                return self.require_excuse(
                    "read of another program's file",
                    &failure,
                    since,
                    false,
                );
            }
        };
        if self.known_state(number) != Some(known_state) {
            return;
        }
        self.check_bytes((number, ino), (begun, now), &found);
    }

    /// Compares bytes that were read between two events.
    fn check_bytes(&self, (number, ino): (usize, InodeId), (begun, now): (u64, u64), found: &[u8]) {
        let published = self.others[number].lock();
        let Some(timed_states) = published.bytes.get(&ino) else {
            return;
        };
        let Some(states) = timed_states.between(begun, now) else {
            return;
        };
        self.cluster
            .monitor
            .count("read of another program's bytes");
        // A read may see a part of a concurrent write.
        let lengths = || states.iter().map(|state| state.len());
        let (least, most) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
        assert!(
            (least..=most).contains(&found.len()),
            "c{} sees {} bytes of {ino} of c{number}, not {least}..={most}",
            self.host_number,
            found.len()
        );
        if states.iter().any(|state| ***state == *found) {
            return;
        }
        for (at, byte) in found.iter().enumerate() {
            let as_in = |state: &&Arc<Vec<u8>>| state.get(at).copied().unwrap_or(0) == *byte;
            assert!(
                states.iter().any(as_in),
                "c{} sees byte {at} of {ino} of c{number} as {byte}, which no state of that time has",
                self.host_number
            );
        }
    }

    /// Syncs another program's file. The bytes that it had during the whole call survive a power loss, and its owner relies on
    /// that.
    async fn sync_for(
        &mut self,
        instance: ClientInstance<'_>,
        number: usize,
        file: &Arc<OpenFile>,
        known_state: KnownState,
    ) {
        let (since, begun) = (self.cluster.millis(), self.cluster.event_number());
        let synced = self
            .call(instance, instance.client.fsync(file, false))
            .await;
        let now = self.cluster.event_number();
        if let Err(failure) = synced {
            return self.require_excuse("fsync of another program's file", &failure, since, true);
        }
        if self.known_state(number) != Some(known_state) {
            return;
        }
        let mut published = self.others[number].lock();
        let states = published.bytes.get(&file.ino());
        if let Some([state]) = states
            .and_then(|timed_states| timed_states.between(begun, now))
            .as_deref()
        {
            let state = Arc::clone(state);
            published.synced.push((file.ino(), state));
        }
    }
}
