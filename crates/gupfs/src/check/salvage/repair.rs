//! Repairs the new store until a scan finds nothing to repair, including repairs that lose data, and reports the losses.

use super::editor::RecordEditor;
use super::names::{NamedEntry, entry_path, find_names};
use super::rebuild::{FilesWithoutObjects, ObjectsWithoutInode, mark_as_existing};
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

/// Most scans, each after the repairs of the previous one: a chain of lost directories takes one for each level.
const ROUNDS: u32 = 64;

/// Inode numbers of each shard, after the highest known one, that the lost part of a log may have assigned: one reserved block.
const INODE_NUMBERS_SKIPPED: u64 = 65_536;

/// `damaged`: records were lost, so that names and objects may be of different times.
///
/// # Errors
/// If the new store cannot be read, written or made durable.
pub async fn repair(
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
        presence_set: false,
        highest: BTreeMap::new(),
        done,
    };
    for _ in 0..ROUNDS {
        let findings = store.scan(false).await?;
        if !work.round(findings.faults).await? {
            break;
        }
    }
    if work.damaged {
        work.skip_inode_numbers().await?;
    }
    let last = store.kv.last_seq();
    let durable = store.kv.wait_durable(last).await;
    durable.or_cli_error(|| "cannot make the repairs durable".into())
}

struct SalvageRepair<'a> {
    store: &'a Store,
    editor: &'a RecordEditor<'a>,
    shards: u16,
    damaged: bool,
    /// Objects of presence *maybe* were set to *present*.
    presence_set: bool,
    /// The highest inode number of an object, by shard.
    highest: BTreeMap<VirtualShard, u64>,
    done: &'a mut Salvaged,
}

impl SalvageRepair<'_> {
    /// Returns whether something was changed, so that another scan may find more.
    async fn round(&mut self, faults: Vec<CheckFault>) -> CliResult<bool> {
        // Unreadable records hide other problems, and a lost inode makes its names and objects look wrong: therefore first unreadable
        // records, then lost inodes, then everything else.
        if self.drop_unreadable(&faults).await? || self.mark_maybe_as_present().await? {
            return Ok(true);
        }
        if self.rebuild_inodes(&faults).await? {
            return Ok(true);
        }
        let mut changed = self.repair_links(&faults).await?;
        for fault in faults {
            changed |= match &fault {
                CheckFault::Record(problem) => self.repair_record(problem).await?,
                CheckFault::Object(ObjectProblem::Unannounced { ost, object, .. })
                    if self.damaged =>
                {
                    mark_as_existing(self.store, self.editor, *ost, *object).await?
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

    /// After a loss, an inode may be older than its objects. Then an object that may exist and is missing is a loss, not a hole.
    async fn mark_maybe_as_present(&mut self) -> CliResult<bool> {
        if !self.damaged || std::mem::replace(&mut self.presence_set, true) {
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

    /// Rebuilds directories that have entries or a name, and files that have objects.
    async fn rebuild_inodes(&mut self, faults: &[CheckFault]) -> CliResult<bool> {
        let (mut directories, mut unknown, mut removed) = (
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
                CheckFault::Object(problem) => removed.add(problem),
                _ => {}
            }
        }
        for ino in unknown.inodes() {
            let highest = self.highest.entry(ino.shard()).or_default();
            *highest = ino.counter().max(*highest);
        }
        let mut changed = false;
        for ino in directories {
            changed |= self.rebuild_directory(ino).await?;
        }
        if self.damaged {
            changed |= unknown.rebuild(self.store, self.editor, self.done).await?;
            changed |= removed.remove(self.store, self.editor, self.done).await?;
        }
        Ok(changed)
    }

    async fn rebuild_directory(&mut self, ino: InodeId) -> CliResult<bool> {
        if self.editor.get::<Inode>(&RecordKey::inode(ino))?.is_some() {
            // The inode is no directory: its entries are lost.
            return Ok(false);
        }
        let entropy = self.store.platform.random.u64();
        let inode = rebuild_directory(ino, self.editor.now, entropy);
        let text = format!(
            "directory {:x} was rebuilt from its entries: owner and attributes are lost",
            ino.0
        );
        self.done
            .found
            .push(SalvageLoss::new("DirectoryMade", text).of(ino));
        self.editor.put(&RecordKey::inode(ino), &inode);
        self.editor.commit().await?;
        Ok(true)
    }

    /// Repairs inodes whose links do not match the entries; the entries are right.
    async fn repair_links(&mut self, faults: &[CheckFault]) -> CliResult<bool> {
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
        // One directory of a loop loses its name; the next scan finds it without a name.
        let broken = loops.first().copied();
        wrong.extend(broken);
        if wrong.is_empty() {
            return Ok(false);
        }
        let names = find_names(self.editor, &wrong, self.shards)?;
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
            // The name that the inode records becomes the first one.
            let recorded = |named: &NamedEntry| Some(position(named)) == inode.parent;
            if let Some(at) = names.iter().position(recorded) {
                names.swap(0, at);
            }
            for named in names.drain(keep..) {
                let text = format!(
                    "a second name of directory {:x}, or a name inside itself",
                    ino.0
                );
                let path = entry_path(self.editor, &named)?;
                self.done
                    .lost
                    .push(SalvageLoss::new("NameLost", text).of(ino).at(path));
                self.editor.remove(&named.key());
            }
            for (key, _) in self.editor.all(&KeyRange::back_links(ino))? {
                self.editor.remove(&key);
            }
            inode.parent = names.first().map(position);
            inode.names = match ino {
                InodeId::ROOT => 1,
                // The next scan corrects the count.
                _ => (names.len() as u32).max(1),
            };
            for named in names.iter().skip(1) {
                let key = RecordKey::back_link(ino, named.dir, named.hash, &named.name);
                self.editor.put(&key, &BackLink);
            }
            self.editor.put(&RecordKey::inode(ino), &inode);
            self.editor.commit().await?;
            self.done.repaired += 1;
        }
        Ok(true)
    }

    async fn repair_record(&mut self, problem: &Problem) -> CliResult<bool> {
        match problem {
            Problem::InodeWithoutEntry { ino } => {
                let operation = BackgroundOp::LinkInLostFound { ino: *ino };
                if !self
                    .store
                    .run_background_op(&operation, &problem.to_string())
                    .await?
                {
                    return Ok(false);
                }
                let path = format!("/lost+found/{:x}", ino.0);
                let text = format!("inode {:x} has lost its name", ino.0);
                self.done
                    .found
                    .push(SalvageLoss::new("NamedInLostFound", text).of(*ino).at(path));
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
                    // A repair moved the entry to the position where lookups find it; the next scan finds it there.
                    return Ok(true);
                }
                let path = entry_path(self.editor, &named)?;
                let text = "the inode of this name is lost, and the name is removed";
                let loss = SalvageLoss::new("NameLost", text).of(*ino).at(path);
                self.done.lost.push(loss);
            }
            Problem::CutWithoutRecord { ino } => return self.restore_truncate_record(*ino).await,
            _ if !problem.is_repairable() => return Ok(false),
            _ => self.done.repaired += 1,
        }
        let operation = BackgroundOp::Repair(problem.clone());
        self.store
            .run_background_op(&operation, &problem.to_string())
            .await
    }

    /// Restores the record of an unfinished truncate, so that the next start truncates the objects.
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
        let Some(truncate) = own.truncating else {
            return Ok(false);
        };
        let id = PurgeId {
            ino,
            number: truncate.number,
        };
        let purge = Purge {
            action: PurgeAction::Truncate { to: truncate.to },
            layout: own.layout,
            volume,
            size,
        };
        self.editor.put(&RecordKey::purge(id), &purge);
        self.editor.commit().await?;
        self.done.repaired += 1;
        Ok(true)
    }

    /// Makes sure that no number of a lost inode is assigned again.
    async fn skip_inode_numbers(&mut self) -> CliResult<()> {
        for shard in (0..self.shards).map(VirtualShard) {
            let key = RecordKey::inode_counter(shard);
            let known = self.editor.get::<InodeCounter>(&key)?;
            let known = known.map_or(0, |numbers| numbers.next);
            let highest = self.highest.get(&shard).map_or(0, |highest| highest + 1);
            let next = known.max(highest) + INODE_NUMBERS_SKIPPED;
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

fn position(named: &NamedEntry) -> DentryPosition {
    DentryPosition {
        dir: named.dir,
        hash: named.hash,
    }
}
