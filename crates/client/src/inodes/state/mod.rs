//! The client's state of one inode that is open or has a write lease. Pure: no lock, no await.
//!
//! While this client has the write lease, its size, times and objects are authoritative and overlay every reply of the metadata
//! server.
//!
//! Where other clients use the file too (`shared`), the state is authoritative only under the exclusive write lease. Without it the state
//! is as old as its last load: a hint where bytes may be, which the client loads again where it matters. Under a concurrent write lease
//! it is that, merged with what this client has written since.

mod chunks;
#[cfg(test)]
mod fixtures;
mod inline;
mod lease;
mod load;
mod member_object;
mod members;
mod object_state;
mod objects;
mod opens;
mod plan;
mod privileges;
mod report;
mod size;
mod times;
mod unsent;
mod unsynced;
mod writeback_errors;

pub use chunks::ObjectSpan;
pub use member_object::MemberObject;
pub use object_state::{UnsyncedObject, UnsyncedSince};
pub use plan::{ReadPlan, WriteLockRange};
pub use unsent::{UnsentRead, UnsentTotal};

use crate::lease_number::LeaseNumber;
use crate::reserved_space::SpaceCharges;
use bytes::Bytes;
use gupfs_platform::BootTime;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::data::{ObjectOwner, ObjectStat};
use gupfs_proto::limits::{FILE_SIZE_MAX, INLINE_MAX};
use gupfs_proto::meta::{SetAttr, SetTime, WritePosition};
use gupfs_proto::{
    Attr, ByteCount, FileMode, FileOffset, FsError, InodeId, Layout, ObjectId, Timestamp,
};
use inline::InlineData;
pub use lease::DuringLeaseEnd;
use lease::{LeaseEnd, LeaseState};
use objects::FileObjects;
use opens::OpenCounts;
use privileges::Privileges;
use size::FileSize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use times::UnreportedChanges;
use unsent::UnsentBytes;
use writeback_errors::WritebackErrors;

#[derive(Default)]
pub struct InodeState {
    lease: LeaseState,
    /// The newest attributes from the server; None until the state was loaded.
    server_attr: Option<Attr>,
    size: FileSize,
    times: UnreportedChanges,
    /// If there is a layout too, the inline data has not been moved to its objects yet.
    inline: InlineData,
    privileges: Privileges,
    pub unsent: UnsentBytes,
    pub objects: FileObjects,
    pub opens: OpenCounts,
    pub errors: WritebackErrors,
    /// The newest attribute version of the client.
    versions: Arc<AtomicU64>,
    /// The version at which this client last moved the end of the file.
    grown_at: u64,
}

/// The unit of st_blocks.
const BLOCK_UNIT: u64 = 512;

/// Where the data of a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataLocation {
    Inode,
    Objects,
}

impl InodeState {
    /// `versions`: the newest attribute version of the client.
    pub fn new(shared: bool, versions: Arc<AtomicU64>) -> InodeState {
        InodeState {
            lease: LeaseState::new(shared),
            versions,
            ..InodeState::default()
        }
    }

    /// Whether this state is the file's current state.
    pub fn is_authoritative(&self) -> bool {
        self.is_loaded() && self.lease.excludes_others()
    }

    pub fn is_loaded(&self) -> bool {
        self.server_attr.is_some()
    }

    /// Whether this client has a write lease, of whichever mode.
    pub fn has_write_lease(&self) -> bool {
        self.lease.is_held()
    }

    pub fn has_exclusive_write_lease(&self) -> bool {
        self.lease.is_exclusive()
    }

    pub fn has_concurrent_write_lease(&self) -> bool {
        self.lease.is_concurrent()
    }

    /// The number of the concurrent write lease, if this client has it.
    pub fn concurrent_lease_number(&self) -> Option<LeaseNumber> {
        self.lease.concurrent_number()
    }

    /// The exclusive write lease has just been acquired.
    pub fn set_lease_since(&mut self, now: BootTime) {
        self.lease.set_since(now);
    }

    /// Since when this client has the exclusive write lease.
    pub fn lease_since(&self) -> Option<BootTime> {
        self.lease.since()
    }

    /// The number of the write lease, of whichever mode, if this client has one.
    pub fn any_lease_number(&self) -> Option<LeaseNumber> {
        self.lease.any_number()
    }

    /// Another client wants to write the file.
    pub fn note_contention(&mut self, now: BootTime) {
        self.lease.note_contention(now);
    }

    /// Whether another client wanted to write the file a moment ago.
    pub fn is_contended(&self, now: BootTime) -> bool {
        self.lease.is_contended(now)
    }

    /// The number of the exclusive write lease, if this client has it.
    pub fn write_lease_number(&self) -> Option<LeaseNumber> {
        self.lease.number()
    }

    /// The request by which the server ends the lease has failed.
    pub fn doubt_write_lease(&mut self) {
        self.lease.doubt();
    }

    pub fn is_lease_ending(&self) -> bool {
        self.lease.is_ending()
    }

    /// What a reply with these attributes means.
    pub fn during_lease_end(&self, attr: &Attr) -> DuringLeaseEnd {
        self.lease.during_end(attr.change)
    }

    pub fn start_lease_end(&mut self, was_reported: bool) {
        let known_change = self.server_attr.map_or(0, |base| base.change);
        self.lease.start_end(LeaseEnd {
            known_change,
            was_reported,
        });
    }

    pub fn finish_lease_end(&mut self) {
        self.lease.finish_end();
    }

    /// The table must keep an inode with a write lease: the server waits for its report.
    pub fn must_stay_in_table(&self) -> bool {
        self.has_write_lease()
    }

    /// The session was lost, and with it the lease: drops everything but the open files' counts and errors, which their close
    /// needs.
    pub fn invalidate(&mut self) {
        let mut opens = std::mem::take(&mut self.opens);
        opens.invalidate();
        if !self.unsent.is_empty() {
            self.errors.record(FsError::Stale);
        }
        *self = InodeState {
            opens,
            errors: std::mem::take(&mut self.errors),
            grown_at: self.grown_at,
            ..InodeState::new(self.lease.is_shared(), self.versions.clone())
        };
    }

    // Attributes.

    pub fn server_attr(&self) -> Option<&Attr> {
        self.server_attr.as_ref()
    }

    /// Attributes from any reply: kept if they are not older than the known ones.
    pub fn note_attr(&mut self, attr: Attr) {
        if let Some(base) = &mut self.server_attr
            && base.change <= attr.change
        {
            *base = attr;
        }
    }

    /// The server has applied a request of this client under the write lease: no other client has changed the inode.
    pub fn note_own_update(&mut self, attr: Attr) {
        self.lease.note_own_change(attr.change);
        self.note_attr(attr);
    }

    /// The attributes that stat(2) should return, given those in the server's reply.
    pub fn overlay(&self, attr: Attr) -> Attr {
        let mut seen = match &self.server_attr {
            Some(base) if base.change > attr.change => *base,
            _ => attr,
        };
        if self.is_authoritative() {
            seen.size = self.end_of_file().0;
            if let Some(blocks) = self.authoritative_blocks() {
                seen.blocks = blocks;
            }
            self.times.overlay(&mut seen);
        } else if self.lease.is_concurrent() {
            seen.size = seen.size.max(self.end_of_file().0);
            seen.blocks = seen.blocks.max(self.objects.known_blocks());
            self.times.merge_into(&mut seen);
        }
        seen
    }

    pub fn is_append_only(&self) -> bool {
        let base = self.server_attr.as_ref();
        base.is_some_and(|base| base.flags.contains(InodeFlags::APPEND_ONLY))
    }

    pub fn has_setgid(&self) -> bool {
        let base = self.server_attr.as_ref();
        base.is_some_and(|base| base.mode.has(FileMode::SETGID))
    }

    /// The owner to whom the objects' space is charged.
    pub fn owner(&self) -> ObjectOwner {
        self.server_attr
            .as_ref()
            .map_or(ObjectOwner::default(), |base| ObjectOwner {
                uid: base.uid,
                gid: base.gid,
                project: base.project.0,
                volume: base.volume.0,
            })
    }

    /// Whether a write must make the server clear privileges.
    pub fn must_kill_privileges(&self, kill: bool) -> bool {
        self.privileges.must_kill(kill)
    }

    /// Whether the file is known to have no security.capability. Acquiring the write lease clears it, and another client that sets
    /// it makes the server revoke the lease first.
    pub fn has_no_file_capability(&self) -> bool {
        self.has_write_lease() && self.privileges.has_no_capability()
    }

    /// The server has cleared them.
    pub fn set_privileges_killed(&mut self, kill: bool) {
        self.privileges.set_killed(kill);
    }

    /// Mode, owner or an extended attribute has changed.
    pub fn reset_privileges(&mut self) {
        self.privileges = Privileges::Unknown;
    }

    // Size and times.

    pub fn end_of_file(&self) -> FileOffset {
        self.size.get()
    }

    /// The version at which this client last moved the end of the file.
    pub fn grown_at(&self) -> u64 {
        self.grown_at
    }

    /// The end of the file, for a caller that has locked the range of a write.
    ///
    /// # Errors
    /// `Stale` when no open file of this inode is writable any more: no close would report what is written now.
    pub fn end_for_write(&self) -> Result<FileOffset, FsError> {
        match self.opens.writers() {
            0 => Err(FsError::Stale),
            _ => Ok(self.end_of_file()),
        }
    }

    /// The file's bytes up to `end` changed at `now`.
    pub fn data_changed(&mut self, end: FileOffset, now: Timestamp) {
        if end > self.size.get() {
            self.grown_at = self.versions.fetch_add(1, Ordering::AcqRel) + 1;
        }
        self.size.grow(end);
        self.times.data_changed(now);
    }

    /// Whether the object servers may get the bytes of a write later: only under the exclusive write lease.
    pub fn may_write_behind(&self, at: WritePosition, kill_privileges: bool) -> bool {
        self.is_ready(at)
            && self.has_exclusive_write_lease()
            && !self.must_kill_privileges(kill_privileges)
            && self.leftovers().is_none()
            && !self.has_pending_truncate()
            && self.unsent.is_open()
    }

    /// Takes a write into memory that `may_write_behind` allows. None if it would fail.
    ///
    /// The caller has locked the range, and everything from the file's end on if the write moves it.
    pub fn write_behind(
        &mut self,
        at: WritePosition,
        data: &[u8],
        now: Timestamp,
        total: &Arc<UnsentTotal>,
        charges: SpaceCharges,
    ) -> Option<FileOffset> {
        let offset = self.write_offset(at).ok()?;
        let end = offset.saturating_add(ByteCount(data.len() as u64));
        if end.0 > FILE_SIZE_MAX {
            return None;
        }
        self.unsent.add(offset, data, total);
        self.unsent.add_charges(charges);
        self.data_changed(end, now);
        Some(offset)
    }

    /// The bytes of a file that is small enough for its inode, if none of them is in an object, and no object may exist. None without the
    /// exclusive write lease.
    pub fn bytes_for_inode(&self) -> Option<Bytes> {
        match self.fits_into_inode() {
            true => self.unsent.whole(self.end_of_file()),
            false => None,
        }
    }

    /// Whether the file still fits into its inode after a write that ends at `end`.
    pub fn may_stay_small(&self, end: FileOffset) -> bool {
        self.fits_into_inode() && end.0 < INLINE_MAX.0
    }

    pub fn fits_into_inode(&self) -> bool {
        self.write_lease_number().is_some()
            && self.data_location() == DataLocation::Objects
            && self.end_of_file().0 < INLINE_MAX.0
            && !self.objects.may_have_any()
            && self.leftovers().is_none()
            && !self.has_pending_truncate()
    }

    /// The objects' bytes behind the end of the file.
    pub fn leftovers(&self) -> Option<std::ops::Range<FileOffset>> {
        self.size.leftovers()
    }

    /// Objects may get bytes up to `end` that do not become part of the file.
    pub fn extend_leftovers(&mut self, end: FileOffset) {
        self.size.extend_leftovers(end);
    }

    pub fn leftovers_truncated(&mut self) {
        self.size.leftovers_truncated();
    }

    /// What failed writes may have left behind the end becomes part of a file that other clients write, too.
    pub fn adopt_leftovers(&mut self) {
        self.size.adopt_leftovers();
    }

    pub fn has_pending_truncate(&self) -> bool {
        self.size.has_pending_truncate()
    }

    pub fn set_pending_truncate(&mut self) {
        self.size.set_pending_truncate();
    }

    /// Takes times that the file's owner sets, as the lease holder, which is the authority on them; ctime is `now`. The reply is what the server
    /// would say: the attributes that it knows, to be overlaid. None if the server must execute the request: it changes something else, or
    /// checks something that this client does not know.
    ///
    /// chown(2) to the same owner and group is such a request.
    pub fn set_times(&mut self, uid: u32, set: &SetAttr, now: Timestamp) -> Option<Attr> {
        let base = self.server_attr?;
        let is_owner = uid == base.uid;
        let keeps_owner =
            set.uid.is_none_or(|uid| uid == base.uid) && set.gid.is_none_or(|gid| gid == base.gid);
        let is_settable = !base.flags.intersects(InodeFlags::SETTABLE);
        let is_plain = set.mode.is_none() && !set.is_atime_report();
        // What chown(2), and the kernel's wish to clear privileges, may clear.
        let has_none = !base.mode.has(FileMode::SETUID)
            && !base.mode.has(FileMode::SETGID)
            && self.has_no_file_capability();
        let clears_nothing =
            has_none || (set.uid.is_none() && set.gid.is_none() && !set.kill_privileges);
        let may = is_owner && keeps_owner && is_settable && is_plain && clears_nothing;
        if !may
            || self.write_lease_number().is_none()
            || self.data_location() != DataLocation::Objects
        {
            return None;
        }
        let time = |to: SetTime| match to {
            SetTime::Now => now,
            SetTime::To(time) => time,
        };
        self.times
            .set_by_program(set.mtime.map(time), set.atime.map(time), now);
        Some(base)
    }

    pub fn atime(&self) -> Option<Timestamp> {
        self.times.atime()
    }

    /// None: it is reported.
    pub fn set_atime(&mut self, atime: Option<Timestamp>) {
        self.times.set_atime(atime);
    }

    /// Takes the objects to sync, as `FileObjects::take_unsynced`. fsync(2) is about the file: where other clients write it too, their
    /// objects as well.
    pub fn take_unsynced(&mut self, ino: InodeId) -> Vec<UnsyncedObject> {
        self.objects.may_have_unknown_unsynced |= self.has_concurrent_write_lease();
        self.objects.take_unsynced(ino)
    }

    /// Takes a target's reply about an object that was asked under this lease. Under a later one it may be old: another client may have
    /// created or changed the object. While others write, one that does not exist may exist in a moment.
    pub fn learned(
        &mut self,
        lease: Option<LeaseNumber>,
        object: ObjectId,
        stat: Option<ObjectStat>,
    ) {
        let is_known = stat.is_some() || !self.has_concurrent_write_lease();
        if is_known && lease == self.any_lease_number() {
            self.objects.learned(object, stat);
        }
    }

    // Where the bytes are.

    pub fn data_location(&self) -> DataLocation {
        if self.layout().is_empty() || !self.inline.is_empty() {
            DataLocation::Inode
        } else {
            DataLocation::Objects
        }
    }

    /// Whether a write that ends at `end` should go inline. A write that fills the inline area to its last byte is probably the
    /// first of several (stdio writes 4 KiB at a time): moving its bytes out again would cost a sync.
    pub fn stays_inline(&self, end: FileOffset) -> bool {
        self.data_location() == DataLocation::Inode && end.0 < INLINE_MAX.0
    }

    /// Whether a write can go directly to objects. Where others write too, only one at a given offset can.
    pub fn is_ready(&self, at: WritePosition) -> bool {
        let has_lease = match at {
            WritePosition::Offset(_) if !self.is_append_only() => self.has_write_lease(),
            _ => self.has_exclusive_write_lease(),
        };
        has_lease && self.data_location() == DataLocation::Objects
    }

    pub fn layout(&self) -> &Layout {
        self.objects.layout()
    }

    pub fn inline(&self) -> &Bytes {
        self.inline.bytes()
    }

    /// `data` was written at `offset` of a file whose data is inline.
    pub fn apply_inline_write(&mut self, offset: FileOffset, data: &[u8], now: Attr) {
        if self.lease.advance(now.change) {
            self.inline.write(offset, data);
            self.size.set_inline(FileOffset(now.size));
        }
        self.note_attr(now);
    }

    /// The inline data is in objects now.
    pub fn clear_inline(&mut self) {
        self.inline.clear();
    }

    pub fn inline_may_be_durable(&self) -> bool {
        self.inline.may_be_durable()
    }

    /// A sync begins: from now on the inline data must survive a power loss.
    pub fn set_inline_may_be_durable(&mut self) {
        self.inline.set_may_be_durable();
    }

    /// Blocks of all objects and of unsent bytes, if this client's count is authoritative.
    pub fn authoritative_blocks(&self) -> Option<u64> {
        let ours =
            self.has_exclusive_write_lease() && self.data_location() == DataLocation::Objects;
        let unsent = (self.unsent.bytes() as u64).div_ceil(BLOCK_UNIT);
        let blocks = if ours { self.objects.blocks() } else { None };
        blocks.map(|blocks| blocks + unsent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::opened;
    use gupfs_proto::Presence;

    fn presence(state: &InodeState) -> Vec<Presence> {
        let objects = state.layout().objects(InodeId(5));
        objects.map(|(.., presence)| presence).collect()
    }

    #[test]
    fn unsynced_objects_stay_unsynced_when_another_client_has_written() {
        let mut state = InodeState::new(true, Arc::default());
        state.update_from_server(opened(1, Presence::Never));
        state.lease_acquired(opened(2, Presence::Maybe));
        state.objects.mark_dirty(0, 1);
        state.lease_released(Some(opened(3, Presence::Maybe).attr));
        state.update_from_server(opened(9, Presence::Maybe));
        assert_eq!(state.end_of_file(), FileOffset(900));
        assert_eq!(state.objects.unsynced(InodeId(5)).len(), 1);
        assert!(
            state.objects.may_have_unknown_unsynced,
            "another client wrote, too"
        );
    }

    #[test]
    fn presence_is_known_until_another_client_can_have_created_objects() {
        let mut state = InodeState::new(true, Arc::default());
        state.update_from_server(opened(1, Presence::Never));
        state.lease_acquired(opened(2, Presence::Maybe));
        assert_eq!(presence(&state), [Presence::Never; 2]);
        state.lease_released(Some(opened(3, Presence::Never).attr));
        state.lease_acquired(opened(4, Presence::Maybe));
        assert_eq!(presence(&state), [Presence::Never; 2]);
        state.lease_released(Some(opened(5, Presence::Never).attr));
        state.lease_acquired(opened(7, Presence::Maybe));
        assert_eq!(presence(&state), [Presence::Maybe; 2]);
        assert_eq!(
            (state.end_of_file(), state.objects.blocks()),
            (FileOffset(700), None)
        );
    }

    #[test]
    fn a_late_reply_to_the_last_report_invalidates_the_state() {
        let mut state = InodeState::new(true, Arc::default());
        state.update_from_server(opened(1, Presence::Never));
        state.lease_acquired(opened(2, Presence::Maybe));
        state.note_own_update(opened(3, Presence::Maybe).attr);
        // Another client has had the lease since, and released it.
        state.lease_released(Some(opened(7, Presence::Never).attr));
        state.lease_acquired(opened(8, Presence::Maybe));
        assert_eq!(state.end_of_file(), FileOffset(800));
    }

    /// A program's stat(2) asks the targets while the lease goes to another client, or others join.
    #[test]
    fn what_a_target_said_under_a_former_lease_counts_for_nothing() {
        let mut state = InodeState::new(true, Arc::default());
        state.update_from_server(opened(1, Presence::Maybe));
        state.lease_acquired(opened(2, Presence::Maybe));
        let unknown = state.objects.unknown(InodeId(5));
        let (first, second) = (unknown[0].object, unknown[1].object);
        let exclusive = state.any_lease_number();
        state.learned(exclusive, first, None);
        assert_eq!(presence(&state), [Presence::Never, Presence::Maybe]);
        state.lease_downgraded();
        state.learned(exclusive, second, None);
        state.learned(state.any_lease_number(), first, None);
        assert_eq!(presence(&state), [Presence::Maybe; 2]);
        state.learned(state.any_lease_number(), first, Some(ObjectStat::default()));
        assert_eq!(presence(&state), [Presence::Present, Presence::Maybe]);
        state.lease_released(None);
        state.lease_acquired(opened(9, Presence::Maybe));
        state.learned(exclusive, second, None);
        assert_eq!(presence(&state)[1], Presence::Maybe);
    }

    #[test]
    fn an_overtaken_reply_changes_nothing() {
        let mut state = InodeState::new(true, Arc::default());
        state.update_from_server(opened(5, Presence::Maybe));
        state.update_from_server(opened(4, Presence::Never));
        assert_eq!(
            (state.end_of_file(), presence(&state)),
            (FileOffset(500), vec![Presence::Maybe; 2])
        );
        assert!(!state.is_authoritative());
        state.lease_acquired(opened(6, Presence::Maybe));
        state.update_from_server(opened(8, Presence::Never));
        assert_eq!(
            state.end_of_file(),
            FileOffset(500),
            "this client has the lease"
        );
        assert!(state.is_authoritative());
    }
}
