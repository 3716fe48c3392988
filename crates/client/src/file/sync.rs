//! fsync(2), syncfs(2): objects first, then our word on the file, then the server's log.

use super::handle::OpenFile;
use super::left::Left;
use super::object::Unsynced;
use super::table::File;
use crate::answer;
use crate::join;
use crate::limits::{LEFT_UNSYNCED_MAX, SYNC_BATCH, SYNC_FILES};
use crate::metrics::Counters;
use crate::service::Client;
use gupfs_proto::meta::Op;
use gupfs_proto::refusal::ObjectDamage;
use gupfs_proto::{Caller, OstId, Refusal, data};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Unsynced objects in the hands of who syncs them; given up half way, they are still to be synced.
struct Taken<'a> {
    inode: &'a File,
    unsynced: Vec<Unsynced>,
    well: bool,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.inode.state().synced(self.well);
    }
}

/// The same for objects of closed files.
struct TakenLeft<'a> {
    left: &'a Mutex<Left>,
    objects: Vec<Unsynced>,
}

impl Drop for TakenLeft<'_> {
    fn drop(&mut self) {
        self.left.lock().add(self.objects.drain(..));
    }
}

impl Client {
    /// fsync(2): what was written to the file survives a power cut; `data_only` (fdatasync) leaves times untold, the
    /// size is in the objects.
    ///
    /// # Errors
    /// What kept bytes from being synced; that a target lost some that were not; and, once for each open file, an error that nobody could be told before.
    pub async fn fsync(&self, file: &OpenFile, data_only: bool) -> Result<(), Refusal> {
        Counters::add(&self.counters.fsyncs, 1);
        self.must_count(file)?;
        let synced = self.sync_file(&file.inode, data_only).await;
        let mut state = file.inode.state();
        if let Err(refusal) = &synced {
            state.errors.keep(refusal.clone());
        }
        let mut heard = file.heard.load(Ordering::Acquire);
        let kept = state.errors.tell(&mut heard);
        file.heard.store(heard, Ordering::Release);
        match kept {
            Some(refusal) => Err(refusal),
            None => Ok(()),
        }
    }

    /// close(2) of one descriptor: an error that nobody could be told before, once for each open file.
    pub fn flush(&self, file: &OpenFile) -> Result<(), Refusal> {
        let mut state = file.inode.state();
        let mut heard = file.heard.load(Ordering::Acquire);
        let kept = state.errors.tell(&mut heard);
        file.heard.store(heard, Ordering::Release);
        kept.map_or(Ok(()), Err)
    }

    /// fsync(2) of a directory: every change of names that was answered survives a power cut.
    pub async fn fsync_dir(&self) -> Result<(), Refusal> {
        self.sync_log().await
    }

    /// syncfs(2): everything that was answered survives a power cut, of files open and closed.
    pub async fn sync_all(&self) -> Result<(), Refusal> {
        let mut result = Ok(());
        let open = self.table.all();
        for some in open.chunks(SYNC_FILES) {
            let running = some.iter().map(|inode| self.sync_known(inode, false));
            for (inode, synced) in some.iter().zip(join::all(running.collect()).await) {
                if let Err(refusal) = synced {
                    inode.state().errors.keep(refusal.clone());
                    result = Err(refusal);
                }
            }
        }
        drop(open);
        let left = self.sync_left().await;
        self.sync_log().await?;
        let before = self.table.left.lock().tell();
        result.and(left).and(before)
    }

    async fn sync_file(&self, inode: &File, data_only: bool) -> Result<(), Refusal> {
        // What others wrote is to survive, too: where it lies must be known.
        self.load(inode).await?;
        self.sync_known(inode, data_only).await?;
        self.sync_log().await
    }

    async fn sync_known(&self, inode: &File, data_only: bool) -> Result<(), Refusal> {
        // First: bytes that leave the inode from here on are synced by whoever moves them, and those that left are in
        // objects that are synced here.
        inode.state().promise_inline();
        self.sync_unsynced(inode).await?;
        if !data_only {
            let _telling = inode.telling.lock().await;
            self.tell(inode).await?;
        }
        Ok(())
    }

    pub(super) async fn sync_unsynced(&self, inode: &File) -> Result<(), Refusal> {
        // Who comes while another syncs waits for it: what the other took is its own business too.
        let _syncing = inode.syncing.lock().await;
        let mut taken = Taken {
            unsynced: inode.state().take_unsynced(inode.ino),
            inode,
            well: false,
        };
        let mut from_before = TakenLeft {
            left: &self.table.left,
            objects: self.table.left.lock().take_over(&mut taken.unsynced),
        };
        let lost = self.sync_objects(&taken.unsynced).await?;
        from_before.objects.clear();
        taken.well = true;
        inode.state().lost(inode.ino, &lost);
        told(&lost)
    }

    /// Target by target beside each other. What is there now is synced when it returns those of the objects of which a
    /// target may have lost what it had answered.
    async fn sync_objects(&self, objects: &[Unsynced]) -> Result<Vec<Unsynced>, Refusal> {
        let mut by_target: BTreeMap<OstId, Vec<Unsynced>> = BTreeMap::new();
        for unsynced in objects {
            by_target.entry(unsynced.ost).or_default().push(*unsynced);
        }
        let running = by_target.into_iter().map(|(ost, objects)| async move {
            let mut lost = Vec::new();
            for some in objects.chunks(SYNC_BATCH) {
                let objects = some.iter().map(|unsynced| unsynced.object).collect();
                match self.ask_ost(ost, data::Op::Sync { objects }).await? {
                    data::Answer::DoneIn(life) => {
                        lost.extend(some.iter().filter(|one| one.since.is_before(life)));
                    }
                    _ => return answer::unexpected("sync"),
                }
            }
            Ok(lost)
        });
        let synced = join::all(running.collect()).await;
        let lost: Result<Vec<Vec<Unsynced>>, Refusal> = synced.into_iter().collect();
        Ok(lost?.concat())
    }

    /// Objects of files that were closed without fsync. Those that cannot be synced stay on the list.
    async fn sync_left(&self) -> Result<(), Refusal> {
        // As for one file: who finds nothing left waits for who took it.
        let _syncing = self.syncing_left.lock().await;
        let mut taken = TakenLeft {
            left: &self.table.left,
            objects: self.table.left.lock().take(),
        };
        let lost = self.sync_objects(&taken.objects).await?;
        taken.objects.clear();
        told(&lost)
    }

    /// Writes out what closed files left when it has become much.
    pub(super) fn sync_left_if_many(self: &Arc<Self>) {
        if self.table.left.lock().len() < LEFT_UNSYNCED_MAX || self.syncing_left.try_lock().is_err()
        {
            return;
        }
        let client = self.clone();
        self.platform.tasks.spawn("sync closed files", async move {
            if let Err(refusal) = client.sync_left().await {
                tracing::warn!(%refusal, "objects of closed files could not be synced");
                // What cannot be synced is still on the list; what is lost is not.
                client.table.left.lock().lose(refusal);
            }
        });
    }

    /// Every change seen so far survives a power cut when this is answered.
    pub(crate) async fn sync_log(&self) -> Result<(), Refusal> {
        let Some(upto) = self.view.not_durable() else {
            return Ok(());
        };
        answer::done("sync", self.ask(&Caller::root(), Op::Sync { upto }).await?)
    }
}

/// That something was lost; the first of it stands for all, each is logged.
fn told(lost: &[Unsynced]) -> Result<(), Refusal> {
    let refusals = lost.iter().map(|lost| Refusal::ObjectDamaged {
        ost: lost.ost,
        object: lost.object,
        what: ObjectDamage::Unsynced,
    });
    let refusals: Vec<Refusal> = refusals.collect();
    for refusal in &refusals {
        tracing::error!(%refusal, "written bytes may be lost");
    }
    refusals.into_iter().next().map_or(Ok(()), Err)
}
