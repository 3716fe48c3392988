//! Mending the new store until a check finds nothing more to mend, here also what loses something; and saying what.

use super::editor::RecordEditor;
use super::names::{NamedEntry, names_of, path};
use super::rebuild::{FilesWithoutObjects, ObjectsWithoutInode, announce};
use super::{SalvageLoss, Salvaged};
use crate::check::objects::ObjectProblem;
use crate::check::{CheckFault, Store};
use crate::exit::{CliResult, OrCliError};
use crate::store_dir::Marker;
use gupfs_namespace::check::Problem;
use gupfs_namespace::salvage::{mark_maybe_as_present, rebuild_directory};
use gupfs_namespace::{
    BackLink, BackgroundOp, DentryPosition, EntryRecord, Inode, InodeBody, InodeCounter, KeyRange,
    ParsedKey, Purge, PurgeAction, PurgeId, Record, RecordKey, RecordKind,
};
use gupfs_proto::{FileKind, InodeId, VirtualShard};
use std::collections::{BTreeMap, BTreeSet};

/// Looks, each after what the one before found was mended: a chain of lost directories takes one for each of its levels.
const ROUNDS: u32 = 64;

/// Inode numbers that a lost part of the log may have given away in each shard beyond what is known: one block, as they are
/// reserved.
const NUMBERS_HIDDEN: u64 = 65_536;

/// `damaged`: something was lost, so that names and objects may not be of the same time.
pub async fn mend(
    store: &Store,
    marker: &Marker,
    damaged: bool,
    done: &mut Salvaged,
) -> CliResult<()> {
    let editor = RecordEditor::new(&store.kv, store.platform.clock.now());
    let mut work = SalvageRepair {
        store,
        editor: &editor,
        shards: marker.virtual_shards,
        damaged,
        expected: false,
        highest: BTreeMap::new(),
        done,
    };
    for _ in 0..ROUNDS {
        let seen = store.look(false).await?;
        if !work.round(seen.faults).await? {
            break;
        }
    }
    if work.damaged {
        work.skip_numbers().await?;
    }
    let last = store.kv.last_seq();
    let durable = store.kv.wait_durable(last).await;
    durable.or_cli_error(|| "what was mended could not be made durable".into())
}

struct SalvageRepair<'a> {
    store: &'a Store,
    editor: &'a RecordEditor<'a>,
    shards: u16,
    damaged: bool,
    /// Objects in doubt count as present.
    expected: bool,
    /// The highest inode number that an object names, by shard.
    highest: BTreeMap<VirtualShard, u64>,
    done: &'a mut Salvaged,
}

impl SalvageRepair<'_> {
    /// Returns whether something was changed, so that another look may show more.
    async fn round(&mut self, faults: Vec<CheckFault>) -> CliResult<bool> {
        // What cannot be read hides what else is wrong, and inodes that are lost look as if their names and objects were: first
        // the ones, then the others, then what is left.
        if self.drop_unreadable(&faults).await? || self.expect_objects_in_doubt().await? {
            return Ok(true);
        }
        if self.make_inodes(&faults).await? {
            return Ok(true);
        }
        let mut changed = self.mend_links(&faults).await?;
        for fault in faults {
            changed |= match &fault {
                CheckFault::Record(problem) => self.mend_record(problem).await?,
                CheckFault::Object(ObjectProblem::Unannounced { ost, object, .. })
                    if self.damaged =>
                {
                    announce(self.store, self.editor, *ost, *object).await?
                }
                CheckFault::Object(_) | CheckFault::Target(..) => false,
            };
        }
        Ok(changed)
    }

    async fn drop_unreadable(&mut self, faults: &[CheckFault]) -> CliResult<bool> {
        let mut changed = false;
        for fault in faults {
            let key = match fault {
                CheckFault::Record(Problem::UnknownKey(key) | Problem::Undecodable { key, .. }) => {
                    key.clone()
                }
                CheckFault::Record(Problem::BadLayout { ino }) => RecordKey::inode(*ino),
                _ => continue,
            };
            self.lose("RecordLost", fault);
            self.editor.remove(&key);
            self.editor.commit().await?;
            changed = true;
        }
        Ok(changed)
    }

    /// Once something is lost: what is kept of a file may be older than its objects, and then one that is missing is lost, and no hole.
    async fn expect_objects_in_doubt(&mut self) -> CliResult<bool> {
        if !self.damaged || std::mem::replace(&mut self.expected, true) {
            return Ok(false);
        }
        let mut changed = false;
        for shard in (0..self.shards).map(VirtualShard) {
            let mut files = Vec::new();
            let range = KeyRange::of_kind(shard, RecordKind::Inode);
            self.editor.each(&range, |key, value| {
                if let Ok(mut inode) = Inode::decode(value)
                    && mark_maybe_as_present(&mut inode)
                {
                    files.push(key.clone());
                }
            })?;
            for key in files {
                if let Some(mut inode) = self.editor.get::<Inode>(&key)? {
                    mark_maybe_as_present(&mut inode);
                    self.editor.put(&key, &inode);
                    self.editor.commit().await?;
                    changed = true;
                }
            }
        }
        Ok(changed)
    }

    /// Directories that something lies in, names of directories, and files of which there are objects.
    async fn make_inodes(&mut self, faults: &[CheckFault]) -> CliResult<bool> {
        let (mut directories, mut unknown, mut gone) = (
            BTreeSet::new(),
            ObjectsWithoutInode::default(),
            FilesWithoutObjects::default(),
        );
        for fault in faults {
            match fault {
                CheckFault::Record(Problem::Dangling(key)) => {
                    if let Some(ParsedKey::Entry { dir, .. }) = key.parse() {
                        directories.insert(dir);
                    }
                }
                CheckFault::Record(Problem::EntryWithoutInode {
                    dir,
                    hash,
                    name,
                    ino,
                }) => {
                    let entry = self
                        .editor
                        .get::<EntryRecord>(&RecordKey::entry(*dir, *hash, name))?;
                    if entry.is_some_and(|entry| entry.kind == FileKind::Directory) {
                        directories.insert(*ino);
                    }
                }
                CheckFault::Object(ObjectProblem::WithoutInode { ost, object, .. }) => {
                    unknown.add(*ost, *object);
                }
                CheckFault::Object(problem) => gone.add(problem),
                _ => {}
            }
        }
        for ino in unknown.inodes() {
            let highest = self.highest.entry(ino.shard()).or_default();
            *highest = ino.counter().max(*highest);
        }
        let mut changed = false;
        for ino in directories {
            changed |= self.make_directory(ino).await?;
        }
        if self.damaged {
            changed |= unknown.rebuild(self.store, self.editor, self.done).await?;
            changed |= gone.remove(self.store, self.editor, self.done).await?;
        }
        Ok(changed)
    }

    async fn make_directory(&mut self, ino: InodeId) -> CliResult<bool> {
        if self.editor.get::<Inode>(&RecordKey::inode(ino))?.is_some() {
            // It is none: what seems to lie in it is lost.
            return Ok(false);
        }
        let entropy = self.store.platform.random.u64();
        let inode = rebuild_directory(ino, self.editor.now, entropy);
        let text = format!(
            "directory {:x} was made again from its entries: owner and attributes are lost",
            ino.0
        );
        self.done
            .found
            .push(SalvageLoss::new("DirectoryMade", text).of(ino));
        self.editor.put(&RecordKey::inode(ino), &inode);
        self.editor.commit().await?;
        Ok(true)
    }

    /// Inodes whose links do not agree with the entries there are: the entries are believed.
    async fn mend_links(&mut self, faults: &[CheckFault]) -> CliResult<bool> {
        let mut wrong = BTreeSet::new();
        let mut loops = BTreeSet::new();
        for fault in faults {
            match fault {
                CheckFault::Record(
                    Problem::WrongLinks { ino } | Problem::DirectoryWithTwoNames { ino },
                ) => drop(wrong.insert(*ino)),
                CheckFault::Record(Problem::Loop { dir }) => drop(loops.insert(*dir)),
                _ => {}
            }
        }
        // One directory of a loop loses its name, and is found without one by the next look.
        let broken = loops.first().copied();
        wrong.extend(broken);
        if wrong.is_empty() {
            return Ok(false);
        }
        let names = names_of(self.editor, &wrong, self.shards)?;
        for ino in wrong {
            let mut names = names.get(&ino).cloned().unwrap_or_default();
            let Some(mut inode) = self.editor.get::<Inode>(&RecordKey::inode(ino))? else {
                continue;
            };
            let keep = match inode.is_dir() {
                false => names.len(),
                true if Some(ino) == broken || ino == InodeId::ROOT => 0,
                true => 1,
            };
            // The first name is the one that the inode means, if it is there.
            let meant = |named: &NamedEntry| Some(link(named)) == inode.parent;
            if let Some(at) = names.iter().position(meant) {
                names.swap(0, at);
            }
            for named in names.drain(keep..) {
                let text = format!(
                    "a second name of directory {:x}, or one inside of itself",
                    ino.0
                );
                let place = path(self.editor, &named)?;
                self.done
                    .lost
                    .push(SalvageLoss::new("NameLost", text).of(ino).at(place));
                self.editor.remove(&named.key());
            }
            for (key, _) in self.editor.all(&KeyRange::back_links(ino))? {
                self.editor.remove(&key);
            }
            inode.parent = names.first().map(link);
            inode.names = match ino {
                InodeId::ROOT => 1,
                // Counted by the next look.
                _ => (names.len() as u32).max(1),
            };
            for named in names.iter().skip(1) {
                let key = RecordKey::back_link(ino, named.dir, named.hash, &named.name);
                self.editor.put(&key, &BackLink);
            }
            self.editor.put(&RecordKey::inode(ino), &inode);
            self.editor.commit().await?;
            self.done.mended += 1;
        }
        Ok(true)
    }

    async fn mend_record(&mut self, problem: &Problem) -> CliResult<bool> {
        match problem {
            Problem::InodeWithoutEntry { ino } => {
                let chore = BackgroundOp::LinkInLostFound { ino: *ino };
                if !self
                    .store
                    .run_background_op(&chore, &problem.to_string())
                    .await?
                {
                    return Ok(false);
                }
                let place = format!("/lost+found/{:x}", ino.0);
                let text = format!("inode {:x} had lost its name", ino.0);
                self.done.found.push(
                    SalvageLoss::new("NamedInLostFound", text)
                        .of(*ino)
                        .at(place),
                );
                return Ok(true);
            }
            Problem::EntryWithoutInode {
                dir,
                hash,
                name,
                ino,
            } => {
                let named = NamedEntry {
                    dir: *dir,
                    hash: *hash,
                    name: name.clone(),
                };
                if self.editor.get::<EntryRecord>(&named.key())?.is_none() {
                    // It was moved to where lookups find it: the next look names it there.
                    return Ok(true);
                }
                let place = path(self.editor, &named)?;
                let text = "what this name led to is lost, and the name with it";
                let loss = SalvageLoss::new("NameLost", text).of(*ino).at(place);
                self.done.lost.push(loss);
            }
            Problem::CutWithoutRecord { ino } => return self.restore_truncate_record(*ino).await,
            _ if !problem.is_repairable() => return Ok(false),
            _ => self.done.mended += 1,
        }
        let chore = BackgroundOp::Repair(problem.clone());
        self.store
            .run_background_op(&chore, &problem.to_string())
            .await
    }

    /// The objects may hold bytes behind the cut; with its record the next start cuts them.
    async fn restore_truncate_record(&mut self, ino: InodeId) -> CliResult<bool> {
        let inode = self.editor.get::<Inode>(&RecordKey::inode(ino))?;
        let Some(Inode {
            body: InodeBody::File(own),
            volume,
            size,
            ..
        }) = inode
        else {
            return Ok(false);
        };
        let Some(cutting) = own.truncating else {
            return Ok(false);
        };
        let id = PurgeId {
            ino,
            number: cutting.number,
        };
        let cut = Purge {
            action: PurgeAction::Truncate { to: cutting.to },
            layout: own.layout,
            volume,
            size,
        };
        self.editor.put(&RecordKey::purge(id), &cut);
        self.editor.commit().await?;
        self.done.mended += 1;
        Ok(true)
    }

    /// No number that a lost inode had is given away again.
    async fn skip_numbers(&mut self) -> CliResult<()> {
        for shard in (0..self.shards).map(VirtualShard) {
            let key = RecordKey::inode_counter(shard);
            let known = self.editor.get::<InodeCounter>(&key)?;
            let known = known.map_or(0, |numbers| numbers.next);
            let named = self.highest.get(&shard).map_or(0, |highest| highest + 1);
            let next = known.max(named) + NUMBERS_HIDDEN;
            self.editor.put(&key, &InodeCounter { next });
        }
        self.editor.commit().await
    }

    fn lose(&mut self, kind: &'static str, fault: &CheckFault) {
        self.damaged = true;
        self.done
            .lost
            .push(SalvageLoss::new(kind, fault.to_string()));
    }
}

fn link(named: &NamedEntry) -> DentryPosition {
    DentryPosition {
        dir: named.dir,
        hash: named.hash,
    }
}
