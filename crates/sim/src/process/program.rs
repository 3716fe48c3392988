//! The program: it does one action after the other and remembers every reply.

mod bytes;
mod names;

use super::action::Action;
use super::file_content::FileContent;
use super::host::ProcessInstance;
use super::name_tree::{NameHistory, NameTree};
use crate::rare_events::RareEvents;
use gupfs_client::{OpenFile, OpenFileFlags};
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::meta::{AccessMode, CreateMode, OpenMode};
use gupfs_proto::{Caller, FileKind, FsError, InodeId, Name, ObjectId, OstId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub struct Program {
    random: FakeRandom,
    pub name_history: NameHistory,
    pub file_contents: BTreeMap<InodeId, FileContent>,
    open: BTreeMap<InodeId, Arc<OpenFile>>,
    /// Every inode number that a reply named.
    inode_numbers: BTreeSet<InodeId>,
    /// Objects that a durable record has named.
    once_named: BTreeSet<(OstId, ObjectId)>,
    /// Number of names that a rename replaced since the last sync.
    pub renamed_over: u64,
    /// Files created in this instance.
    pub files_created: u64,
}

type ActionResult = Result<(), FsError>;

pub fn root_caller() -> Caller {
    Caller::root()
}

pub fn name(name_text: &str) -> Name {
    Name::new(name_text.as_bytes()).expect("a short name")
}

fn name_text(number: u64) -> String {
    char::from(b'a' + number as u8).to_string()
}

/// Opens a file by inode number.
pub async fn open(instance: &ProcessInstance, ino: InodeId) -> Result<Arc<OpenFile>, FsError> {
    let flags = OpenFileFlags::default();
    let opened = instance
        .client
        .open(&root_caller(), ino, read_write(), flags)
        .await?;
    Ok(opened.file)
}

fn create_mode(mode: u32) -> CreateMode {
    CreateMode { mode, umask: 0 }
}

const MODE: u32 = 0o644;

fn read_write() -> OpenMode {
    OpenMode {
        access: AccessMode::READ | AccessMode::WRITE,
        truncate: false,
        kill_privileges: false,
    }
}

impl Program {
    pub fn new(random: FakeRandom) -> Program {
        Program {
            random,
            name_history: NameHistory::new(),
            file_contents: BTreeMap::new(),
            open: BTreeMap::new(),
            inode_numbers: BTreeSet::new(),
            once_named: BTreeSet::new(),
            renamed_over: 0,
            files_created: 0,
        }
    }

    /// A new process has no file open.
    pub fn begin_instance(&mut self) {
        self.open.clear();
        (self.renamed_over, self.files_created) = (0, 0);
        let name_tree = self.name_history.now();
        self.file_contents
            .retain(|ino, _| name_tree.nodes.contains_key(ino));
    }

    /// Returns the objects that exist although no record names them any more. The record of a purge is deleted after the
    /// removal of its objects is durable, so purged objects must not exist. (An object that no durable record has named may
    /// exist: its file was not durable.)
    pub fn reappeared_objects(
        &mut self,
        instance: &ProcessInstance,
        power_loss: bool,
    ) -> Vec<(OstId, ObjectId)> {
        let records = &instance.records;
        let without_record = instance
            .objects
            .iter()
            .filter(|object| !records.names_object(object));
        let reappeared = without_record.filter(|object| self.once_named.contains(object));
        let reappeared = reappeared.copied().collect();
        if power_loss {
            self.once_named.extend(records.named()); // a power loss has removed all records that were not durable
        }
        reappeared
    }

    fn current_names(&self) -> NameTree {
        self.name_history.now().clone()
    }

    fn dir(&self, pick: u64) -> InodeId {
        let nodes = &self.name_history.now().nodes;
        let directories = nodes
            .iter()
            .filter(|(_, node)| node.kind == FileKind::Directory);
        let directories: Vec<InodeId> = [InodeId::ROOT]
            .into_iter()
            .chain(directories.map(|(ino, _)| *ino))
            .collect();
        directories[(pick % directories.len() as u64) as usize]
    }

    fn file(&self, pick: u64) -> Option<InodeId> {
        let nodes = &self.name_history.now().nodes;
        let files: Vec<InodeId> = nodes
            .iter()
            .filter(|(_, node)| node.kind == FileKind::Regular)
            .map(|(ino, _)| *ino)
            .collect();
        let index = pick.checked_rem(files.len() as u64)?;
        Some(files[index as usize])
    }

    fn entry(&self, dir: InodeId, name: u64) -> Option<InodeId> {
        let names = &self.name_history.now().names;
        names.get(&(dir, name_text(name))).copied()
    }

    fn kind(&self, ino: InodeId) -> FileKind {
        self.name_history.now().nodes[&ino].kind
    }

    /// Does the action if it is possible in the current state. After an error, the change counts as made or not made.
    pub async fn perform(
        &mut self,
        instance: &ProcessInstance,
        action: Action,
        rare_events: &mut RareEvents,
    ) -> ActionResult {
        match action {
            Action::Create { dir, name } => self.create(instance, self.dir(dir), name).await,
            Action::Mkdir { dir, name } => self.mkdir(instance, self.dir(dir), name).await,
            Action::Rmdir { dir, name } => self.rmdir(instance, self.dir(dir), name).await,
            Action::Link { file, dir, name } => {
                self.link(instance, file, self.dir(dir), name).await
            }
            Action::Unlink { dir, name } => self.unlink(instance, self.dir(dir), name).await,
            Action::Rename { from, to } => {
                let (from, to) = ((self.dir(from.0), from.1), (self.dir(to.0), to.1));
                self.rename(instance, from, to, rare_events).await
            }
            Action::TmpFile { len } => self.tmpfile(instance, len).await,
            Action::Chmod { file, mode } => self.chmod(instance, file, mode).await,
            Action::Utimes { file, secs } => self.utimes(instance, file, secs).await,
            Action::Write { file, at, len } => self.write(instance, file, Some(at), len).await,
            Action::Append { file, len } => self.write(instance, file, None, len).await,
            Action::Truncate { file, to } => self.truncate(instance, file, to).await,
            Action::Fsync { file, data_only } => self.fsync(instance, file, data_only).await,
            Action::SyncAll => self.sync_all(instance).await,
            Action::Read { file } => self.read(instance, file).await,
            Action::Close { file } => self.close(instance, file).await,
            Action::Wait { millis } => {
                let clock = instance.platform.platform().clock;
                clock.sleep(Duration::from_millis(millis)).await;
                Ok(())
            }
        }
    }

    /// Records the reply to a change of names. A full disk made no change; after any other error the change may have been made.
    fn note_names<T>(&mut self, after: NameTree, reply: &Result<T, FsError>) {
        match reply {
            Ok(_) => self.name_history.push(after),
            Err(FsError::NoSpace) => {}
            Err(_) => {
                self.name_history.push(after);
                self.name_history.mark_unanswered();
            }
        }
    }

    /// # Panics
    /// When the number was used before: inode numbers are never reused, even after a crash that undid the create.
    fn note_new_inode(&mut self, ino: InodeId) {
        assert!(
            self.inode_numbers.insert(ino),
            "inode number {ino} was used twice"
        );
        self.files_created += 1;
    }
}
