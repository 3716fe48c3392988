//! Reads the whole directory after a fault that may have changed it, and checks that it is in a possible state.

use super::name_states::{Entry, NameTree};
use super::timed_states::TimedStates;
use super::{ClientInstance, FILE_SIZE_MAX, PrivateDirProgram};
use crate::cluster::call_arguments::{caller, read_write};
use crate::cluster::client_host::Failure;
use crate::cluster::fault_record::SYNCED_AFTER;
use gupfs_client::{EntryName, OpenFileFlags, ReadOptions};
use gupfs_proto::{Attr, FileKind, FsError, InodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long after a look a change of a former instance may still be made, in milliseconds: until its session has ended, or the server has waited
/// long enough for others (docs/SEMANTICS.md).
const LATE_CHANGE_MAX: u64 = 45_000;

/// The names, attributes and bytes found.
struct FoundState {
    tree: NameTree,
    attrs: BTreeMap<InodeId, Attr>,
    bytes: BTreeMap<InodeId, Vec<u8>>,
}

fn links_in(tree: &NameTree, ino: InodeId) -> usize {
    tree.values().filter(|entry| entry.ino == ino).count()
}

impl PrivateDirProgram {
    /// A failed recheck is repeated later.
    pub(super) async fn recheck(&mut self, instance: &ClientInstance<'_>) {
        let (power_losses, since) = (
            self.cluster.fault_record.power_losses(),
            self.cluster.millis(),
        );
        let found = match self.read_directory(instance).await {
            Ok(found) => found,
            Err(failure) => {
                self.record(format_args!("recheck failed: {failure:?}"));
                if self.was_removed_late(&failure) {
                    return;
                }
                return self.require_excuse("recheck", &failure, since, true);
            }
        };
        if self.cluster.fault_record.power_losses() != power_losses
            || instance.client.session() != self.session
        {
            return; // the state may have changed meanwhile; the next recheck reads it again
        }
        if self.was_linked_late(&found) {
            self.has_repeated_recheck = true;
            return;
        }
        // In a live session the client replays its changes, so a power loss of the metadata server undoes none.
        let power_loss_at = match self.has_new_session {
            true => self
                .cluster
                .fault_record
                .metadata_power_loss_after(self.power_losses.metadata),
            false => None,
        };
        let (names_lost_since, bytes_may_be_lost) = (
            power_loss_at.map(|at| at.saturating_sub(SYNCED_AFTER)),
            power_loss_at.is_some() || power_losses.objects != self.power_losses.objects,
        );
        if power_losses.metadata != self.power_losses.metadata && !self.has_new_session {
            self.cluster
                .monitor
                .count("power loss of the metadata server that undid nothing of a program");
        }
        self.record(format_args!(
            "rechecks: names lost since {names_lost_since:?}, bytes may be lost: {bytes_may_be_lost}, {} names",
            found.tree.len()
        ));
        self.check(found, names_lost_since, bytes_may_be_lost);
        self.power_losses = power_losses;
        self.must_recheck = false;
        self.has_new_session = false;
        self.lost_leases = false;
        self.has_repeated_recheck = false;
        self.publish_all();
    }

    /// Whether something that the recheck has found may be gone because the removal that a dead client had sent was made during the recheck.
    fn was_removed_late(&self, failure: &Failure) -> bool {
        let is_gone = matches!(
            failure,
            Failure::Refused(FsError::Stale | FsError::NotFound)
        );
        is_gone && self.has_new_session && self.names.is_unanswered()
    }

    /// Whether a change that a dead client had sent was made during the recheck, after its listing: then a file has more or fewer links than the
    /// listing has names. The next recheck finds the change in both.
    fn was_linked_late(&self, found: &FoundState) -> bool {
        let may_come_late = self.has_new_session && self.names.is_unanswered();
        let mut attrs = found.attrs.iter();
        let differs = attrs.any(|(ino, attr)| attr.nlink as usize != links_in(&found.tree, *ino));
        may_come_late && differs && !self.has_repeated_recheck
    }

    /// `names_lost_since`: changes of names that were answered at this millisecond or later may be undone.
    fn check(&mut self, found: FoundState, names_lost_since: Option<u64>, bytes_may_be_lost: bool) {
        if names_lost_since.is_some() && self.names.depth() > 1 {
            self.cluster.monitor.count("unsynced names at a power loss");
        }
        let tree = found.tree.clone();
        let late_change = match self.has_new_session {
            true => self.names.unanswered_change_not_in(&tree),
            false => None,
        };
        let mut matched = (self.names).match_found(found.tree.clone(), names_lost_since);
        if matched.is_err() && self.found_late_change() {
            matched = self.names.match_found(found.tree, names_lost_since);
        }
        if let Err(mismatch) = matched {
            panic!("c{}: {mismatch}", self.host_number);
        }
        if let Some(change) = late_change {
            self.late_change = Some((self.cluster.millis() + LATE_CHANGE_MAX, change));
        }
        for (ino, bytes) in found.bytes {
            let attr = &found.attrs[&ino];
            let link_count = links_in(&tree, ino);
            assert_eq!(
                attr.nlink as usize, link_count,
                "c{}: link count of {ino}",
                self.host_number
            );
            if attr.size != bytes.len() as u64 {
                self.fail_mismatch(
                    ino,
                    format_args!("{} bytes, size {}", bytes.len(), attr.size),
                );
            }
            let known = self.contents.entry(ino).or_default();
            if bytes_may_be_lost && known.is_unsynced() {
                self.cluster.monitor.count("unsynced bytes at a power loss");
            }
            // In the former session the lease holder reported the size, also of bytes that an object server had lost. Now the
            // objects decide.
            let objects_decide = self.lost_leases && known.is_unsynced();
            let possible = match bytes_may_be_lost || objects_decide {
                true => known.check_after_partial_power_loss(bytes),
                false => known.check_after_kill(bytes),
            };
            if let Err(mismatch) = possible {
                self.fail_mismatch(
                    ino,
                    format_args!("power loss {bytes_may_be_lost}: {mismatch}"),
                );
            }
        }
        // A file without a name is gone, unless it is certainly still open in this client.
        let open = &self.open;
        self.contents.retain(|ino, known| {
            let has_name = tree.values().any(|entry| entry.ino == *ino);
            has_name || (open.contains_key(ino) && !bytes_may_be_lost && !known.is_unanswered())
        });
    }

    async fn read_directory(&self, instance: &ClientInstance<'_>) -> Result<FoundState, Failure> {
        let mut found = FoundState {
            tree: NameTree::new(),
            attrs: BTreeMap::new(),
            bytes: BTreeMap::new(),
        };
        let client = instance.client;
        let mut dirs = vec![self.dir];
        while let Some(dir) = dirs.pop() {
            let caller = caller();
            let listing = client.readdir(&caller, dir, 0, 1000, true);
            for entry in self.call(instance, listing).await?.entries {
                let EntryName::Name(text) = entry.name else {
                    continue;
                };
                let attr = self
                    .call(instance, client.lookup(&caller, dir, &text))
                    .await?;
                client.forget([(attr.ino, 1)]);
                self.cluster.check_creation_time(&attr);
                let is_dir = attr.kind == FileKind::Directory;
                let ino = attr.ino;
                let position = (dir, text.as_bytes()[0] - b'a');
                found.tree.insert(position, Entry { ino, is_dir });
                match is_dir {
                    true => dirs.push(ino),
                    false => {
                        let bytes = self.read_all(instance, ino).await?;
                        found.bytes.insert(ino, bytes);
                        // The attributes are read after the bytes: a truncate that an object server delayed may complete
                        // meanwhile. A read waits for it; getattr does not.
                        let attr = self.call(instance, client.getattr(&caller, ino)).await?;
                        found.attrs.insert(ino, attr);
                    }
                }
            }
        }
        Ok(found)
    }

    /// Reads a file by inode number.
    async fn read_all(
        &self,
        instance: &ClientInstance<'_>,
        ino: InodeId,
    ) -> Result<Vec<u8>, Failure> {
        let client = instance.client;
        let caller = caller();
        // What the object servers have: this client may keep bytes that they have lost.
        let flags = OpenFileFlags {
            direct: true,
            ..OpenFileFlags::default()
        };
        let opened = client.open(&caller, ino, read_write(), flags);
        let file = self.call(instance, opened).await?.file;
        let read = self
            .call(
                instance,
                client.read(&file, 0, 2 * FILE_SIZE_MAX, ReadOptions::default()),
            )
            .await;
        let closed = self.call(instance, client.release(file.id())).await;
        let bytes = read?.concat();
        closed?;
        Ok(bytes)
    }

    fn publish_all(&mut self) {
        let now = self.cluster.event_number();
        let mut published = self.published.lock();
        published.names = TimedStates::since(now, self.names.now().clone());
        let bytes = self.contents.iter().map(|(ino, bytes)| {
            let content = Arc::new(bytes.bytes().to_vec());
            (*ino, TimedStates::since(now, content))
        });
        published.bytes = bytes.collect();
        published.is_uncertain = false;
        let late_change = self.late_change.as_ref();
        published.late_change_until = late_change.map_or(0, |(until, _)| *until);
        published.power_losses = self.power_losses;
        published.rechecks += 1;
        published.session = self.session;
    }
}
