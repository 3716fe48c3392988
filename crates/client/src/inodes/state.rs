//! The client's state of one inode that is open or has a write lease. Pure: no lock, no await.
//!
//! While this client has the write lease (`has_write_lease`), its size, times and objects are authoritative and overlay every
//! reply of the metadata server. The layout's presence bits are this client's knowledge: after `BeginWrite` the server answers
//! `Maybe` for every object, while this client knows that the objects it has not written do not exist.
//!
//! Where other clients use the file too (`shared`), the state is authoritative only under the write lease. Without it the state
//! is as old as its last load: a hint where bytes may be, which the client loads again where it matters.

use super::chunks::{self, ObjectSpan};
use super::object_state::{ObjectState, UnsyncedObject, UnsyncedSince};
use super::writeback_errors::WritebackErrors;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::capability::OpenCapability;
use gupfs_proto::data::{ObjectOwner, ObjectStat};
use gupfs_proto::limits::INLINE_MAX;
use gupfs_proto::meta::{AccessMode, AttrReport, OpenInfo, WritePosition};
use gupfs_proto::{
    Attr, FsError, InodeId, Layout, ObjectId, OstId, Presence, SessionId, StripeChunk, Timestamp,
    WriteVerifier,
};

use bytes::{Bytes, BytesMut};

#[derive(Default)]
pub struct InodeState {
    /// Other clients may change the file while this client does not have its write lease.
    shared: bool,
    /// The inode's `change` to which size, layout and inline data belong.
    loaded_change: u64,
    /// The newest attributes from the server; None until the state was loaded.
    server_attr: Option<Attr>,
    pub layout: Layout,
    /// The inline data; if there is a layout too, the data has not been moved to its objects yet.
    inline: Bytes,
    /// A sync may have answered that the inline data survives a power loss.
    inline_may_be_durable: bool,
    /// This client created the file since it was loaded. Another client can have synced its inline data only if it has opened the
    /// file, and then the server answers `NotSynced`.
    created_here: bool,
    /// The file's size: always right for a loaded authoritative state, since every change passes through here.
    pub size: u64,
    /// End of the bytes in objects that may never have become part of the file: leftovers of a write that failed or was dropped.
    pub leftover_end: u64,
    /// The server has recorded a pending truncate of these leftovers, because an OST refused to truncate them. Until the server
    /// answers that it is done the file must not grow: the server's truncate would remove what it grew by.
    pub has_pending_truncate: bool,
    /// In the order of `layout.objects()`.
    objects: Vec<ObjectState>,
    /// The server has recorded that this session has the write lease.
    pub has_write_lease: bool,
    /// Times that are not reported to the server yet.
    mtime: Option<Timestamp>,
    pub atime: Option<Timestamp>,
    /// Changes made, and how many of them are reported to the server.
    changes: u64,
    reported_changes: u64,
    pub handles: u32,
    pub writers: u32,
    /// The open capability and its session, which authorize this client at the server; of several opens the one with most
    /// rights.
    open_capability: Option<(SessionId, OpenCapability)>,
    /// Which of setuid, setgid and capabilities the file may still have.
    privileges: Privileges,
    /// The file may have unsynced objects that are not marked here, because they were written before the state was loaded.
    pub may_have_unknown_unsynced: bool,
    pub errors: WritebackErrors,
}

/// Where the data of a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataLocation {
    Inode,
    Objects,
}

/// The privileges of a program file that a write clears: capabilities always, setuid and setgid if the writer is unprivileged.
/// In the order in which they are cleared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Privileges {
    #[default]
    Unknown,
    NoCapabilities,
    None,
}

/// The range that a write must lock exclusively.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteLockRange {
    pub from: u64,
    pub to: u64,
}

impl Privileges {
    fn after_write(kill: bool) -> Privileges {
        if kill {
            Privileges::None
        } else {
            Privileges::NoCapabilities
        }
    }
}

impl WriteLockRange {
    /// For a write that acquires the lease, moves the data to objects, or goes inline.
    pub const WHOLE: WriteLockRange = WriteLockRange {
        from: 0,
        to: u64::MAX,
    };

    pub fn covers(self, other: WriteLockRange) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

/// Where a read gets its bytes.
pub enum ReadPlan {
    /// From the inode: these bytes, then this many zeros.
    Inline(Bytes, u64),
    /// From objects, up to the end of the range or of the file.
    Chunks(Vec<StripeChunk>),
}

/// A snapshot of the unreported times, to detect later changes.
#[derive(Clone, Copy)]
pub struct UnreportedTimes {
    changes: u64,
    atime: Option<Timestamp>,
}

/// An attribute report, to be marked as accepted when the server has answered it.
pub struct PendingReport {
    pub report: AttrReport,
    changes: u64,
    /// Once it is accepted, nothing is unreported.
    is_complete: bool,
}

impl InodeState {
    pub fn new(shared: bool) -> InodeState {
        InodeState {
            shared,
            ..InodeState::default()
        }
    }

    /// Keeps the open capability of an open with this access that the server has answered.
    pub fn keep_open_capability(
        &mut self,
        session: SessionId,
        opened: &OpenInfo,
        access: AccessMode,
    ) {
        let given = opened.capability.as_ref();
        let Some(capability) = given.and_then(|it| it.open_capability(opened.attr.ino, access))
        else {
            return;
        };
        let gives_more = |(of, known): &(SessionId, OpenCapability)| {
            *of == session && known.rights.contains(capability.rights)
        };
        if !self.open_capability.as_ref().is_some_and(gives_more) {
            self.open_capability = Some((session, capability));
        }
    }

    /// The open capability, if the file was opened in this session.
    pub fn open_capability(&self, session: SessionId) -> Option<OpenCapability> {
        let of_this = self.open_capability.filter(|(of, _)| *of == session);
        of_this.map(|(_, capability)| capability)
    }

    /// Whether this state is the file's current state.
    pub fn is_authoritative(&self) -> bool {
        self.is_loaded() && (!self.shared || self.has_write_lease)
    }

    pub fn is_loaded(&self) -> bool {
        self.server_attr.is_some()
    }

    /// Takes the server's reply unless this state is authoritative. Replies may overtake each other.
    pub fn update_from_server(&mut self, opened: OpenInfo) {
        if self.is_authoritative() || (self.is_loaded() && opened.attr.change < self.loaded_change)
        {
            self.note_attr(opened.attr);
        } else {
            self.load_from_server(opened, self.loaded_change);
        }
    }

    /// Takes the server's reply to a truncate.
    pub fn load_after_truncate(&mut self, opened: OpenInfo) {
        self.load_from_server(opened, self.loaded_change + 1);
    }

    /// `known_at`: if the inode's `change` is not above it, the known presence of objects is right.
    fn load_from_server(&mut self, opened: OpenInfo, known_at: u64) {
        let knows_objects = !self.shared || self.has_write_lease || opened.attr.change <= known_at;
        // When the server drops the layout it also drops the record of the write lease.
        self.has_write_lease &= !opened.layout.is_empty();
        self.may_have_unknown_unsynced = !opened.created;
        self.created_here = opened.created;
        if self
            .server_attr
            .is_none_or(|base| base.change <= opened.attr.change)
        {
            self.server_attr = Some(opened.attr);
        }
        self.loaded_change = opened.attr.change;
        self.size = opened.attr.size;
        self.leftover_end = self.size;
        self.has_pending_truncate = false;
        self.mtime = None;
        self.reported_changes = self.changes;
        // Objects that stay may have become smaller; those without blocks still have none.
        for object in &mut self.objects {
            object.blocks = object.blocks.filter(|blocks| *blocks == 0);
        }
        self.adopt_layout(opened.layout, false, knows_objects);
        self.inline = opened.inline.unwrap_or_default();
        self.inline_may_be_durable = !self.inline.is_empty();
    }

    /// Attributes from any reply: kept if they are not older than the known ones.
    pub fn note_attr(&mut self, attr: Attr) {
        if let Some(base) = &mut self.server_attr
            && base.change <= attr.change
        {
            *base = attr;
        }
    }

    pub fn server_attr(&self) -> Option<&Attr> {
        self.server_attr.as_ref()
    }

    /// The attributes that stat(2) should return, given those in the server's reply.
    pub fn overlay(&self, attr: Attr) -> Attr {
        let Some(base) = &self.server_attr else {
            return attr;
        };
        if !self.is_authoritative() {
            return if base.change > attr.change {
                *base
            } else {
                attr
            };
        }
        let mut seen = if base.change > attr.change {
            *base
        } else {
            attr
        };
        seen.size = self.size;
        if let Some(blocks) = self.authoritative_blocks() {
            seen.blocks = blocks;
        }
        if let Some(mtime) = self.mtime {
            seen.mtime = mtime;
            seen.ctime = seen.ctime.max(mtime);
            seen.change += 1;
        }
        if let Some(atime) = self.atime {
            seen.atime = atime;
        }
        seen
    }

    pub fn data_location(&self) -> DataLocation {
        if self.layout.is_empty() || !self.inline.is_empty() {
            DataLocation::Inode
        } else {
            DataLocation::Objects
        }
    }

    /// Whether a write that ends at `end` should go inline. A write that fills the inline area to its last byte is probably the
    /// first of several (stdio writes 4 KiB at a time): moving its bytes out again would cost a sync.
    pub fn stays_inline(&self, end: u64) -> bool {
        self.data_location() == DataLocation::Inode && end < INLINE_MAX.0
    }

    /// Whether a write can go directly to objects.
    pub fn is_ready(&self) -> bool {
        self.has_write_lease && self.data_location() == DataLocation::Objects
    }

    /// Whether a write must make the server clear privileges.
    pub fn must_kill_privileges(&self, kill: bool) -> bool {
        self.privileges < Privileges::after_write(kill)
    }

    /// Whether the file is known to have no security.capability.
    pub fn has_no_file_capability(&self) -> bool {
        self.privileges >= Privileges::NoCapabilities
    }

    /// The server has cleared them.
    pub fn set_privileges_killed(&mut self, kill: bool) {
        self.privileges = self.privileges.max(Privileges::after_write(kill));
    }

    /// Mode, owner or an extended attribute has changed.
    pub fn reset_privileges(&mut self) {
        self.privileges = Privileges::Unknown;
    }

    /// The file's size, for a caller that has locked the range of a write.
    ///
    /// # Errors
    /// `Stale` when no open file of this inode is writable any more: no close would report what is written now.
    pub fn size_for_write(&self) -> Result<u64, FsError> {
        match self.writers {
            0 => Err(FsError::Stale),
            _ => Ok(self.size),
        }
    }

    /// The offset of a write to a file with a write lease.
    ///
    /// # Errors
    /// `NotPermitted` before the end of an append-only file. (The server has granted the lease for appending, and does not see
    /// writes to objects.)
    pub fn write_offset(&self, at: WritePosition) -> Result<u64, FsError> {
        let offset = self.offset_of(at);
        match offset < self.size && self.is_append_only() {
            true => Err(FsError::NotPermitted),
            false => Ok(offset),
        }
    }

    /// The offset of a write by the size that is known here.
    pub fn offset_of(&self, at: WritePosition) -> u64 {
        match at {
            WritePosition::Offset(offset) => offset,
            WritePosition::End => self.size,
        }
    }

    pub fn is_append_only(&self) -> bool {
        let base = self.server_attr.as_ref();
        base.is_some_and(|base| base.flags.contains(InodeFlags::APPEND_ONLY))
    }

    /// The range that a write of `len` bytes must lock exclusively: its own bytes, or everything from the end of the file on if the
    /// write extends the file.
    pub fn write_lock_range(&self, at: WritePosition, len: u64) -> WriteLockRange {
        if !self.is_ready() {
            return WriteLockRange::WHOLE;
        }
        match at {
            WritePosition::Offset(from) if from.saturating_add(len) <= self.size => {
                WriteLockRange {
                    from,
                    to: from + len,
                }
            }
            at => WriteLockRange {
                from: self.offset_of(at).min(self.size),
                to: u64::MAX,
            },
        }
    }

    /// The session was lost, and with it the lease: drops everything but the open files' counts and errors, which their close
    /// needs.
    pub fn invalidate(&mut self) {
        *self = InodeState {
            handles: self.handles,
            writers: self.writers,
            errors: std::mem::take(&mut self.errors),
            ..InodeState::new(self.shared)
        };
    }

    // Inline data.

    /// A sync begins: from now on the inline data must survive a power loss.
    pub fn set_inline_may_be_durable(&mut self) {
        self.inline_may_be_durable = true;
    }

    pub fn inline_may_be_durable(&self) -> bool {
        self.inline_may_be_durable
    }

    pub fn inline(&self) -> &Bytes {
        &self.inline
    }

    /// `data` was written at `offset` of a file whose data is inline.
    pub fn apply_inline_write(&mut self, offset: u64, data: &[u8], now: Attr) {
        if self.shared && now.change != self.loaded_change + 1 {
            // Other clients have changed the inode too.
            return self.note_attr(now);
        }
        self.loaded_change = now.change;
        debug_assert!(offset + data.len() as u64 <= INLINE_MAX.0);
        let (from, to) = (offset as usize, offset as usize + data.len());
        let mut bytes = BytesMut::zeroed(self.inline.len().max(to));
        bytes[..self.inline.len()].copy_from_slice(&self.inline);
        bytes[from..to].copy_from_slice(data);
        self.inline = bytes.freeze();
        self.size = now.size;
        self.leftover_end = self.size;
        self.note_attr(now);
    }

    /// The inline data is in objects now.
    pub fn clear_inline(&mut self) {
        self.inline = Bytes::new();
    }

    // Layout and objects.

    /// Takes the layout after `BeginWrite`. The known presence of its components is kept; a new layout has no objects.
    pub fn lease_acquired(&mut self, opened: OpenInfo) {
        if self.shared && !self.has_write_lease {
            return self.lease_acquired_shared(opened);
        }
        let fresh = self.layout.is_empty();
        self.note_attr(opened.attr);
        self.adopt_layout(opened.layout, fresh, true);
        self.has_write_lease = true;
    }

    /// The same for a file that other clients may have written since it was loaded.
    fn lease_acquired_shared(&mut self, opened: OpenInfo) {
        if opened.attr.change > self.loaded_change + 1 {
            self.load_from_server(opened, 0);
        } else {
            let fresh = self.layout.is_empty();
            self.loaded_change = opened.attr.change;
            self.note_attr(opened.attr);
            self.adopt_layout(opened.layout, fresh, true);
        }
        // A sync of another client may have promised that it is durable.
        self.inline_may_be_durable |= !self.created_here && !self.inline.is_empty();
        self.reset_privileges();
        self.has_write_lease = true;
    }

    /// The server has applied a request of this client under the write lease: no other client has changed the inode.
    pub fn note_own_update(&mut self, attr: Attr) {
        if self.has_write_lease {
            self.loaded_change = attr.change;
        }
        self.note_attr(attr);
    }

    /// The server has the last report, and its state is authoritative from here on. This state equals it, unless the reply is
    /// late (repeated over a new connection, for example) and includes later changes of other clients.
    pub fn lease_released(&mut self, attr: Option<Attr>) {
        self.has_write_lease = false;
        self.loaded_change = match attr {
            Some(attr) if attr.change == self.loaded_change + 1 => attr.change,
            _ => 0,
        };
    }

    /// `knows_objects`: the presence known here is right.
    fn adopt_layout(&mut self, mut layout: Layout, fresh: bool, knows_objects: bool) {
        let mut objects = Vec::new();
        let mut before = 0;
        let known: Vec<_> = self
            .layout
            .components
            .iter()
            .map(|component| {
                let first = before;
                before += component.targets.len();
                (component, first)
            })
            .collect();
        for component in &mut layout.components {
            let old = known
                .iter()
                .find(|(old, _)| old.generation == component.generation);
            for stripe in 0..component.targets.len() {
                let server_presence = component.presence.get(stripe);
                let object = match old {
                    Some((old, first)) if knows_objects => {
                        component.presence.set(stripe, old.presence.get(stripe));
                        self.objects[first + stripe]
                    }
                    // Unsynced objects stay unsynced, also if other clients wrote meanwhile.
                    Some((_, first)) => ObjectState {
                        blocks: (server_presence == Presence::Never).then_some(0),
                        ..self.objects[first + stripe]
                    },
                    None if fresh || server_presence == Presence::Never => {
                        component.presence.set(stripe, Presence::Never);
                        ObjectState {
                            blocks: Some(0),
                            ..ObjectState::default()
                        }
                    }
                    None => ObjectState::default(),
                };
                objects.push(object);
            }
        }
        self.layout = layout;
        self.objects = objects;
        self.infer_only_unknown_blocks();
    }

    /// If only one object's blocks are unknown, they are the file's.
    fn infer_only_unknown_blocks(&mut self) {
        let mut unknown = self
            .objects
            .iter_mut()
            .filter(|object| object.blocks.is_none());
        if let (Some(only), None, Some(base)) = (unknown.next(), unknown.next(), &self.server_attr)
            && self.changes == 0
        {
            only.blocks = Some(base.blocks);
        }
    }

    fn object_index(&self, component: usize, stripe: usize) -> usize {
        let before = self.layout.components[..component].iter();
        before
            .map(|component| component.targets.len())
            .sum::<usize>()
            + stripe
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

    /// Plans a write: its chunks of at most `message_max` bytes, each with whether its object has no bytes behind it. Marks what
    /// the write will change, so that the objects of a dropped write are still synced and its leftovers still truncated.
    pub fn plan_write(
        &mut self,
        ino: InodeId,
        offset: u64,
        len: u64,
        message_max: u64,
    ) -> Vec<(StripeChunk, bool)> {
        let chunks = self.chunks(ino, offset, len, message_max);
        let size = self.size;
        self.leftover_end = self.leftover_end.max(offset + len);
        let planned = chunks.into_iter().map(|chunk| {
            let component = &self.layout.components[chunk.component];
            let last = chunk.at.0 + chunk.len >= component.object_size(chunk.stripe, size);
            (chunk, last)
        });
        let planned: Vec<(StripeChunk, bool)> = planned.collect();
        for (chunk, _) in &planned {
            self.mark_object_dirty(chunk.component, chunk.stripe);
        }
        planned
    }

    /// An object is about to be changed, and created if it does not exist.
    pub fn mark_object_dirty(&mut self, component: usize, stripe: usize) {
        let index = self.object_index(component, stripe);
        self.objects[index].mark_unsynced(None);
        let presence = &mut self.layout.components[component].presence;
        if presence.get(stripe) == Presence::Never {
            presence.set(stripe, Presence::Maybe);
        }
    }

    /// An object was written; `stat` is its new state. Concurrent writes are answered in any order, so the highest block count is
    /// kept.
    pub fn object_written(
        &mut self,
        component: usize,
        stripe: usize,
        (stat, verifier): (ObjectStat, WriteVerifier),
    ) {
        let object = self.object_changed(component, stripe, verifier);
        object.blocks = Some(object.blocks.unwrap_or(0).max(stat.blocks));
        self.layout.components[component]
            .presence
            .set(stripe, Presence::Present);
    }

    /// Bytes of an object were removed, if it exists; an absent object stays absent.
    pub fn object_cleared(
        &mut self,
        component: usize,
        stripe: usize,
        (stat, verifier): (ObjectStat, WriteVerifier),
    ) {
        self.object_changed(component, stripe, verifier).blocks = Some(stat.blocks);
    }

    fn object_changed(
        &mut self,
        component: usize,
        stripe: usize,
        verifier: WriteVerifier,
    ) -> &mut ObjectState {
        let index = self.object_index(component, stripe);
        let object = &mut self.objects[index];
        // Again, after the change: a sync that ran meanwhile may have cleared the mark.
        object.mark_unsynced(Some(verifier));
        object
    }

    /// The file's bytes up to `end` changed at `now`.
    pub fn data_changed(&mut self, end: u64, now: Timestamp) {
        self.size = self.size.max(end);
        self.leftover_end = self.leftover_end.max(self.size);
        self.mtime = Some(now);
        self.changes += 1;
    }

    /// The chunks of bytes that existed when the file was loaded. None if not all of them existed, or if the data was inline.
    pub fn plan_hinted_read(
        &self,
        ino: InodeId,
        offset: u64,
        end: u64,
        message_max: u64,
    ) -> Option<Vec<StripeChunk>> {
        if self.data_location() == DataLocation::Inode || end > self.size {
            return None;
        }
        let mut chunks = chunks::chunks(&self.layout, ino, offset, end - offset, message_max);
        for chunk in &mut chunks {
            chunk.presence = Presence::Maybe; // another client may have created it
        }
        Some(chunks)
    }

    pub fn plan_read(&self, ino: InodeId, offset: u64, end: u64, message_max: u64) -> ReadPlan {
        match self.data_location() {
            DataLocation::Inode => {
                let have = self.inline.len() as u64;
                let bytes = self
                    .inline
                    .slice(offset.min(have) as usize..end.min(have) as usize);
                let zeros = end - offset - bytes.len() as u64;
                ReadPlan::Inline(bytes, zeros)
            }
            DataLocation::Objects => {
                ReadPlan::Chunks(self.chunks(ino, offset, end - offset, message_max))
            }
        }
    }

    /// An unsynced object is `Maybe`: its server may lose power while this client runs on.
    fn chunks(&self, ino: InodeId, offset: u64, len: u64, message_max: u64) -> Vec<StripeChunk> {
        let mut chunks = chunks::chunks(&self.layout, ino, offset, len, message_max);
        for chunk in &mut chunks {
            let object = &self.objects[self.object_index(chunk.component, chunk.stripe)];
            if chunk.presence == Presence::Present && object.may_be_lost() {
                chunk.presence = Presence::Maybe;
            }
        }
        chunks
    }

    pub fn spans(&self, ino: InodeId, from: u64, to: u64) -> Vec<ObjectSpan> {
        chunks::spans(&self.layout, ino, from, to)
    }

    /// Blocks of all objects; None while those of one object are not known.
    pub fn blocks(&self) -> Option<u64> {
        self.objects.iter().map(|object| object.blocks).sum()
    }

    /// The same, if this client's count is authoritative.
    pub fn authoritative_blocks(&self) -> Option<u64> {
        let ours = self.has_write_lease && self.data_location() == DataLocation::Objects;
        if ours { self.blocks() } else { None }
    }

    /// Objects whose existence or blocks are not known.
    pub fn unknown_objects(&self, ino: InodeId) -> Vec<(OstId, ObjectId)> {
        let all = self.layout.objects(ino).zip(&self.objects);
        all.filter(|((.., presence), known)| *presence == Presence::Maybe || known.blocks.is_none())
            .map(|((_, _, ost, object, _), _)| (ost, object))
            .collect()
    }

    /// Takes a target's reply about an unknown object; ignored if the layout has changed meanwhile.
    pub fn object_learned(&mut self, object: ObjectId, stat: Option<ObjectStat>) {
        let components = self.layout.components.iter().enumerate();
        let Some(component) = components
            .filter(|(_, component)| component.generation == object.generation)
            .map(|(index, _)| index)
            .next()
        else {
            return;
        };
        let stripe = object.stripe as usize;
        let index = self.object_index(component, stripe);
        self.objects[index].blocks = Some(stat.map_or(0, |stat| stat.blocks));
        let presence = &mut self.layout.components[component].presence;
        match (presence.get(stripe), stat) {
            (Presence::Present, Some(_)) => {}
            (Presence::Never | Presence::Maybe, Some(_)) => {
                presence.set(stripe, Presence::Present);
                // The client that created it may not have synced it.
                self.objects[index].mark_unsynced(None);
            }
            (Presence::Maybe, None) => presence.set(stripe, Presence::Never),
            // Known to have been created and now absent: lost. Reads must continue to return that error.
            (Presence::Never | Presence::Present, None) => {}
        }
    }

    // Reports to the server.

    pub fn has_unreported(&self) -> bool {
        self.reported_changes != self.changes || self.atime.is_some()
    }

    /// The report does not list unsynced objects as present: the record would claim that they exist, and a power loss could make
    /// that wrong. With `keep` a later report lists them; without, the server asks the OSTs later.
    pub fn attr_report(&self, keep: bool) -> PendingReport {
        let objects = (self.layout.components.iter().enumerate()).flat_map(|(index, component)| {
            let stripes = 0..component.targets.len();
            stripes.map(move |stripe| (index, stripe, component.presence.get(stripe)))
        });
        let there = objects
            .zip(&self.objects)
            .filter(|((.., presence), _)| *presence == Presence::Present);
        let (unsynced, synced): (Vec<_>, Vec<_>) =
            there.partition(|(_, known)| known.may_be_lost());
        let positions = |objects: Vec<((usize, usize, Presence), &ObjectState)>| {
            let position = |((index, stripe, _), _)| (index as u32, stripe as u32);
            objects.into_iter().map(position).collect::<Vec<_>>()
        };
        let is_complete = !keep || unsynced.is_empty();
        let blocks = if self.layout.is_empty() {
            None
        } else {
            self.blocks()
        };
        PendingReport {
            report: AttrReport {
                size: self.size,
                mtime: self.mtime,
                atime: self.atime,
                blocks: blocks
                    .or(self.server_attr.map(|base| base.blocks))
                    .unwrap_or(0),
                present: positions(synced),
                unsynced: positions(unsynced),
            },
            changes: self.changes,
            is_complete,
        }
    }

    /// A snapshot of the unreported times.
    pub fn unreported_times(&self) -> UnreportedTimes {
        UnreportedTimes {
            changes: self.changes,
            atime: self.atime,
        }
    }

    /// A setattr has set times at the server after `before`: the times that were unreported then must not be reported any more,
    /// because they would overwrite the set ones.
    pub fn times_set_at_server(&mut self, mtime: bool, atime: bool, before: UnreportedTimes) {
        if mtime && self.changes == before.changes {
            self.mtime = None;
        }
        if atime && self.atime == before.atime {
            self.atime = None;
        }
    }

    /// The server has accepted the report; later changes stay unreported.
    pub fn report_accepted(&mut self, pending: &PendingReport) {
        if pending.is_complete {
            self.reported_changes = self.reported_changes.max(pending.changes);
        }
        if self.changes == pending.changes {
            self.mtime = None;
        }
        if self.atime == pending.report.atime {
            self.atime = None;
        }
    }

    // Unsynced objects.

    /// Takes the objects to sync. The caller calls `sync_finished` with the result; no other task takes any before that.
    pub fn take_unsynced(&mut self, ino: InodeId) -> Vec<UnsyncedObject> {
        let all = std::mem::take(&mut self.may_have_unknown_unsynced);
        let mut taken = Vec::new();
        for ((_, _, ost, object, presence), known) in
            self.layout.objects(ino).zip(&mut self.objects)
        {
            let unsure = (all && presence != Presence::Never).then(UnsyncedSince::default);
            if let Some(since) = known.unsynced.take().or(unsure) {
                known.syncing = Some(since);
                taken.push(UnsyncedObject { ost, object, since });
            }
        }
        taken
    }

    /// The taken objects were synced (`well`), or stay unsynced.
    pub fn sync_finished(&mut self, succeeded: bool) {
        for object in &mut self.objects {
            object.sync_finished(succeeded);
        }
    }

    /// Unsynced data of these objects may be lost, and so may the objects themselves.
    pub fn objects_lost(&mut self, ino: InodeId, lost: &[UnsyncedObject]) {
        let all: Vec<_> = self.layout.objects(ino).collect();
        for (index, (component, stripe, _, object, presence)) in all.into_iter().enumerate() {
            if presence != Presence::Present || !lost.iter().any(|lost| lost.object == object) {
                continue;
            }
            self.objects[index].blocks = None;
            let presence = &mut self.layout.components[component].presence;
            presence.set(stripe, Presence::Maybe);
        }
    }

    /// Objects known to be unsynced.
    pub fn unsynced_objects(&self, ino: InodeId) -> Vec<UnsyncedObject> {
        let all = self.layout.objects(ino).zip(&self.objects);
        all.filter_map(|((_, _, ost, object, _), known)| {
            let since = known.unsynced_since()?;
            Some(UnsyncedObject { ost, object, since })
        })
        .collect()
    }

    /// The table must keep an inode with a write lease: the server waits for its report.
    pub fn must_stay_in_table(&self) -> bool {
        self.has_write_lease
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::attr::FileKind;
    use gupfs_proto::layout::{ComponentKind, ComponentState};
    use gupfs_proto::limits::PAYLOAD_MAX;
    use gupfs_proto::{
        ByteCount, Component, FileMode, FileOffset, Generation, PresenceMap, ProjectId, VolumeId,
    };

    fn opened(change: u64, presence: Presence) -> OpenInfo {
        let mut map = PresenceMap::new(2);
        map.set(0, presence);
        map.set(1, presence);
        let component = Component {
            from: FileOffset(0),
            to: FileOffset(u64::MAX),
            kind: ComponentKind::Plain,
            unit: ByteCount::mib(1),
            targets: vec![OstId(0), OstId(1)],
            generation: Generation(3),
            state: ComponentState::Live,
            presence: map,
        };
        let time = Timestamp::default();
        OpenInfo {
            attr: Attr {
                ino: InodeId(5),
                kind: FileKind::Regular,
                mode: FileMode(0o644),
                nlink: 1,
                uid: 0,
                gid: 0,
                rdev: 0,
                size: change * 100,
                blocks: 0,
                atime: time,
                mtime: time,
                ctime: time,
                btime: time,
                change,
                flags: InodeFlags::empty(),
                project: ProjectId(0),
                volume: VolumeId(0),
            },
            layout: Layout {
                components: vec![component],
            },
            inline: None,
            created: false,
            capability: None,
        }
    }

    fn presence(state: &InodeState) -> Vec<Presence> {
        let objects = state.layout.objects(InodeId(5));
        objects.map(|(.., presence)| presence).collect()
    }

    #[test]
    fn unsynced_objects_stay_unsynced_when_another_client_has_written() {
        let mut state = InodeState::new(true);
        state.update_from_server(opened(1, Presence::Never));
        state.lease_acquired(opened(2, Presence::Maybe));
        state.mark_object_dirty(0, 1);
        state.lease_released(Some(opened(3, Presence::Maybe).attr));
        state.update_from_server(opened(9, Presence::Maybe));
        assert_eq!(state.size, 900);
        assert_eq!(state.unsynced_objects(InodeId(5)).len(), 1);
        assert!(state.may_have_unknown_unsynced, "another client wrote, too");
    }

    #[test]
    fn an_object_is_present_only_once_it_is_synced() {
        let mut state = InodeState::new(true);
        state.update_from_server(opened(1, Presence::Never));
        state.lease_acquired(opened(2, Presence::Maybe));
        let planned = |state: &InodeState| match state.plan_read(InodeId(5), 0, 10, PAYLOAD_MAX.0) {
            ReadPlan::Chunks(chunks) => chunks[0].presence,
            ReadPlan::Inline(..) => panic!("it has objects"),
        };
        state.object_written(0, 0, (ObjectStat::default(), WriteVerifier(1)));
        assert_eq!(planned(&state), Presence::Maybe);
        assert_eq!(state.take_unsynced(InodeId(5)).len(), 1);
        assert_eq!(planned(&state), Presence::Maybe, "the sync may still fail");
        state.sync_finished(true);
        assert_eq!(planned(&state), Presence::Present);
        let again = state.plan_write(InodeId(5), 0, 10, PAYLOAD_MAX.0);
        assert_eq!(again[0].0.presence, Presence::Present);
        assert_eq!(planned(&state), Presence::Maybe);
    }

    #[test]
    fn presence_is_known_until_another_client_can_have_created_objects() {
        let mut state = InodeState::new(true);
        state.update_from_server(opened(1, Presence::Never));
        state.lease_acquired(opened(2, Presence::Maybe));
        assert_eq!(presence(&state), [Presence::Never; 2]);
        state.lease_released(Some(opened(3, Presence::Never).attr));
        state.lease_acquired(opened(4, Presence::Maybe));
        assert_eq!(presence(&state), [Presence::Never; 2]);
        state.lease_released(Some(opened(5, Presence::Never).attr));
        state.lease_acquired(opened(7, Presence::Maybe));
        assert_eq!(presence(&state), [Presence::Maybe; 2]);
        assert_eq!((state.size, state.blocks()), (700, None));
    }

    #[test]
    fn a_late_reply_to_the_last_report_invalidates_the_state() {
        let mut state = InodeState::new(true);
        state.update_from_server(opened(1, Presence::Never));
        state.lease_acquired(opened(2, Presence::Maybe));
        state.note_own_update(opened(3, Presence::Maybe).attr);
        // Another client has had the lease since, and released it.
        state.lease_released(Some(opened(7, Presence::Never).attr));
        state.lease_acquired(opened(8, Presence::Maybe));
        assert_eq!(state.size, 800);
    }

    #[test]
    fn an_overtaken_reply_changes_nothing() {
        let mut state = InodeState::new(true);
        state.update_from_server(opened(5, Presence::Maybe));
        state.update_from_server(opened(4, Presence::Never));
        assert_eq!(
            (state.size, presence(&state)),
            (500, vec![Presence::Maybe; 2])
        );
        assert!(!state.is_authoritative());
        state.lease_acquired(opened(6, Presence::Maybe));
        state.update_from_server(opened(8, Presence::Never));
        assert_eq!(state.size, 500, "this client has the lease");
        assert!(state.is_authoritative());
    }
}
