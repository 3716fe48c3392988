//! Changes and reads of names that other programs change, too.

use super::{ClientInstance, LATE_CHANGE, SharedDirProgram};
use crate::cluster::call_arguments::{caller, create_mode, name, no_flags, read_write};
use crate::cluster::client_host::Failure;
use crate::cluster::possible_states::ChangeId;
use crate::cluster::shared_state::blocks::repeat_value;
use crate::cluster::shared_state::entries::{Change, ChangeOutcome, CreatedInode, SharedNames};
use gupfs_client::{EntryName, OpenFile, OpenedFile, WriteOptions};
use gupfs_proto::meta::{RenameMode, WritePosition};
use gupfs_proto::{Attr, FileKind, FsError, InodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

const NAMES: u64 = 4;

/// The inode that a change returned.
#[derive(Default)]
struct ChangeReply {
    ino: Option<InodeId>,
    /// The attributes in the reply to a create.
    created: Option<Attr>,
    file: Option<Arc<OpenFile>>,
}

impl SharedDirProgram {
    fn any_name(&self) -> u8 {
        self.random.below(NAMES) as u8
    }

    pub(super) async fn change_names(&mut self, instance: ClientInstance<'_>) {
        let inode = |is_dir| CreatedInode {
            created_by: self.cluster.event_number(),
            is_dir,
        };
        let name = self.any_name();
        let change = match self.random.below(10) {
            0..4 => Change::Create {
                name,
                inode: inode(false),
            },
            4 => Change::Create {
                name,
                inode: inode(true),
            },
            5 | 6 => Change::Unlink { name },
            7 => Change::Rmdir { name },
            8 => Change::Rename {
                from: name,
                to: self.any_name(),
            },
            _ => return self.link(instance).await,
        };
        self.change(instance, change, None).await;
    }

    async fn link(&mut self, instance: ClientInstance<'_>) {
        let known = {
            let shared_state = self.shared_state();
            let files = shared_state
                .created_inodes
                .iter()
                .filter(|(_, inode)| !inode.is_dir);
            let files: Vec<(InodeId, CreatedInode)> =
                files.map(|(ino, inode)| (*ino, *inode)).collect();
            let recent = files.len().saturating_sub(4);
            files[recent..].to_vec()
        };
        if known.is_empty() {
            return;
        }
        let (ino, inode) = known[self.random.below(known.len() as u64) as usize];
        let name = self.any_name();
        self.change(instance, Change::Link { inode, name }, Some(ino))
            .await;
    }

    async fn change(
        &mut self,
        instance: ClientInstance<'_>,
        change: Change,
        linked: Option<InodeId>,
    ) {
        let (since, begun) = (self.cluster.millis(), self.cluster.event_number());
        let power_losses = self.cluster.fault_record.power_losses().metadata;
        let dir = self.shared_state().dir;
        let change_id = self.shared_state().names().begin(change);
        let reply = self
            .call(instance, send_change(instance, dir, change, linked))
            .await;
        let now = self.cluster.event_number();
        self.record(format_args!("{change:?}: {:?}", reply.as_ref().map(drop)));
        let (reply, failure) = match reply {
            Ok(change_reply) => (Ok(change_reply), None),
            Err(Failure::ShortWrite) => unreachable!("a change of names writes no bytes"),
            Err(Failure::Killed) => {
                return self.end_change_late(change_id);
            }
            Err(Failure::Refused(refusal)) => {
                (Err(refusal.clone()), Some(Failure::Refused(refusal)))
            }
        };
        // A link to a file that has lost its last name fails with `NotFound` or `Stale`.
        let outcome = match (&reply, change) {
            (Err(FsError::Stale), Change::Link { .. }) => Some(ChangeOutcome::Missing),
            (reply, _) => ChangeOutcome::of(reply),
        };
        let Some(outcome) = outcome else {
            self.shared_state().names().unanswered(now, change_id);
            if let Some(failure) = failure {
                self.require_excuse("change of names", &failure, since, false);
            }
            return;
        };
        self.last_change = Some((begun, power_losses));
        let (fits, candidates) = {
            let mut shared_state = self.shared_state();
            let names = shared_state.names();
            let candidates: Vec<SharedNames> = names.states().cloned().collect();
            (
                names.answered(now, change_id, |it| *it == outcome),
                candidates,
            )
        };
        assert!(
            fits || self.is_lost_link(instance, change, &reply),
            "c{} {change:?} returned {outcome:?}, which no order of the requests explains; the possible states were {candidates:?}",
            self.host_number
        );
        if let Ok(change_reply) = reply {
            self.note_created(instance, change, change_reply, power_losses)
                .await;
        }
    }

    /// The server may still make the change after its client has died.
    fn end_change_late(&self, change_id: ChangeId) {
        let cluster = self.cluster.clone();
        self.cluster.spawn("a late change", async move {
            cluster.sleep(LATE_CHANGE).await;
            let now = cluster.event_number();
            cluster
                .shared_state
                .lock()
                .names()
                .unanswered(now, change_id);
        });
    }

    /// A link in an ended session fails with `Stale`, too.
    fn is_lost_link(
        &self,
        instance: ClientInstance<'_>,
        change: Change,
        reply: &Result<ChangeReply, FsError>,
    ) -> bool {
        let is_link = matches!(change, Change::Link { .. });
        is_link && matches!(reply, Err(FsError::Stale)) && instance.client.session() != self.session
    }

    /// Records a created inode, and writes some new files once.
    async fn note_created(
        &mut self,
        instance: ClientInstance<'_>,
        change: Change,
        change_reply: ChangeReply,
        power_losses: u64,
    ) {
        let Some(ino) = change_reply.ino else { return };
        instance.client.forget([(ino, 1)]);
        let Change::Create { inode, .. } = change else {
            return;
        };
        if let Some(attr) = &change_reply.created {
            self.cluster.note_new_inode(attr);
        }
        self.shared_state().created_inodes.insert(ino, inode);
        let Some(file) = change_reply.file else {
            return;
        };
        self.open.insert(ino, file.clone());
        if self.random.one_in(2) {
            return;
        }
        let len = [512, 9_216, 100 << 10][self.random.below(3) as usize];
        let bytes = repeat_value(self.cluster.value(), len);
        let (since, objects) = (
            self.cluster.millis(),
            self.cluster.fault_record.power_losses().objects,
        );
        let write = instance.client.write(
            &file,
            WritePosition::Offset(0),
            bytes.clone().into(),
            WriteOptions::default(),
        );
        match self.call(instance, write).await {
            Ok(done) => {
                let now = self.cluster.fault_record.power_losses();
                if done.written == len as u64
                    && (now.metadata, now.objects) == (power_losses, objects)
                {
                    self.shared_state().finished.insert(ino, Arc::new(bytes));
                }
            }
            Err(failure) => self.require_excuse("write of a new file", &failure, since, false),
        }
    }

    pub(super) async fn observe_shared_names(&mut self, instance: ClientInstance<'_>) {
        if self.random.one_in(2) {
            return self.list(instance).await;
        }
        let (text, caller) = (self.any_name(), caller());
        let dir = self.shared_state().dir;
        let (since, begun) = (self.cluster.millis(), self.cluster.event_number());
        let name = name(text);
        let read_id = self.shared_state().names().begin_read(begun);
        let found = self
            .call(instance, instance.client.lookup(&caller, dir, &name))
            .await;
        let now = self.cluster.event_number();
        let found = match found {
            Ok(attr) => {
                instance.client.forget([(attr.ino, 1)]);
                self.cluster.check_creation_time(&attr);
                Some((attr.ino, attr.kind == FileKind::Directory))
            }
            Err(Failure::Refused(FsError::NotFound)) => None,
            Err(failure) => {
                self.shared_state().names().abandon_read(read_id);
                return self.require_excuse("lookup", &failure, since, false);
            }
        };
        self.record(format_args!("lookup {text}: {found:?}"));
        let mut shared_state = self.cluster.shared_state.lock();
        let created_inodes = shared_state.created_inodes.clone();
        let names = shared_state.names();
        let fits = names.observed(now, read_id, |names| {
            is_inode(&created_inodes, names.get(&text), found)
        });
        let candidates: Vec<&SharedNames> = names.states().collect();
        assert!(
            fits,
            "c{} found {found:?} as {text}, the possible states are {candidates:?}; {created_inodes:?}",
            self.host_number
        );
    }

    pub(super) async fn list(&mut self, instance: ClientInstance<'_>) {
        let caller = caller();
        let dir = self.shared_state().dir;
        let (since, begun) = (self.cluster.millis(), self.cluster.event_number());
        let listing = instance.client.readdir(&caller, dir, 0, 1000, false);
        let read_id = self.shared_state().names().begin_read(begun);
        let listing = match self.call(instance, listing).await {
            Ok(listing) => listing,
            Err(failure) => {
                self.shared_state().names().abandon_read(read_id);
                return self.require_excuse("readdir", &failure, since, false);
            }
        };
        let now = self.cluster.event_number();
        let entries = listing.entries.iter();
        let found: BTreeMap<u8, (InodeId, bool)> = entries
            .filter_map(|entry| match &entry.name {
                EntryName::Name(text) => {
                    let is_dir = entry.kind == FileKind::Directory;
                    Some((text.as_bytes()[0] - b'a', (entry.ino, is_dir)))
                }
                _ => None,
            })
            .collect();
        self.record(format_args!("readdir: {found:?}"));
        let mut shared_state = self.cluster.shared_state.lock();
        let created_inodes = shared_state.created_inodes.clone();
        let names = shared_state.names();
        let fits = names.observed(now, read_id, |names| {
            (0..NAMES as u8)
                .all(|name| is_inode(&created_inodes, names.get(&name), found.get(&name).copied()))
        });
        let candidates: Vec<&SharedNames> = names.states().collect();
        assert!(
            fits,
            "c{} lists {found:?}, asked for at {since} ms, the possible states are {candidates:?}; {created_inodes:?}",
            self.host_number
        );
    }

    pub(super) async fn sync_names(&mut self, instance: ClientInstance<'_>) {
        let since = self.cluster.millis();
        match self.call(instance, instance.client.fsync_dir()).await {
            Ok(()) => {
                self.record("fsync of the directory");
                let power_losses = self.cluster.fault_record.power_losses().metadata;
                if let Some((begun, power_losses_then)) = self.last_change
                    && power_losses_then == power_losses
                {
                    self.shared_state().names().synced(begun);
                }
            }
            Err(failure) => self.require_excuse("fsync of the directory", &failure, since, true),
        }
    }
}

/// Calls the client's operation for a change.
async fn send_change(
    instance: ClientInstance<'_>,
    dir: InodeId,
    change: Change,
    linked: Option<InodeId>,
) -> Result<ChangeReply, FsError> {
    let (client, caller) = (instance.client, caller());
    let nothing = ChangeReply::default();
    match change {
        Change::Create { name: text, inode } if inode.is_dir => {
            let attr = client
                .mkdir(&caller, dir, &name(text), create_mode())
                .await?;
            Ok(ChangeReply {
                ino: Some(attr.ino),
                created: Some(attr),
                file: None,
            })
        }
        Change::Create { name: text, .. } => {
            let text = name(text);
            let made = client.create(
                &caller,
                dir,
                &text,
                create_mode(),
                true,
                read_write(),
                no_flags(),
            );
            let OpenedFile { file, attr, .. } = made.await?;
            Ok(ChangeReply {
                ino: Some(file.ino()),
                created: Some(attr),
                file: Some(file),
            })
        }
        Change::Unlink { name: text } => client
            .unlink(&caller, dir, &name(text))
            .await
            .map(|_| nothing),
        Change::Rmdir { name: text } => client
            .rmdir(&caller, dir, &name(text))
            .await
            .map(|_| nothing),
        Change::Rename { from, to } => {
            let (old, new) = (name(from), name(to));
            let mode = RenameMode::Replace;
            let renamed = client.rename(&caller, (dir, &old), (dir, &new), mode);
            renamed.await.map(|_| nothing)
        }
        Change::Link { name: text, .. } => {
            let ino = linked.unwrap_or_default();
            client.link(&caller, ino, dir, &name(text)).await?;
            Ok(ChangeReply {
                ino: Some(ino),
                ..nothing
            })
        }
    }
}

/// Whether the inode found may be this one. No program knows the number of an inode whose create got no reply.
fn is_inode(
    created_inodes: &BTreeMap<InodeId, CreatedInode>,
    inode: Option<&CreatedInode>,
    found: Option<(InodeId, bool)>,
) -> bool {
    match (inode, found) {
        (None, None) => true,
        (Some(inode), Some((ino, is_dir))) => match created_inodes.get(&ino) {
            Some(known) => known == inode,
            None => inode.is_dir == is_dir && !created_inodes.values().any(|known| known == inode),
        },
        _ => false,
    }
}
