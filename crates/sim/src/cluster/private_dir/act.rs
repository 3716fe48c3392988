//! The choice of the next call, and the parts that all calls share.

use super::name_states::Entry;
use super::{ClientInstance, NameInDir, PrivateDirProgram};
use crate::cluster::call_arguments::{ONE_OBJECT, caller, no_flags, read_write};
use crate::cluster::client_host::Failure;
use gupfs_client::OpenFile;
use gupfs_proto::{FsError, InodeId};
use std::sync::Arc;

/// Number of names in a directory: few, so that calls name the same ones often.
pub(super) const NAMES: u64 = 4;

/// Offsets where a file's storage changes: inline bytes, blocks, stripe units, objects.
const BOUNDARIES: [u64; 6] = [
    0,
    4 << 10,
    64 << 10,
    ONE_OBJECT,
    ONE_OBJECT + (64 << 10),
    ONE_OBJECT + (128 << 10),
];

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

    pub(super) fn any_dir(&self) -> InodeId {
        let dirs = self.names.now().values().filter(|entry| entry.is_dir);
        let dirs: Vec<InodeId> = dirs.map(|entry| entry.ino).collect();
        match self.random.below(3) {
            0 if !dirs.is_empty() => dirs[self.random.below(dirs.len() as u64) as usize],
            _ => self.dir,
        }
    }

    pub(super) fn any_name(&self) -> NameInDir {
        (self.any_dir(), self.random.below(NAMES) as u8)
    }

    /// A random file, by one of its names or because it is open.
    pub(super) fn any_file(&self) -> Option<InodeId> {
        let files: Vec<InodeId> = self.contents.keys().copied().collect();
        let index = self.random.below(files.len().max(1) as u64);
        files.get(index as usize).copied()
    }

    pub(super) fn entry(&self, position: NameInDir) -> Option<Entry> {
        self.names.now().get(&position).copied()
    }

    /// Forgets a file without a name, unless it is open.
    pub(super) fn drop_if_removed(&mut self, ino: InodeId) {
        let has_name = self.names.now().values().any(|entry| entry.ino == ino);
        if !has_name && !self.open.contains_key(&ino) {
            self.contents.remove(&ino);
            self.published.lock().bytes.remove(&ino);
        }
    }

    pub(super) async fn open_once(
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
            Err(Failure::Refused(FsError::Stale))
                if self.may_be_removed_late(ino) && self.expect_late_change() =>
            {
                self.record(format_args!("open {ino}: a dead client has removed it"));
                None
            }
            Err(failure) => {
                self.note_failure(&format!("open {ino}"), &failure, since, false);
                None
            }
        }
    }

    pub(super) async fn close(&mut self, instance: &ClientInstance<'_>) {
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
            self.note_failure(&format!("close {ino}"), &failure, since, true);
        }
    }

    /// Requires that a fault excuses the failure, and schedules a recheck.
    pub(super) fn note_failure(&mut self, what: &str, failure: &Failure, since: u64, late: bool) {
        self.record(format_args!("{what}: {failure:?}"));
        self.require_excuse(what, failure, since, late);
        self.must_recheck = true;
        self.published.lock().is_uncertain = true;
    }

    pub(super) fn random_offset(&self) -> u64 {
        let boundary = BOUNDARIES[self.random.below(BOUNDARIES.len() as u64) as usize];
        match self.random.below(3) {
            0 => boundary,
            1 => boundary.saturating_sub(self.random.below(100)),
            _ => boundary + self.random.below(100),
        }
    }

    pub(super) fn random_len(&self) -> u64 {
        match self.random.below(5) {
            0 => 1 + self.random.below(200),
            1 => 4_096,
            2 => 1 + self.random.below(9_000),
            3 => 64 << 10,
            _ => 1 + self.random.below(100_000),
        }
    }
}
