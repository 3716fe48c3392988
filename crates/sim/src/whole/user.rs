//! The user: runs one action after the other, and remembers every reply.

mod bytes;
mod names;

use super::action::Action;
use super::content::Content;
use super::house::Life;
use super::tree::{History, Tree};
use crate::rare::Rare;
use gupfs_client::{OpenFile, OpenFileFlags};
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::meta::{AccessMode, CreateMode, OpenMode};
use gupfs_proto::{Caller, FileKind, FsError, InodeId, Name, ObjectId, OstId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub struct User {
    dice: FakeRandom,
    pub history: History,
    pub contents: BTreeMap<InodeId, Content>,
    open: BTreeMap<InodeId, Arc<OpenFile>>,
    /// Every number that was ever given.
    given: BTreeSet<InodeId>,
    /// Objects that durable records named once.
    named: BTreeSet<(OstId, ObjectId)>,
    /// Names replaced by a rename since the last sync.
    pub renamed_over: u64,
    /// Files made in this life.
    pub made: u64,
}

type Done = Result<(), FsError>;

pub fn me() -> Caller {
    Caller::root()
}

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a short name")
}

fn text(number: u64) -> String {
    char::from(b'a' + number as u8).to_string()
}

/// Opens by inode number.
pub async fn open(life: &Life, ino: InodeId) -> Result<Arc<OpenFile>, FsError> {
    let flags = OpenFileFlags::default();
    let opened = life.client.open(&me(), ino, both_ways(), flags).await?;
    Ok(opened.file)
}

fn make(mode: u32) -> CreateMode {
    CreateMode { mode, umask: 0 }
}

const MODE: u32 = 0o644;

fn both_ways() -> OpenMode {
    OpenMode {
        access: AccessMode::READ | AccessMode::WRITE,
        truncate: false,
        kill_privileges: false,
    }
}

impl User {
    pub fn new(dice: FakeRandom) -> User {
        User {
            dice,
            history: History::new(),
            contents: BTreeMap::new(),
            open: BTreeMap::new(),
            given: BTreeSet::new(),
            named: BTreeSet::new(),
            renamed_over: 0,
            made: 0,
        }
    }

    /// A new process: nothing is open.
    pub fn reborn(&mut self) {
        self.open.clear();
        (self.renamed_over, self.made) = (0, 0);
        let tree = self.history.now();
        self.contents.retain(|ino, _| tree.nodes.contains_key(ino));
    }

    /// Of the objects that are there, those that no record names any longer: the record of their purge goes only when
    /// their removal is durable, so they must not be there. (What no durable record ever named may be: its file was not
    /// durable either.)
    pub fn returned(&mut self, life: &Life, power_cut: bool) -> Vec<(OstId, ObjectId)> {
        let records = &life.records;
        let nameless = life.objects.iter().filter(|object| !records.names(object));
        let returned = nameless.filter(|object| self.named.contains(object));
        let returned = returned.copied().collect();
        if power_cut {
            self.named.extend(records.named()); // what was not durable is gone
        }
        returned
    }

    fn tree(&self) -> Tree {
        self.history.now().clone()
    }

    fn dir(&self, pick: u64) -> InodeId {
        let nodes = &self.history.now().nodes;
        let dirs = nodes
            .iter()
            .filter(|(_, node)| node.kind == FileKind::Directory);
        let dirs: Vec<InodeId> = [InodeId::ROOT]
            .into_iter()
            .chain(dirs.map(|(ino, _)| *ino))
            .collect();
        dirs[(pick % dirs.len() as u64) as usize]
    }

    fn file(&self, pick: u64) -> Option<InodeId> {
        let nodes = &self.history.now().nodes;
        let files: Vec<InodeId> = nodes
            .iter()
            .filter(|(_, node)| node.kind == FileKind::Regular)
            .map(|(ino, _)| *ino)
            .collect();
        let index = pick.checked_rem(files.len() as u64)?;
        Some(files[index as usize])
    }

    fn at(&self, dir: InodeId, name: u64) -> Option<InodeId> {
        let names = &self.history.now().names;
        names.get(&(dir, text(name))).copied()
    }

    fn kind(&self, ino: InodeId) -> FileKind {
        self.history.now().nodes[&ino].kind
    }

    /// Does it if it can be done. An error is told after what was attempted is noted as perhaps done.
    pub async fn act(&mut self, life: &Life, action: Action, rare: &mut Rare) -> Done {
        match action {
            Action::Create { dir, name } => self.create(life, self.dir(dir), name).await,
            Action::Mkdir { dir, name } => self.mkdir(life, self.dir(dir), name).await,
            Action::Rmdir { dir, name } => self.rmdir(life, self.dir(dir), name).await,
            Action::Link { file, dir, name } => self.link(life, file, self.dir(dir), name).await,
            Action::Unlink { dir, name } => self.unlink(life, self.dir(dir), name).await,
            Action::Rename { from, to } => {
                let (from, to) = ((self.dir(from.0), from.1), (self.dir(to.0), to.1));
                self.rename(life, from, to, rare).await
            }
            Action::TmpFile { len } => self.tmpfile(life, len).await,
            Action::Chmod { file, mode } => self.chmod(life, file, mode).await,
            Action::Utimes { file, secs } => self.utimes(life, file, secs).await,
            Action::Write { file, at, len } => self.write(life, file, Some(at), len).await,
            Action::Append { file, len } => self.write(life, file, None, len).await,
            Action::Truncate { file, to } => self.truncate(life, file, to).await,
            Action::Fsync { file, data_only } => self.fsync(life, file, data_only).await,
            Action::SyncAll => self.sync_all(life).await,
            Action::Read { file } => self.read(life, file).await,
            Action::Close { file } => self.close(life, file).await,
            Action::Wait { millis } => {
                let clock = life.platform.platform().clock;
                clock.sleep(Duration::from_millis(millis)).await;
                Ok(())
            }
        }
    }

    /// Notes a change of names that was answered so. A full disk did nothing; any other error perhaps did it.
    fn note<T>(&mut self, after: Tree, answer: &Result<T, FsError>) {
        match answer {
            Ok(_) => self.history.push(after),
            Err(FsError::NoSpace) => {}
            Err(_) => {
                self.history.push(after);
                self.history.tear();
            }
        }
    }

    /// Inode numbers are never reused, whatever a crash undid.
    fn told_number(&mut self, ino: InodeId) {
        assert!(
            self.given.insert(ino),
            "inode number {ino} was given out twice"
        );
        self.made += 1;
    }
}
