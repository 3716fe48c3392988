//! One call, and the check of its result.

use super::name_states::{Entry, NameTree, UNKNOWN_INODE};
use super::timed_states::TimedStates;
use super::{ClientInstance, FILE_SIZE_MAX, FileContent, PrivateDirProgram};
use crate::cluster::call_arguments::ONE_OBJECT;
use crate::cluster::call_arguments::{caller, create_mode, name, no_flags, read_write};
use crate::cluster::client_host::Failure;
use crate::cluster::fault_record::is_loss;
use bytes::Bytes;
use gupfs_client::{EntryName, OpenFile, ReadOptions, WriteOptions};
use gupfs_proto::meta::{RenameMode, WritePosition};
use gupfs_proto::{FsError, InodeId};
use std::sync::Arc;

const NAMES: u64 = 4;

/// Offsets where a file's storage changes: inline bytes, blocks, stripe units, objects.
const BOUNDARIES: [u64; 6] = [
    0,
    4 << 10,
    64 << 10,
    ONE_OBJECT,
    ONE_OBJECT + (64 << 10),
    ONE_OBJECT + (128 << 10),
];

type NameInDir = (InodeId, u8);

/// The expected result of a call about names.
type Expected = Result<(), FsError>;

/// Only the state of the names explains these errors.
fn is_name_error(failure: &Failure) -> bool {
    let Failure::Refused(refusal) = failure else {
        return false;
    };
    matches!(
        refusal,
        FsError::Exists
            | FsError::NotFound
            | FsError::NotEmpty
            | FsError::IsDirectory
            | FsError::NotDirectory
    )
}

impl PrivateDirProgram {
    /// Makes one random call.
    pub(super) async fn act(&mut self, instance: &ClientInstance<'_>) {
        match self.random.below(100) {
            0..16 => self.create(instance).await,
            16..19 => self.mkdir(instance).await,
            19..22 => self.rmdir(instance).await,
            22..28 => self.unlink(instance).await,
            28..35 => self.rename(instance).await,
            35..39 => self.link(instance).await,
            39..58 => self.write(instance, false).await,
            58..66 => self.write(instance, true).await,
            66..71 => self.truncate(instance).await,
            71..80 => self.fsync(instance).await,
            80..83 => self.fsync_dir(instance).await,
            83..92 => self.read(instance).await,
            92..95 => self.list(instance).await,
            95..97 => self.stat(instance).await,
            _ => self.close(instance).await,
        }
    }

    fn any_dir(&self) -> InodeId {
        let dirs = self.names.now().values().filter(|entry| entry.is_dir);
        let dirs: Vec<InodeId> = dirs.map(|entry| entry.ino).collect();
        match self.random.below(3) {
            0 if !dirs.is_empty() => dirs[self.random.below(dirs.len() as u64) as usize],
            _ => self.dir,
        }
    }

    fn any_place(&self) -> NameInDir {
        (self.any_dir(), self.random.below(NAMES) as u8)
    }

    fn at(&self, position: NameInDir) -> Option<Entry> {
        self.names.now().get(&position).copied()
    }

    fn is_empty_dir(&self, dir: InodeId) -> bool {
        !self.names.now().keys().any(|(of, _)| *of == dir)
    }

    /// A random file, by one of its names or because it is open.
    fn any_file(&self) -> Option<InodeId> {
        let files: Vec<InodeId> = self.contents.keys().copied().collect();
        let index = self.random.below(files.len().max(1) as u64);
        files.get(index as usize).copied()
    }

    /// Makes the call, and compares its reply with the expected state. True if it was made.
    async fn names_call<T>(
        &mut self,
        instance: &ClientInstance<'_>,
        what: String,
        expected: Expected,
        after: NameTree,
        call: impl Future<Output = Result<T, FsError>>,
    ) -> Option<T> {
        let (since, power_losses) = (
            self.cluster.millis(),
            self.cluster.fault_record.power_losses(),
        );
        if expected.is_ok() {
            let now = self.cluster.event_number();
            self.published.lock().names.begins(now, after.clone());
        }
        let answer = self.call(instance, call).await;
        self.record(format_args!("{what}: {:?}", answer.as_ref().map(drop)));
        let now = self.cluster.fault_record.power_losses();
        let cut = power_losses.metadata != now.metadata && !self.lives();
        match answer {
            _ if cut => self.note_unanswered(expected, after),
            Ok(made) if expected.is_ok() => {
                self.names.push(self.cluster.millis(), after);
                let now = self.cluster.event_number();
                self.published.lock().names.answered(now);
                return Some(made);
            }
            Err(Failure::Refused(refusal)) if expected == Err(refusal.clone()) => {}
            Err(failure) if !is_name_error(&failure) => {
                self.require_excuse(&what, &failure, since, false);
                self.note_unanswered(expected, after);
            }
            answer => panic!(
                "c{} {what}: {:?}, and it should be {expected:?}",
                self.host_number,
                answer.map(drop)
            ),
        }
        None
    }

    fn note_unanswered(&mut self, expected: Expected, after: NameTree) {
        if expected.is_ok() {
            self.names.mark_unanswered(self.cluster.millis(), after);
        }
        self.must_recheck = true;
        self.published.lock().is_uncertain = true;
    }

    async fn create(&mut self, instance: &ClientInstance<'_>) {
        let position = self.any_place();
        let (expected, mut after) = self.with_new(position, UNKNOWN_INODE, false);
        let client = instance.client.clone();
        let (caller, text) = (caller(), name(position.1));
        let call = async {
            let made = client
                .create(
                    &caller,
                    position.0,
                    &text,
                    create_mode(),
                    true,
                    read_write(),
                    no_flags(),
                )
                .await?;
            Ok(made.file)
        };
        // The reply brings its inode number; no other program compares before.
        let what = format!("create {position:?}");
        let with_unknown_inode = after.clone();
        let Some(file) = self
            .names_call(instance, what, expected, with_unknown_inode, call)
            .await
        else {
            return;
        };
        let ino = file.ino();
        self.cluster.note_new_inode(ino);
        instance.client.forget([(ino, 1)]);
        after.insert(position, Entry { ino, is_dir: false });
        self.renew_names(after);
        self.begin_bytes(ino);
        self.open.insert(ino, file);
    }

    async fn mkdir(&mut self, instance: &ClientInstance<'_>) {
        let position = (self.dir, self.random.below(NAMES) as u8);
        let (expected, mut after) = self.with_new(position, UNKNOWN_INODE, true);
        let client = instance.client.clone();
        let (caller, text) = (caller(), name(position.1));
        let call = client.mkdir(&caller, position.0, &text, create_mode());
        let what = format!("mkdir {position:?}");
        let with_unknown_inode = after.clone();
        let Some(attr) = self
            .names_call(instance, what, expected, with_unknown_inode, call)
            .await
        else {
            return;
        };
        self.cluster.note_new_inode(attr.ino);
        instance.client.forget([(attr.ino, 1)]);
        let is_dir = true;
        let ino = attr.ino;
        after.insert(position, Entry { ino, is_dir });
        self.renew_names(after);
    }

    fn with_new(&self, position: NameInDir, ino: InodeId, is_dir: bool) -> (Expected, NameTree) {
        let mut after = self.names.now().clone();
        if after.contains_key(&position) {
            return (Err(FsError::Exists), after);
        }
        after.insert(position, Entry { ino, is_dir });
        (Ok(()), after)
    }

    /// The newest state, with the number that the reply brought.
    fn renew_names(&mut self, told: NameTree) {
        self.names.tell(told.clone());
        let now = self.cluster.event_number();
        let mut published = self.published.lock();
        published.names.begins(now, told);
        published.names.answered(now);
    }

    fn begin_bytes(&mut self, ino: InodeId) {
        self.contents.insert(ino, FileContent::default());
        let now = self.cluster.event_number();
        let timed_state = TimedStates::since(now, Arc::default());
        self.published.lock().bytes.insert(ino, timed_state);
    }

    async fn rmdir(&mut self, instance: &ClientInstance<'_>) {
        let position = self.any_place();
        let mut after = self.names.now().clone();
        let expected = match self.at(position) {
            None => Err(FsError::NotFound),
            Some(entry) if !entry.is_dir => Err(FsError::NotDirectory),
            Some(entry) if !self.is_empty_dir(entry.ino) => Err(FsError::NotEmpty),
            Some(_) => {
                after.remove(&position);
                Ok(())
            }
        };
        let client = instance.client.clone();
        let (caller, text) = (caller(), name(position.1));
        let call = client.rmdir(&caller, position.0, &text);
        let what = format!("rmdir {position:?}");
        self.names_call(instance, what, expected, after, call).await;
    }

    async fn unlink(&mut self, instance: &ClientInstance<'_>) {
        let position = self.any_place();
        let mut after = self.names.now().clone();
        let victim = self.at(position);
        let expected = match victim {
            None => Err(FsError::NotFound),
            Some(entry) if entry.is_dir => Err(FsError::IsDirectory),
            Some(_) => {
                after.remove(&position);
                Ok(())
            }
        };
        let client = instance.client.clone();
        let (caller, text) = (caller(), name(position.1));
        let call = client.unlink(&caller, position.0, &text);
        let what = format!("unlink {position:?}");
        let removed = self.names_call(instance, what, expected, after, call).await;
        if let (Some(removed), Some(victim)) = (removed, victim) {
            assert_eq!(removed.victim, Some(victim.ino), "c{}", self.host_number);
            self.drop_if_removed(victim.ino);
        }
    }

    /// A file without a name lives as long as it is open.
    fn drop_if_removed(&mut self, ino: InodeId) {
        let has_name = self.names.now().values().any(|entry| entry.ino == ino);
        if !has_name && !self.open.contains_key(&ino) {
            self.contents.remove(&ino);
            self.published.lock().bytes.remove(&ino);
        }
    }

    async fn rename(&mut self, instance: &ClientInstance<'_>) {
        let (from, to) = (self.any_place(), self.any_place());
        let mut after = self.names.now().clone();
        let (moved, replaced) = (self.at(from), self.at(to));
        let expected = match (moved, replaced) {
            (None, _) => Err(FsError::NotFound),
            // Directories keep their parent, so that none moves into itself.
            (Some(moved), _) if moved.is_dir && from.0 != to.0 => return,
            // Two errors apply, and the server may return either.
            (Some(moved), Some(replaced))
                if replaced.is_dir && !moved.is_dir && !self.is_empty_dir(replaced.ino) =>
            {
                return;
            }
            (Some(moved), Some(replaced)) if replaced.ino == moved.ino => Ok(()),
            (Some(moved), Some(replaced)) if replaced.is_dir && !moved.is_dir => {
                Err(FsError::IsDirectory)
            }
            (Some(moved), Some(replaced)) if moved.is_dir && !replaced.is_dir => {
                Err(FsError::NotDirectory)
            }
            (Some(_), Some(replaced)) if replaced.is_dir && !self.is_empty_dir(replaced.ino) => {
                Err(FsError::NotEmpty)
            }
            (Some(moved), _) => {
                after.remove(&from);
                after.insert(to, moved);
                Ok(())
            }
        };
        let client = instance.client.clone();
        let (caller, old, new) = (caller(), name(from.1), name(to.1));
        let mode = RenameMode::Replace;
        let call = client.rename(&caller, (from.0, &old), (to.0, &new), mode);
        let what = format!("rename {from:?} {to:?}");
        let renamed = self.names_call(instance, what, expected, after, call).await;
        if let (Some(_), Some(replaced)) = (renamed, replaced) {
            self.drop_if_removed(replaced.ino);
        }
    }

    async fn link(&mut self, instance: &ClientInstance<'_>) {
        let to = self.any_place();
        let files = self.names.now().values().filter(|entry| !entry.is_dir);
        let files: Vec<InodeId> = files.map(|entry| entry.ino).collect();
        if files.is_empty() {
            return;
        }
        let ino = files[self.random.below(files.len() as u64) as usize];
        let (expected, after) = self.with_new(to, ino, false);
        let client = instance.client.clone();
        let (caller, text) = (caller(), name(to.1));
        let call = client.link(&caller, ino, to.0, &text);
        let what = format!("link {ino} {to:?}");
        if let Some(attr) = self.names_call(instance, what, expected, after, call).await {
            let link_count = self
                .names
                .now()
                .values()
                .filter(|entry| entry.ino == ino)
                .count();
            assert_eq!((attr.ino, attr.nlink as usize), (ino, link_count));
            instance.client.forget([(ino, 1)]);
        }
    }

    async fn opened(
        &mut self,
        instance: &ClientInstance<'_>,
        ino: InodeId,
    ) -> Option<Arc<OpenFile>> {
        if let Some(file) = self.open.get(&ino) {
            return Some(file.clone());
        }
        let (since, caller) = (self.cluster.millis(), caller());
        let opened = instance.client.open(&caller, ino, read_write(), no_flags());
        match self.call(instance, opened).await {
            Ok(opened) => {
                self.open.insert(ino, opened.file.clone());
                Some(opened.file)
            }
            Err(failure) => {
                self.fails(&format!("open {ino}"), &failure, since, false);
                None
            }
        }
    }

    /// Requires an excuse for the failure, and schedules a look at what is there now.
    fn fails(&mut self, what: &str, failure: &Failure, since: u64, late: bool) {
        self.record(format_args!("{what}: {failure:?}"));
        self.require_excuse(what, failure, since, late);
        self.must_recheck = true;
        self.published.lock().is_uncertain = true;
    }

    async fn write(&mut self, instance: &ClientInstance<'_>, appends: bool) {
        let Some(ino) = self.any_file() else { return };
        let Some(file) = self.opened(instance, ino).await else {
            return;
        };
        let Some(known) = self.contents.get(&ino) else {
            return;
        };
        let mut after = known.bytes().to_vec();
        let at = match appends {
            true => after.len() as u64,
            false => self.offset(),
        };
        let mut data = vec![0; self.len() as usize];
        let len = data.len() as u64;
        if at + len > FILE_SIZE_MAX {
            return;
        }
        self.random.fill(&mut data);
        after.resize(after.len().max((at + len) as usize), 0);
        after[at as usize..(at + len) as usize].copy_from_slice(&data);
        let whence = match appends {
            true => WritePosition::End,
            false => WritePosition::Offset(at),
        };
        let client = instance.client.clone();
        let mut data = Bytes::from(data);
        let call = async {
            // A program continues after a short write; if it cannot, it learns why.
            let mut began = None;
            while !data.is_empty() {
                let next = match began {
                    Some(from) if !appends => WritePosition::Offset(from + len - data.len() as u64),
                    _ => whence,
                };
                let done = client
                    .write(&file, next, data.clone(), WriteOptions::default())
                    .await?;
                began.get_or_insert(done.offset);
                data = data.split_off(done.written as usize);
            }
            Ok(began)
        };
        let what = format!("write {ino} {at}+{len} appends {appends}");
        let offset = self.bytes_call(instance, what, ino, after, call).await;
        if let Some(offset) = offset
            && offset != Some(at)
        {
            self.fail_mismatch(ino, format_args!("{at} was written at {offset:?}"));
        }
    }

    async fn truncate(&mut self, instance: &ClientInstance<'_>) {
        let Some(ino) = self.any_file() else { return };
        let Some(_file) = self.opened(instance, ino).await else {
            return;
        };
        let Some(known) = self.contents.get(&ino) else {
            return;
        };
        let to = match self.random.one_in(3) {
            true => 0,
            false => self.offset(),
        };
        let mut after = known.bytes().to_vec();
        after.resize(to as usize, 0);
        let client = instance.client.clone();
        let caller = caller();
        let call = client.truncate(&caller, ino, to, true, false);
        let what = format!("truncate {ino} {to}");
        if let Some(attr) = self.bytes_call(instance, what, ino, after, call).await {
            assert_eq!(attr.size, to);
        }
    }

    async fn bytes_call<T>(
        &mut self,
        instance: &ClientInstance<'_>,
        what: String,
        ino: InodeId,
        after: Vec<u8>,
        call: impl Future<Output = Result<T, FsError>>,
    ) -> Option<T> {
        let (since, power_losses) = (
            self.cluster.millis(),
            self.cluster.fault_record.power_losses(),
        );
        let now = self.cluster.event_number();
        if let Some(timed_states) = self.published.lock().bytes.get_mut(&ino) {
            timed_states.begins(now, Arc::new(after.clone()));
        }
        let answer = self.call(instance, call).await;
        let refused = answer.as_ref().map(drop);
        self.record(format_args!("{what}: {refused:?}"));
        let known = self.contents.get_mut(&ino).expect("a known file");
        known.push(after);
        match answer {
            Ok(answer) => {
                let now = self.cluster.event_number();
                if let Some(timed_states) = self.published.lock().bytes.get_mut(&ino) {
                    timed_states.answered(now);
                }
                match self.lost_nothing_since(power_losses) {
                    true => return Some(answer),
                    // The reply came in time for the power loss, or after it: both are possible.
                    false => self.must_recheck = true,
                }
            }
            Err(failure) => {
                known.mark_unanswered();
                self.fails(&what, &failure, since, false);
            }
        }
        None
    }

    fn offset(&self) -> u64 {
        let boundary = BOUNDARIES[self.random.below(BOUNDARIES.len() as u64) as usize];
        match self.random.below(3) {
            0 => boundary,
            1 => boundary.saturating_sub(self.random.below(100)),
            _ => boundary + self.random.below(100),
        }
    }

    fn len(&self) -> u64 {
        match self.random.below(5) {
            0 => 1 + self.random.below(200),
            1 => 4_096,
            2 => 1 + self.random.below(9_000),
            3 => 64 << 10,
            _ => 1 + self.random.below(100_000),
        }
    }

    async fn fsync(&mut self, instance: &ClientInstance<'_>) {
        let Some(ino) = self.any_file() else { return };
        let Some(file) = self.opened(instance, ino).await else {
            return;
        };
        let (since, power_losses) = (
            self.cluster.millis(),
            self.cluster.fault_record.power_losses(),
        );
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
                self.fails(&format!("fsync {ino}"), &failure, since, true);
            }
        }
    }

    /// Calls fsync before looking what a power loss took. True if it did so.
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
                self.record(format_args!("fsync {ino}, blindly"));
                self.note_synced(ino, false);
            }
            Err(failure) => {
                self.note_reported_loss(ino, &failure);
                self.fails(&format!("fsync {ino} blindly"), &failure, since, true);
            }
        }
        self.must_recheck = true;
        false
    }

    /// # Panics
    /// When nothing can be lost: all bytes were synced.
    fn note_reported_loss(&mut self, ino: InodeId, failure: &Failure) {
        if !is_loss(failure) {
            return;
        }
        self.cluster.monitor.count("fsync that told of a loss");
        if let Some(known) = self.contents.get_mut(&ino) {
            // The client does not know that another client synced its bytes, and reports that they may be lost.
            if self.synced_by_others.contains(&ino) && !known.is_unsynced() {
                return;
            }
            assert!(
                known.is_unsynced(),
                "c{} hears of a loss in {ino}, where all was synced",
                self.host_number
            );
            // The client reports a loss once: the next fsync is about what there is then.
            known.mark_unanswered();
        }
    }

    /// Its bytes and all names survive a power loss from now on; `in_peace`: no power loss came meanwhile.
    fn note_synced(&mut self, ino: InodeId, in_peace: bool) {
        let now = self.cluster.fault_record.power_losses();
        self.synced_by_others.remove(&ino);
        if let Some(known) = self.contents.get_mut(&ino) {
            known.synced_if_answered();
        }
        if in_peace && now.metadata == self.power_losses.metadata && !self.names.is_unanswered() {
            self.names.synced();
        }
    }

    async fn fsync_dir(&mut self, instance: &ClientInstance<'_>) {
        let (since, power_losses) = (
            self.cluster.millis(),
            self.cluster.fault_record.power_losses(),
        );
        match self.call(instance, instance.client.fsync_dir()).await {
            Ok(()) => {
                self.record("fsync of the directory");
                let cuts_now = self.cluster.fault_record.power_losses();
                if power_losses == cuts_now && power_losses.metadata == self.power_losses.metadata {
                    self.names.synced();
                }
            }
            Err(failure) => self.fails("fsync of the directory", &failure, since, true),
        }
    }

    async fn read(&mut self, instance: &ClientInstance<'_>) {
        let Some(ino) = self.any_file() else { return };
        let Some(file) = self.opened(instance, ino).await else {
            return;
        };
        let (since, power_losses) = (
            self.cluster.millis(),
            self.cluster.fault_record.power_losses(),
        );
        let (at, len) = match self.random.one_in(2) {
            true => (0, 2 * FILE_SIZE_MAX),
            false => (self.offset(), self.len()),
        };
        let call = instance.client.read(&file, at, len, ReadOptions::default());
        match self.call(instance, call).await {
            Ok(found) if self.lost_nothing_since(power_losses) => {
                let found = found.concat();
                self.record(format_args!("read {ino} {at}+{len}: {}", found.len()));
                let Some(known) = self.contents.get(&ino) else {
                    return;
                };
                let bytes = known.bytes();
                let end = bytes.len().min((at + len) as usize);
                let expected = bytes.get(at as usize..end).unwrap_or_default();
                if found != expected {
                    let mut both = expected.iter().zip(&found);
                    let differs = both.position(|(one, other)| one != other);
                    let lens = (found.len(), expected.len());
                    self.fail_mismatch(
                        ino,
                        format_args!("read {at}+{len}: {lens:?} bytes, differ at {differs:?}"),
                    );
                }
            }
            Ok(_) => self.must_recheck = true,
            Err(failure) => self.fails(&format!("read {ino}"), &failure, since, false),
        }
    }

    async fn list(&mut self, instance: &ClientInstance<'_>) {
        let (dir, caller) = (self.any_dir(), caller());
        let (since, power_losses) = (
            self.cluster.millis(),
            self.cluster.fault_record.power_losses(),
        );
        let call = instance.client.readdir(&caller, dir, 0, 1000, false);
        match self.call(instance, call).await {
            Ok(listing) if self.lost_nothing_since(power_losses) => {
                let entries = listing.entries.iter();
                let mut found: Vec<(u8, InodeId)> = entries
                    .filter_map(|entry| match &entry.name {
                        EntryName::Name(text) => Some((text.as_bytes()[0] - b'a', entry.ino)),
                        _ => None,
                    })
                    .collect();
                found.sort_unstable();
                let names = self.names.now().iter().filter(|((of, _), _)| *of == dir);
                let expected: Vec<(u8, InodeId)> =
                    names.map(|((_, name), entry)| (*name, entry.ino)).collect();
                assert_eq!(found, expected, "c{} lists {dir}", self.host_number);
            }
            Ok(_) => self.must_recheck = true,
            Err(failure) => self.fails("readdir", &failure, since, false),
        }
    }

    async fn stat(&mut self, instance: &ClientInstance<'_>) {
        let (position, caller) = (self.any_place(), caller());
        let (since, power_losses) = (
            self.cluster.millis(),
            self.cluster.fault_record.power_losses(),
        );
        let text = name(position.1);
        let call = instance.client.lookup(&caller, position.0, &text);
        let found = self.call(instance, call).await;
        if !self.lost_nothing_since(power_losses) {
            self.must_recheck = true;
            return;
        }
        match (found, self.at(position)) {
            (Ok(attr), Some(entry)) => {
                instance.client.forget([(attr.ino, 1)]);
                assert_eq!(attr.ino, entry.ino, "c{} {position:?}", self.host_number);
                if let Some(known) = self.contents.get(&entry.ino) {
                    let len = known.len();
                    if attr.size != len {
                        self.fail_mismatch(
                            entry.ino,
                            format_args!("size {}, not {len}", attr.size),
                        );
                    }
                }
            }
            (Err(Failure::Refused(FsError::NotFound)), None) => {}
            (Err(failure), _) => {
                self.fails(&format!("lookup {position:?}"), &failure, since, false)
            }
            (Ok(_), None) => panic!("c{}: {position:?} is there", self.host_number),
        }
    }

    async fn close(&mut self, instance: &ClientInstance<'_>) {
        let open: Vec<InodeId> = self.open.keys().copied().collect();
        if open.is_empty() {
            return;
        }
        let ino = open[self.random.below(open.len() as u64) as usize];
        let file = self.open.remove(&ino).expect("just listed");
        let since = self.cluster.millis();
        let closed = self
            .call(instance, instance.client.release(file.id()))
            .await;
        self.record(format_args!("close {ino}: {closed:?}"));
        self.drop_if_removed(ino);
        if let Err(failure) = closed {
            self.fails(&format!("close {ino}"), &failure, since, true);
        }
    }
}
