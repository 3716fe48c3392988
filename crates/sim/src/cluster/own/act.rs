//! One call, and the check of its result.

use super::eras::Eras;
use super::names::{Entry, Tree, UNTOLD};
use super::{FileContent, LONGEST, Own, With};
use crate::cluster::arguments::ONE_OBJECT;
use crate::cluster::arguments::{both_ways, flags, make, me, name};
use crate::cluster::machine::Failure;
use crate::cluster::troubles::is_loss;
use bytes::Bytes;
use gupfs_client::{EntryName, OpenFile, ReadOptions, WriteOptions};
use gupfs_proto::meta::{RenameMode, WritePosition};
use gupfs_proto::{FsError, InodeId};
use std::sync::Arc;

const NAMES: u64 = 4;

/// Offsets where a file's storage changes: inline bytes, blocks, stripe units, objects.
const BORDERS: [u64; 6] = [
    0,
    4 << 10,
    64 << 10,
    ONE_OBJECT,
    ONE_OBJECT + (64 << 10),
    ONE_OBJECT + (128 << 10),
];

type Place = (InodeId, u8);

/// The expected result of a call about names.
type Expected = Result<(), FsError>;

/// Only the state of the names explains these errors.
fn is_about_names(failure: &Failure) -> bool {
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

impl Own {
    /// Makes one random call.
    pub(super) async fn act(&mut self, with: &With<'_>) {
        match self.random.below(100) {
            0..16 => self.create(with).await,
            16..19 => self.mkdir(with).await,
            19..22 => self.rmdir(with).await,
            22..28 => self.unlink(with).await,
            28..35 => self.rename(with).await,
            35..39 => self.link(with).await,
            39..58 => self.write(with, false).await,
            58..66 => self.write(with, true).await,
            66..71 => self.truncate(with).await,
            71..80 => self.fsync(with).await,
            80..83 => self.fsync_dir(with).await,
            83..92 => self.read(with).await,
            92..95 => self.list(with).await,
            95..97 => self.stat(with).await,
            _ => self.close(with).await,
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

    fn any_place(&self) -> Place {
        (self.any_dir(), self.random.below(NAMES) as u8)
    }

    fn at(&self, place: Place) -> Option<Entry> {
        self.names.now().get(&place).copied()
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
        with: &With<'_>,
        what: String,
        expected: Expected,
        after: Tree,
        call: impl Future<Output = Result<T, FsError>>,
    ) -> Option<T> {
        let (since, cuts) = (self.site.millis(), self.site.troubles.cuts());
        if expected.is_ok() {
            let now = self.site.moment();
            self.shown.lock().names.begins(now, after.clone());
        }
        let answer = self.call(with, call).await;
        self.say(format_args!("{what}: {:?}", answer.as_ref().map(drop)));
        let now = self.site.troubles.cuts();
        let cut = cuts.metadata != now.metadata && !self.lives();
        match answer {
            _ if cut => self.not_answered(expected, after),
            Ok(made) if expected.is_ok() => {
                self.names.push(self.site.millis(), after);
                let now = self.site.moment();
                self.shown.lock().names.answered(now);
                return Some(made);
            }
            Err(Failure::Refused(refusal)) if expected == Err(refusal.clone()) => {}
            Err(failure) if !is_about_names(&failure) => {
                self.excuse(&what, &failure, since, false);
                self.not_answered(expected, after);
            }
            answer => panic!(
                "c{} {what}: {:?}, and it should be {expected:?}",
                self.machine,
                answer.map(drop)
            ),
        }
        None
    }

    fn not_answered(&mut self, expected: Expected, after: Tree) {
        if expected.is_ok() {
            self.names.mark_unanswered(self.site.millis(), after);
        }
        self.must_look = true;
        self.shown.lock().unsure = true;
    }

    async fn create(&mut self, with: &With<'_>) {
        let place = self.any_place();
        let (expected, mut after) = self.with_new(place, UNTOLD, false);
        let client = with.client.clone();
        let (me, text) = (me(), name(place.1));
        let call = async {
            let made = client
                .create(&me, place.0, &text, make(), true, both_ways(), flags())
                .await?;
            Ok(made.file)
        };
        // The reply brings its inode number; no other program compares before.
        let what = format!("create {place:?}");
        let untold = after.clone();
        let Some(file) = self.names_call(with, what, expected, untold, call).await else {
            return;
        };
        let ino = file.ino();
        self.site.given(ino);
        with.client.forget([(ino, 1)]);
        after.insert(place, Entry { ino, is_dir: false });
        self.renew_names(after);
        self.begin_bytes(ino);
        self.open.insert(ino, file);
    }

    async fn mkdir(&mut self, with: &With<'_>) {
        let place = (self.dir, self.random.below(NAMES) as u8);
        let (expected, mut after) = self.with_new(place, UNTOLD, true);
        let client = with.client.clone();
        let (me, text) = (me(), name(place.1));
        let call = client.mkdir(&me, place.0, &text, make());
        let what = format!("mkdir {place:?}");
        let untold = after.clone();
        let Some(attr) = self.names_call(with, what, expected, untold, call).await else {
            return;
        };
        self.site.given(attr.ino);
        with.client.forget([(attr.ino, 1)]);
        let is_dir = true;
        let ino = attr.ino;
        after.insert(place, Entry { ino, is_dir });
        self.renew_names(after);
    }

    fn with_new(&self, place: Place, ino: InodeId, is_dir: bool) -> (Expected, Tree) {
        let mut after = self.names.now().clone();
        if after.contains_key(&place) {
            return (Err(FsError::Exists), after);
        }
        after.insert(place, Entry { ino, is_dir });
        (Ok(()), after)
    }

    /// The newest state, with the number that the reply brought.
    fn renew_names(&mut self, told: Tree) {
        self.names.tell(told.clone());
        let now = self.site.moment();
        let mut shown = self.shown.lock();
        shown.names.begins(now, told);
        shown.names.answered(now);
    }

    fn begin_bytes(&mut self, ino: InodeId) {
        self.contents.insert(ino, FileContent::default());
        let now = self.site.moment();
        let era = Eras::since(now, Arc::default());
        self.shown.lock().bytes.insert(ino, era);
    }

    async fn rmdir(&mut self, with: &With<'_>) {
        let place = self.any_place();
        let mut after = self.names.now().clone();
        let expected = match self.at(place) {
            None => Err(FsError::NotFound),
            Some(entry) if !entry.is_dir => Err(FsError::NotDirectory),
            Some(entry) if !self.is_empty_dir(entry.ino) => Err(FsError::NotEmpty),
            Some(_) => {
                after.remove(&place);
                Ok(())
            }
        };
        let client = with.client.clone();
        let (me, text) = (me(), name(place.1));
        let call = client.rmdir(&me, place.0, &text);
        let what = format!("rmdir {place:?}");
        self.names_call(with, what, expected, after, call).await;
    }

    async fn unlink(&mut self, with: &With<'_>) {
        let place = self.any_place();
        let mut after = self.names.now().clone();
        let victim = self.at(place);
        let expected = match victim {
            None => Err(FsError::NotFound),
            Some(entry) if entry.is_dir => Err(FsError::IsDirectory),
            Some(_) => {
                after.remove(&place);
                Ok(())
            }
        };
        let client = with.client.clone();
        let (me, text) = (me(), name(place.1));
        let call = client.unlink(&me, place.0, &text);
        let what = format!("unlink {place:?}");
        let removed = self.names_call(with, what, expected, after, call).await;
        if let (Some(removed), Some(victim)) = (removed, victim) {
            assert_eq!(removed.victim, Some(victim.ino), "c{}", self.machine);
            self.forget_if_gone(victim.ino);
        }
    }

    /// A file without a name lives as long as it is open.
    fn forget_if_gone(&mut self, ino: InodeId) {
        let has_name = self.names.now().values().any(|entry| entry.ino == ino);
        if !has_name && !self.open.contains_key(&ino) {
            self.contents.remove(&ino);
            self.shown.lock().bytes.remove(&ino);
        }
    }

    async fn rename(&mut self, with: &With<'_>) {
        let (from, to) = (self.any_place(), self.any_place());
        let mut after = self.names.now().clone();
        let (moved, over) = (self.at(from), self.at(to));
        let expected = match (moved, over) {
            (None, _) => Err(FsError::NotFound),
            // Directories keep their parent, so that none moves into itself.
            (Some(moved), _) if moved.is_dir && from.0 != to.0 => return,
            // Two errors apply, and the server may return either.
            (Some(moved), Some(over))
                if over.is_dir && !moved.is_dir && !self.is_empty_dir(over.ino) =>
            {
                return;
            }
            (Some(moved), Some(over)) if over.ino == moved.ino => Ok(()),
            (Some(moved), Some(over)) if over.is_dir && !moved.is_dir => Err(FsError::IsDirectory),
            (Some(moved), Some(over)) if moved.is_dir && !over.is_dir => Err(FsError::NotDirectory),
            (Some(_), Some(over)) if over.is_dir && !self.is_empty_dir(over.ino) => {
                Err(FsError::NotEmpty)
            }
            (Some(moved), _) => {
                after.remove(&from);
                after.insert(to, moved);
                Ok(())
            }
        };
        let client = with.client.clone();
        let (me, old, new) = (me(), name(from.1), name(to.1));
        let how = RenameMode::Replace;
        let call = client.rename(&me, (from.0, &old), (to.0, &new), how);
        let what = format!("rename {from:?} {to:?}");
        let renamed = self.names_call(with, what, expected, after, call).await;
        if let (Some(_), Some(over)) = (renamed, over) {
            self.forget_if_gone(over.ino);
        }
    }

    async fn link(&mut self, with: &With<'_>) {
        let to = self.any_place();
        let files = self.names.now().values().filter(|entry| !entry.is_dir);
        let files: Vec<InodeId> = files.map(|entry| entry.ino).collect();
        if files.is_empty() {
            return;
        }
        let ino = files[self.random.below(files.len() as u64) as usize];
        let (expected, after) = self.with_new(to, ino, false);
        let client = with.client.clone();
        let (me, text) = (me(), name(to.1));
        let call = client.link(&me, ino, to.0, &text);
        let what = format!("link {ino} {to:?}");
        if let Some(attr) = self.names_call(with, what, expected, after, call).await {
            let links = self
                .names
                .now()
                .values()
                .filter(|entry| entry.ino == ino)
                .count();
            assert_eq!((attr.ino, attr.nlink as usize), (ino, links));
            with.client.forget([(ino, 1)]);
        }
    }

    async fn opened(&mut self, with: &With<'_>, ino: InodeId) -> Option<Arc<OpenFile>> {
        if let Some(file) = self.open.get(&ino) {
            return Some(file.clone());
        }
        let (since, me) = (self.site.millis(), me());
        let opened = with.client.open(&me, ino, both_ways(), flags());
        match self.call(with, opened).await {
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
        self.say(format_args!("{what}: {failure:?}"));
        self.excuse(what, failure, since, late);
        self.must_look = true;
        self.shown.lock().unsure = true;
    }

    async fn write(&mut self, with: &With<'_>, appends: bool) {
        let Some(ino) = self.any_file() else { return };
        let Some(file) = self.opened(with, ino).await else {
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
        if at + len > LONGEST {
            return;
        }
        self.random.fill(&mut data);
        after.resize(after.len().max((at + len) as usize), 0);
        after[at as usize..(at + len) as usize].copy_from_slice(&data);
        let whence = match appends {
            true => WritePosition::End,
            false => WritePosition::Offset(at),
        };
        let client = with.client.clone();
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
        let offset = self.bytes_call(with, what, ino, after, call).await;
        if let Some(offset) = offset
            && offset != Some(at)
        {
            self.is_otherwise(ino, format_args!("{at} was written at {offset:?}"));
        }
    }

    async fn truncate(&mut self, with: &With<'_>) {
        let Some(ino) = self.any_file() else { return };
        let Some(_file) = self.opened(with, ino).await else {
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
        let client = with.client.clone();
        let me = me();
        let call = client.truncate(&me, ino, to, true, false);
        let what = format!("truncate {ino} {to}");
        if let Some(attr) = self.bytes_call(with, what, ino, after, call).await {
            assert_eq!(attr.size, to);
        }
    }

    async fn bytes_call<T>(
        &mut self,
        with: &With<'_>,
        what: String,
        ino: InodeId,
        after: Vec<u8>,
        call: impl Future<Output = Result<T, FsError>>,
    ) -> Option<T> {
        let (since, cuts) = (self.site.millis(), self.site.troubles.cuts());
        let now = self.site.moment();
        if let Some(eras) = self.shown.lock().bytes.get_mut(&ino) {
            eras.begins(now, Arc::new(after.clone()));
        }
        let answer = self.call(with, call).await;
        let refused = answer.as_ref().map(drop);
        self.say(format_args!("{what}: {refused:?}"));
        let known = self.contents.get_mut(&ino).expect("a known file");
        known.push(after);
        match answer {
            Ok(answer) => {
                let now = self.site.moment();
                if let Some(eras) = self.shown.lock().bytes.get_mut(&ino) {
                    eras.answered(now);
                }
                match self.is_as_told_since(cuts) {
                    true => return Some(answer),
                    // The reply came in time for the power loss, or after it: both are possible.
                    false => self.must_look = true,
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
        let border = BORDERS[self.random.below(BORDERS.len() as u64) as usize];
        match self.random.below(3) {
            0 => border,
            1 => border.saturating_sub(self.random.below(100)),
            _ => border + self.random.below(100),
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

    async fn fsync(&mut self, with: &With<'_>) {
        let Some(ino) = self.any_file() else { return };
        let Some(file) = self.opened(with, ino).await else {
            return;
        };
        let (since, cuts) = (self.site.millis(), self.site.troubles.cuts());
        let client = with.client.clone();
        let synced = self
            .call(with, client.fsync(&file, self.random.one_in(3)))
            .await;
        match synced {
            Ok(()) => {
                self.say(format_args!("fsync {ino}"));
                self.has_synced(ino, cuts == self.site.troubles.cuts());
            }
            Err(failure) => {
                self.hears_of_loss(ino, &failure);
                self.fails(&format!("fsync {ino}"), &failure, since, true);
            }
        }
    }

    /// Calls fsync before looking what a power loss took. True if it did so.
    pub(super) async fn fsync_blindly(&mut self, with: &With<'_>) -> bool {
        let open: Vec<InodeId> = self.open.keys().copied().collect();
        if open.is_empty() || self.names.is_unanswered() {
            return false;
        }
        let ino = open[self.random.below(open.len() as u64) as usize];
        let file = self.open[&ino].clone();
        let since = self.site.millis();
        match self.call(with, with.client.fsync(&file, false)).await {
            Ok(()) => {
                self.say(format_args!("fsync {ino}, blindly"));
                self.has_synced(ino, false);
            }
            Err(failure) => {
                self.hears_of_loss(ino, &failure);
                self.fails(&format!("fsync {ino} blindly"), &failure, since, true);
            }
        }
        self.must_look = true;
        false
    }

    /// # Panics
    /// When nothing can be lost: all bytes were synced.
    fn hears_of_loss(&mut self, ino: InodeId, failure: &Failure) {
        if !is_loss(failure) {
            return;
        }
        self.site.watch.count("fsync that told of a loss");
        if let Some(known) = self.contents.get_mut(&ino) {
            // The client does not know that another client synced its bytes, and reports that they may be lost.
            if self.synced_by_others.contains(&ino) && !known.is_unsynced() {
                return;
            }
            assert!(
                known.is_unsynced(),
                "c{} hears of a loss in {ino}, where all was synced",
                self.machine
            );
            // The client reports a loss once: the next fsync is about what there is then.
            known.mark_unanswered();
        }
    }

    /// Its bytes and all names survive a power loss from now on; `in_peace`: no power loss came meanwhile.
    fn has_synced(&mut self, ino: InodeId, in_peace: bool) {
        let now = self.site.troubles.cuts();
        self.synced_by_others.remove(&ino);
        if let Some(known) = self.contents.get_mut(&ino) {
            known.synced_if_answered();
        }
        if in_peace && now.metadata == self.cuts.metadata && !self.names.is_unanswered() {
            self.names.synced();
        }
    }

    async fn fsync_dir(&mut self, with: &With<'_>) {
        let (since, cuts) = (self.site.millis(), self.site.troubles.cuts());
        match self.call(with, with.client.fsync_dir()).await {
            Ok(()) => {
                self.say("fsync of the directory");
                let cuts_now = self.site.troubles.cuts();
                if cuts == cuts_now && cuts.metadata == self.cuts.metadata {
                    self.names.synced();
                }
            }
            Err(failure) => self.fails("fsync of the directory", &failure, since, true),
        }
    }

    async fn read(&mut self, with: &With<'_>) {
        let Some(ino) = self.any_file() else { return };
        let Some(file) = self.opened(with, ino).await else {
            return;
        };
        let (since, cuts) = (self.site.millis(), self.site.troubles.cuts());
        let (at, len) = match self.random.one_in(2) {
            true => (0, 2 * LONGEST),
            false => (self.offset(), self.len()),
        };
        let call = with.client.read(&file, at, len, ReadOptions::default());
        match self.call(with, call).await {
            Ok(found) if self.is_as_told_since(cuts) => {
                let found = found.concat();
                self.say(format_args!("read {ino} {at}+{len}: {}", found.len()));
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
                    self.is_otherwise(
                        ino,
                        format_args!("read {at}+{len}: {lens:?} bytes, differ at {differs:?}"),
                    );
                }
            }
            Ok(_) => self.must_look = true,
            Err(failure) => self.fails(&format!("read {ino}"), &failure, since, false),
        }
    }

    async fn list(&mut self, with: &With<'_>) {
        let (dir, me) = (self.any_dir(), me());
        let (since, cuts) = (self.site.millis(), self.site.troubles.cuts());
        let call = with.client.readdir(&me, dir, 0, 1000, false);
        match self.call(with, call).await {
            Ok(listing) if self.is_as_told_since(cuts) => {
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
                assert_eq!(found, expected, "c{} lists {dir}", self.machine);
            }
            Ok(_) => self.must_look = true,
            Err(failure) => self.fails("readdir", &failure, since, false),
        }
    }

    async fn stat(&mut self, with: &With<'_>) {
        let (place, me) = (self.any_place(), me());
        let (since, cuts) = (self.site.millis(), self.site.troubles.cuts());
        let text = name(place.1);
        let call = with.client.lookup(&me, place.0, &text);
        let found = self.call(with, call).await;
        if !self.is_as_told_since(cuts) {
            self.must_look = true;
            return;
        }
        match (found, self.at(place)) {
            (Ok(attr), Some(entry)) => {
                with.client.forget([(attr.ino, 1)]);
                assert_eq!(attr.ino, entry.ino, "c{} {place:?}", self.machine);
                if let Some(known) = self.contents.get(&entry.ino) {
                    let len = known.len();
                    if attr.size != len {
                        self.is_otherwise(entry.ino, format_args!("size {}, not {len}", attr.size));
                    }
                }
            }
            (Err(Failure::Refused(FsError::NotFound)), None) => {}
            (Err(failure), _) => self.fails(&format!("lookup {place:?}"), &failure, since, false),
            (Ok(_), None) => panic!("c{}: {place:?} is there", self.machine),
        }
    }

    async fn close(&mut self, with: &With<'_>) {
        let open: Vec<InodeId> = self.open.keys().copied().collect();
        if open.is_empty() {
            return;
        }
        let ino = open[self.random.below(open.len() as u64) as usize];
        let file = self.open.remove(&ino).expect("just listed");
        let since = self.site.millis();
        let closed = self.call(with, with.client.release(file.id())).await;
        self.say(format_args!("close {ino}: {closed:?}"));
        self.forget_if_gone(ino);
        if let Err(failure) = closed {
            self.fails(&format!("close {ino}"), &failure, since, true);
        }
    }
}
