//! Targets that were opened again, and may have lost bytes that were not synced: their members of mirrored stripes are stale.

use crate::join;
use crate::limits::{LEAVE_OUT_PATIENCE, OST_CALLS, RETRY, SCAN_STEP};
use crate::mirrors::MirrorKeeper;
use crate::store::{MetadataStore, damaged_record};
use bytes::Bytes;
use gupfs_namespace::{
    Inode, InodeBody, KeyRange, ParsedKey, Record, RecordKey, RecordKind, StoreFormat,
};
use gupfs_platform::{Clock, Platform, Tasks};
use gupfs_proto::{FsError, InodeId, Layout, OstId, Presence};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Notify;

/// What a target may lack after it was opened again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MissingBytes {
    /// What was not synced.
    Unsynced,
    /// It is an older copy that an administrator has accepted.
    Any,
}

/// Leaves out the members on restarted targets.
pub struct RestartedTargets {
    store: Arc<MetadataStore>,
    keeper: Arc<MirrorKeeper>,
    /// The latest instance of each target of another server.
    latest: Mutex<BTreeMap<OstId, LeavingOut>>,
    clock: Clock,
    tasks: Tasks,
}

/// The work for one open instance of a target.
#[derive(Clone)]
struct LeavingOut {
    open_instance: u64,
    outcome: Arc<Outcome>,
}

/// How the work ended. (tokio's `watch` wakes several waiters in an order of its own random source, so a simulation would not repeat.)
#[derive(Default)]
struct Outcome {
    is_done: Mutex<Option<bool>>,
    ended: Notify,
}

impl Outcome {
    fn end(&self, is_done: bool) {
        self.is_done.lock().get_or_insert(is_done);
        self.ended.notify_waiters();
    }

    /// Returns whether the work is done; false if its task ended without it.
    async fn wait(&self) -> bool {
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if let Some(is_done) = *self.is_done.lock() {
                return is_done;
            }
            ended.await;
        }
    }
}

/// The task that does the work; its end ends the wait for it.
struct OutcomeOfTask(Arc<Outcome>);

impl Drop for OutcomeOfTask {
    fn drop(&mut self) {
        self.0.end(false);
    }
}

impl RestartedTargets {
    pub fn new(
        store: Arc<MetadataStore>,
        keeper: Arc<MirrorKeeper>,
        platform: &Platform,
    ) -> RestartedTargets {
        RestartedTargets {
            store,
            keeper,
            latest: Mutex::default(),
            clock: platform.clock.clone(),
            tasks: platform.tasks.clone(),
        }
    }

    /// Whether the members on this instance of a target are left out. If not, a task does it: the server's report must not wait for
    /// sessions that do not answer, since its other targets need the reply.
    pub async fn has_left_out(
        self: &Arc<Self>,
        ost: OstId,
        open_instance: u64,
        missing: MissingBytes,
    ) -> bool {
        let outcome = {
            let mut latest = self.latest.lock();
            let begun = latest.get(&ost).cloned();
            let begun = begun.filter(|begun| begun.open_instance == open_instance);
            let leaving_out = begun.unwrap_or_else(|| self.begin(ost, open_instance, missing));
            latest.insert(ost, leaving_out.clone());
            leaving_out.outcome
        };
        tokio::select! {
            biased;
            is_done = outcome.wait() => is_done,
            () = self.clock.sleep(LEAVE_OUT_PATIENCE) => false,
        }
    }

    fn is_latest(&self, ost: OstId, open_instance: u64) -> bool {
        let latest = self.latest.lock();
        let latest = latest.get(&ost);
        latest.is_some_and(|latest| latest.open_instance == open_instance)
    }

    fn begin(
        self: &Arc<Self>,
        ost: OstId,
        open_instance: u64,
        missing: MissingBytes,
    ) -> LeavingOut {
        let outcome = Arc::new(Outcome::default());
        let done = OutcomeOfTask(outcome.clone());
        let this = self.clone();
        self.tasks
            .spawn("leave out a restarted target", async move {
                while this.store.failure().is_none() && this.is_latest(ost, open_instance) {
                    match this.leave_out_target(ost, missing).await {
                        Ok(()) => {
                            done.0.end(true);
                            return;
                        }
                        Err(error) => {
                            tracing::warn!(%ost, %error, "cannot leave out the members on a restarted target yet; it does not serve");
                            this.clock.sleep(RETRY).await;
                        }
                    }
                }
            });
        LeavingOut {
            open_instance,
            outcome,
        }
    }

    /// A target was opened again: it may have lost bytes. When this returns, its members of files that sessions write, or whose objects are
    /// not confirmed, are stale, and no session reads them; of an older copy its members of all files are, as far as there is another
    /// full member, and the other objects there that may exist count as present. Until then the target does not serve.
    ///
    /// # Errors
    /// Of the store.
    pub async fn leave_out_target(&self, ost: OstId, missing: MissingBytes) -> Result<(), FsError> {
        if missing == MissingBytes::Unsynced && !self.has_mirrored_files().await? {
            return Ok(());
        }
        let (mut files, mut in_doubt) = (BTreeSet::new(), BTreeSet::new());
        for shard in self.store.all_shards() {
            if missing == MissingBytes::Any {
                let add = |key: &RecordKey, value: &Bytes| {
                    if let Some(ParsedKey::Inode(ino)) = key.parse()
                        && has_members_on(ost, ino, key, value)?
                    {
                        files.insert(ino);
                    }
                    Ok(())
                };
                let range = KeyRange::of_kind(shard, RecordKind::Inode);
                self.store.each_record(range, add).await?;
            }
            for kind in [RecordKind::WriteLease, RecordKind::Unconfirmed] {
                let add = |key: &RecordKey, _: &_| {
                    if let Some(ParsedKey::WriteLease { ino, .. } | ParsedKey::Unconfirmed(ino)) =
                        key.parse()
                    {
                        files.insert(ino);
                        in_doubt.insert(ino);
                    }
                    Ok(())
                };
                let range = KeyRange::of_kind(shard, kind);
                self.store.each_record(range, add).await?;
            }
        }
        let files: Vec<InodeId> = files.into_iter().collect();
        for some in files.chunks(SCAN_STEP) {
            let running = some.iter().map(|ino| self.leave_out_of_file(*ino, ost));
            let results = join::all(running.collect(), OST_CALLS).await;
            results.into_iter().collect::<Result<(), FsError>>()?;
        }
        if missing == MissingBytes::Any {
            // After their members are stale, which are no longer in doubt then.
            for ino in in_doubt {
                self.keeper.expect_objects(ino, ost).await?;
            }
        }
        Ok(())
    }

    /// Whether any directory has ever asked for mirrored files.
    async fn has_mirrored_files(&self) -> Result<bool, FsError> {
        let key = RecordKey::format();
        let Some(value) = self.store.get_now(&key).await? else {
            return Ok(false);
        };
        let format = StoreFormat::decode(&value).map_err(|error| damaged_record(&key, error))?;
        Ok(format.features & StoreFormat::MIRRORS != 0)
    }

    async fn leave_out_of_file(&self, ino: InodeId, ost: OstId) -> Result<(), FsError> {
        let Some(layout) = self.keeper.layout(ino).await? else {
            return Ok(());
        };
        let objects = objects_to_leave_out(&layout, ino, ost);
        // Those that are stale already: this server, or the one before it, may have ended before it told the sessions.
        let has_stale = |(_, _, on, _, presence)| on == ost && presence == Presence::Stale;
        if objects.is_empty() && !layout.objects(ino).any(has_stale) {
            return Ok(());
        }
        // Sessions that read the file by a lease give that up first.
        self.keeper.mark_stale(ino, objects).await?;
        // The next session gets a layout without this target, which does not serve now.
        self.keeper.tell_lease_holders(ino, ost).await
    }
}

/// Whether the inode of this record is a file with members of mirrored stripes on the OST.
fn has_members_on(
    ost: OstId,
    ino: InodeId,
    key: &RecordKey,
    value: &Bytes,
) -> Result<bool, FsError> {
    let inode = Inode::decode(value).map_err(|error| damaged_record(key, error))?;
    let InodeBody::File(file) = &inode.body else {
        return Ok(false);
    };
    let mut objects = file.layout.objects(ino);
    Ok(objects.any(|(at, _, on, ..)| on == ost && file.layout.components[at].is_mirrored()))
}

/// The members on this OST that may have bytes and have another full member, as (component, object index).
fn objects_to_leave_out(layout: &Layout, ino: InodeId, ost: OstId) -> Vec<(u32, u32)> {
    let mut found = Vec::new();
    for (number, index, on, _, presence) in layout.objects(ino) {
        let component = &layout.components[number];
        let may_have_bytes = matches!(presence, Presence::Maybe | Presence::Present);
        let mut others = component.full_members(component.stripe_of(index));
        if on == ost && may_have_bytes && others.any(|other| other != index) {
            found.push((number as u32, index as u32));
        }
    }
    found
}
