//! What the client knows of one open or held file: pure, no lock, no await.
//!
//! While the file is held (`marked`) size, times and objects are this client's word and lie over whatever the metadata
//! server answers. The layout's presence bits are what *we* know: after `BeginWrite` the server says `Maybe` for every
//! object, while we know that those we have not written are not there.
//!
//! Where other clients use the file too (`shared`), all of it counts only while the file is held. What is known of a file
//! that is not held is as old as its last load: a hint where bytes may be, to be loaded again where it matters.

use super::errors::Errors;
use super::flush::{self, Span};
use super::object::{Object, Since, Unsynced};
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::capability::OpenProof;
use gupfs_proto::data::{ObjectStat, Owner};
use gupfs_proto::limits::INLINE_MAX;
use gupfs_proto::meta::{Access, Opened, Written};
use gupfs_proto::{
    Attr, InodeId, Layout, ObjectId, OstId, OstLife, Piece, Presence, Refusal, SessionId, Timestamp,
};

use bytes::{Bytes, BytesMut};

#[derive(Default)]
pub struct State {
    /// Others may change the file while it is not held here.
    shared: bool,
    /// The inode's `change` that size, layout and inline bytes are of.
    loaded_at: u64,
    /// The newest attributes the server told; None until the file was loaded.
    base: Option<Attr>,
    pub layout: Layout,
    /// The bytes that live in the inode; with a layout beside it, they still wait to be moved there.
    inline: Bytes,
    /// Somebody may have been told that the inode's bytes survive a power cut.
    inline_promised: bool,
    /// The file was made here since it was loaded, so nobody else was told that unless he has opened it: the server knows.
    newborn: bool,
    /// Where the file ends: always right for a loaded file, since every change of it passes through here.
    pub size: u64,
    /// Up to where objects may hold bytes that never became part of the file: a write that failed or was given up.
    pub beyond: u64,
    /// The server was asked to record that these are to be cut, since an OST refused to; until it says that they are, the file must not grow:
    /// the server's cut would take what it grew by.
    pub cut_is_promised: bool,
    /// In the order of `layout.objects()`.
    objects: Vec<Object>,
    /// The server has recorded that this session writes the file.
    pub marked: bool,
    /// Times the server was not told yet.
    mtime: Option<Timestamp>,
    pub atime: Option<Timestamp>,
    /// Changes made, and how many of them the server was told.
    changes: u64,
    told: u64,
    pub handles: u32,
    pub writers: u32,
    /// What was opened here, and in which session: what the server believes us by. Of several opens the one that gives most.
    proof: Option<(SessionId, OpenProof)>,
    /// What of setuid, setgid and capabilities may be left.
    privileges: Privileges,
    /// Objects may be unsynced that this state does not know of: they were written before it was loaded.
    pub sync_unsure: bool,
    pub errors: Errors,
}

/// Where the bytes of a file are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    Inode,
    Objects,
}

/// What a program file has that a write takes away: capabilities always, setuid and setgid if the writer has no
/// privilege. In the order in which they go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Privileges {
    #[default]
    Unknown,
    NoCapabilities,
    None,
}

/// Which range a write needs for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
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

impl Way {
    /// To make the file ready for objects, or to leave it in its inode.
    pub const WHOLE: Way = Way {
        from: 0,
        to: u64::MAX,
    };

    pub fn covers(self, other: Way) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

/// What a read finds.
pub enum Found {
    /// From the inode: these bytes, then so many zeros.
    Inline(Bytes, u64),
    /// From objects; the file ends at `end` or the range does.
    Pieces(Vec<Piece>),
}

/// A moment in the life of a file's times.
#[derive(Clone, Copy)]
pub struct Times {
    changes: u64,
    atime: Option<Timestamp>,
}

/// What was said to the server, to be confirmed when it has heard.
pub struct Word {
    pub written: Written,
    changes: u64,
    /// Nothing is left to be said.
    whole: bool,
}

impl State {
    pub fn new(shared: bool) -> State {
        State {
            shared,
            ..State::default()
        }
    }

    /// The file was opened with this access; the server said so.
    pub fn was_opened(&mut self, session: SessionId, opened: &Opened, access: Access) {
        let given = opened.capability.as_ref();
        let Some(proof) = given.and_then(|it| it.open_proof(opened.attr.ino, access)) else {
            return;
        };
        let gives_more = |(of, known): &(SessionId, OpenProof)| {
            *of == session && known.rights.contains(proof.rights)
        };
        if !self.proof.as_ref().is_some_and(gives_more) {
            self.proof = Some((session, proof));
        }
    }

    /// What shows that it is open in this session.
    pub fn open_proof(&self, session: SessionId) -> Option<OpenProof> {
        let of_this = self.proof.filter(|(of, _)| *of == session);
        of_this.map(|(_, proof)| proof)
    }

    /// Whether what is known here is how the file stands.
    pub fn counts(&self) -> bool {
        self.is_loaded() && (!self.shared || self.marked)
    }

    pub fn is_loaded(&self) -> bool {
        self.base.is_some()
    }

    /// What the server says of the file, if it is not known better here. Answers may overtake each other.
    pub fn take(&mut self, opened: Opened) {
        if self.counts() || (self.is_loaded() && opened.attr.change < self.loaded_at) {
            self.note(opened.attr);
        } else {
            self.load_as(opened, self.loaded_at);
        }
    }

    /// Takes what the server says after it has given the file a new size (truncation).
    pub fn load(&mut self, opened: Opened) {
        self.load_as(opened, self.loaded_at + 1);
    }

    /// `known_at`: if the inode has changed no further, what we know of its objects is right.
    fn load_as(&mut self, opened: Opened, known_at: u64) {
        let knows_objects = !self.shared || self.marked || opened.attr.change <= known_at;
        // With its layout the server drops its record of who wrote the objects.
        self.marked &= !opened.layout.is_empty();
        self.sync_unsure = !opened.created;
        self.newborn = opened.created;
        if self
            .base
            .is_none_or(|base| base.change <= opened.attr.change)
        {
            self.base = Some(opened.attr);
        }
        self.loaded_at = opened.attr.change;
        self.size = opened.attr.size;
        self.beyond = self.size;
        self.cut_is_promised = false;
        self.mtime = None;
        self.told = self.changes;
        // Objects that go on may have become smaller; those that had nothing still have nothing.
        for object in &mut self.objects {
            object.blocks = object.blocks.filter(|blocks| *blocks == 0);
        }
        self.adopt(opened.layout, false, knows_objects);
        self.inline = opened.inline.unwrap_or_default();
        self.inline_promised = !self.inline.is_empty();
    }

    /// Attributes from any answer: kept if they are not older than those known.
    pub fn note(&mut self, attr: Attr) {
        if let Some(base) = &mut self.base
            && base.change <= attr.change
        {
            *base = attr;
        }
    }

    pub fn base(&self) -> Option<&Attr> {
        self.base.as_ref()
    }

    /// What stat(2) should say, given what the server says.
    pub fn overlay(&self, attr: Attr) -> Attr {
        let Some(base) = &self.base else { return attr };
        if !self.counts() {
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
        if let Some(blocks) = self.blocks_by_us() {
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

    pub fn home(&self) -> Home {
        if self.layout.is_empty() || !self.inline.is_empty() {
            Home::Inode
        } else {
            Home::Objects
        }
    }

    /// Whether a write can go straight to objects, as far as they are concerned.
    pub fn is_ready(&self) -> bool {
        self.marked && self.home() == Home::Objects
    }

    /// Whether a write must ask the server to take privileges away.
    pub fn has_privileges(&self, kill: bool) -> bool {
        self.privileges < Privileges::after_write(kill)
    }

    /// Whether the file's capabilities are known to be gone.
    pub fn has_no_capability(&self) -> bool {
        self.privileges >= Privileges::NoCapabilities
    }

    /// The server has taken them away.
    pub fn took_privileges(&mut self, kill: bool) {
        self.privileges = self.privileges.max(Privileges::after_write(kill));
    }

    /// Mode, owner or an extended attribute has changed.
    pub fn may_have_privileges(&mut self) {
        self.privileges = Privileges::Unknown;
    }

    /// Where the file ends, for who is about to write it and has the range for itself.
    ///
    /// # Errors
    /// `Stale` when nobody has it open for writing any more: what is written now would never be told.
    pub fn size_to_write(&self) -> Result<u64, Refusal> {
        match self.writers {
            0 => Err(Refusal::Stale),
            _ => Ok(self.size),
        }
    }

    /// Where a held file is written that is to be written at `wish`, or at its end.
    ///
    /// # Errors
    /// `NotPermitted` before the end of an append-only file. (The server gave the file as one to be appended to, and sees no
    /// write to its objects.)
    pub fn may_write_at(&self, wish: Option<u64>) -> Result<u64, Refusal> {
        let at = wish.unwrap_or(self.size);
        match at < self.size && self.is_append_only() {
            true => Err(Refusal::NotPermitted),
            false => Ok(at),
        }
    }

    pub fn is_append_only(&self) -> bool {
        let base = self.base.as_ref();
        base.is_some_and(|base| base.flags.contains(InodeFlags::APPEND_ONLY))
    }

    /// The range that a write of `len` bytes at `offset` (None: at the end) must have for itself: its own bytes, or
    /// everything from the end of the file on if it moves that.
    pub fn way(&self, offset: Option<u64>, len: u64) -> Way {
        if !self.is_ready() {
            return Way::WHOLE;
        }
        match offset {
            Some(from) if from.saturating_add(len) <= self.size => Way {
                from,
                to: from + len,
            },
            other => Way {
                from: other.unwrap_or(self.size).min(self.size),
                to: u64::MAX,
            },
        }
    }

    /// The session was lost: what was known and held is another's affair. Who has the file open still closes it.
    pub fn lose(&mut self) {
        *self = State {
            handles: self.handles,
            writers: self.writers,
            errors: std::mem::take(&mut self.errors),
            ..State::new(self.shared)
        };
    }

    // The inode's own bytes.

    /// Whoever asks for a sync may rely on the inode's bytes from now on.
    pub fn promise_inline(&mut self) {
        self.inline_promised = true;
    }

    pub fn is_inline_promised(&self) -> bool {
        self.inline_promised
    }

    pub fn inline(&self) -> &Bytes {
        &self.inline
    }

    /// `data` was written at `offset` of a file that lives in its inode.
    pub fn wrote_inline(&mut self, offset: u64, data: &[u8], now: Attr) {
        if self.shared && now.change != self.loaded_at + 1 {
            // Others wrote, too.
            return self.note(now);
        }
        self.loaded_at = now.change;
        debug_assert!(offset + data.len() as u64 <= INLINE_MAX.0);
        let (from, to) = (offset as usize, offset as usize + data.len());
        let mut bytes = BytesMut::zeroed(self.inline.len().max(to));
        bytes[..self.inline.len()].copy_from_slice(&self.inline);
        bytes[from..to].copy_from_slice(data);
        self.inline = bytes.freeze();
        self.size = now.size;
        self.beyond = self.size;
        self.note(now);
    }

    /// The inode's bytes lie in objects now.
    pub fn spilled(&mut self) {
        self.inline = Bytes::new();
    }

    // Layout and objects.

    /// The layout after `BeginWrite`. What was known of its components is kept; a layout made just now has no objects.
    pub fn begun(&mut self, opened: Opened) {
        if self.shared && !self.marked {
            return self.begun_alone(opened);
        }
        let fresh = self.layout.is_empty();
        self.note(opened.attr);
        self.adopt(opened.layout, fresh, true);
        self.marked = true;
    }

    /// The same for a file that others may have written since it was loaded.
    fn begun_alone(&mut self, opened: Opened) {
        if opened.attr.change > self.loaded_at + 1 {
            self.load_as(opened, 0);
        } else {
            let fresh = self.layout.is_empty();
            self.loaded_at = opened.attr.change;
            self.note(opened.attr);
            self.adopt(opened.layout, fresh, true);
        }
        // Others may have been promised them.
        self.inline_promised |= !self.newborn && !self.inline.is_empty();
        self.may_have_privileges();
        self.marked = true;
    }

    /// The server has taken a word of ours while we hold the file: nobody else has changed what is known here.
    pub fn said(&mut self, attr: Attr) {
        if self.marked {
            self.loaded_at = attr.change;
        }
        self.note(attr);
    }

    /// The server has our last word: what it says counts. What is known here is what it says now, unless its answer came late
    /// (asked again over a new connection, say) and tells of what others did since.
    pub fn given_back(&mut self, attr: Option<Attr>) {
        self.marked = false;
        self.loaded_at = match attr {
            Some(attr) if attr.change == self.loaded_at + 1 => attr.change,
            _ => 0,
        };
    }

    /// `knows_objects`: what is known of its objects here is right.
    fn adopt(&mut self, mut layout: Layout, fresh: bool, knows_objects: bool) {
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
                let told = component.presence.get(stripe);
                let object = match old {
                    Some((old, first)) if knows_objects => {
                        component.presence.set(stripe, old.presence.get(stripe));
                        self.objects[first + stripe]
                    }
                    // What is to be synced is, whoever wrote meanwhile.
                    Some((_, first)) => Object {
                        blocks: (told == Presence::Never).then_some(0),
                        ..self.objects[first + stripe]
                    },
                    None if fresh || told == Presence::Never => {
                        component.presence.set(stripe, Presence::Never);
                        Object {
                            blocks: Some(0),
                            ..Object::default()
                        }
                    }
                    None => Object::default(),
                };
                objects.push(object);
            }
        }
        self.layout = layout;
        self.objects = objects;
        self.only_object_has_all_blocks();
    }

    /// With one object, its blocks are the file's.
    fn only_object_has_all_blocks(&mut self) {
        let mut unknown = self
            .objects
            .iter_mut()
            .filter(|object| object.blocks.is_none());
        if let (Some(only), None, Some(base)) = (unknown.next(), unknown.next(), &self.base)
            && self.changes == 0
        {
            only.blocks = Some(base.blocks);
        }
    }

    fn index(&self, component: usize, stripe: usize) -> usize {
        let before = self.layout.components[..component].iter();
        before
            .map(|component| component.targets.len())
            .sum::<usize>()
            + stripe
    }

    /// Whose space the objects take.
    pub fn owner(&self) -> Owner {
        self.base.as_ref().map_or(Owner::default(), |base| Owner {
            uid: base.uid,
            gid: base.gid,
            project: base.project.0,
            volume: base.volume.0,
        })
    }

    /// Plans a write: its pieces, each with whether nothing of its object lies behind it. Marks what it will touch, so
    /// that a write given up half way is still synced and still cut off.
    pub fn plan_write(&mut self, ino: InodeId, offset: u64, len: u64) -> Vec<(Piece, bool)> {
        let pieces = self.pieces(ino, offset, len);
        let size = self.size;
        self.beyond = self.beyond.max(offset + len);
        let planned = pieces.into_iter().map(|piece| {
            let component = &self.layout.components[piece.component];
            let last = piece.at.0 + piece.len >= component.object_size(piece.stripe, size);
            (piece, last)
        });
        let planned: Vec<(Piece, bool)> = planned.collect();
        for (piece, _) in &planned {
            self.touch(piece.component, piece.stripe);
        }
        planned
    }

    /// An object is about to be changed, and perhaps made.
    pub fn touch(&mut self, component: usize, stripe: usize) {
        let index = self.index(component, stripe);
        self.objects[index].changed(None);
        let presence = &mut self.layout.components[component].presence;
        if presence.get(stripe) == Presence::Never {
            presence.set(stripe, Presence::Maybe);
        }
    }

    /// An object was written, and stands like this now. Writes beside each other are answered in any order: of their
    /// blocks the most counts.
    pub fn written(
        &mut self,
        component: usize,
        stripe: usize,
        (stat, life): (ObjectStat, OstLife),
    ) {
        let object = self.changed(component, stripe, life);
        object.blocks = Some(object.blocks.unwrap_or(0).max(stat.blocks));
        self.layout.components[component]
            .presence
            .set(stripe, Presence::Present);
    }

    /// Bytes of an object were taken away, if it exists: an absent one is no more there than before.
    pub fn cleared(
        &mut self,
        component: usize,
        stripe: usize,
        (stat, life): (ObjectStat, OstLife),
    ) {
        self.changed(component, stripe, life).blocks = Some(stat.blocks);
    }

    fn changed(&mut self, component: usize, stripe: usize, life: OstLife) -> &mut Object {
        let index = self.index(component, stripe);
        let object = &mut self.objects[index];
        // Again, after the change: a sync that ran meanwhile may have cleared it.
        object.changed(Some(life));
        object
    }

    /// The file's bytes up to `end` changed at `now`.
    pub fn wrote(&mut self, end: u64, now: Timestamp) {
        self.size = self.size.max(end);
        self.beyond = self.beyond.max(self.size);
        self.mtime = Some(now);
        self.changes += 1;
    }

    /// Where bytes may be that were there when the file was loaded. None if not all of them were, or not in objects.
    pub fn plan_hinted_read(&self, ino: InodeId, offset: u64, end: u64) -> Option<Vec<Piece>> {
        if self.home() == Home::Inode || end > self.size {
            return None;
        }
        let mut pieces = flush::pieces(&self.layout, ino, offset, end - offset);
        for piece in &mut pieces {
            piece.presence = Presence::Maybe; // another may have made it
        }
        Some(pieces)
    }

    pub fn plan_read(&self, ino: InodeId, offset: u64, end: u64) -> Found {
        match self.home() {
            Home::Inode => {
                let have = self.inline.len() as u64;
                let bytes = self
                    .inline
                    .slice(offset.min(have) as usize..end.min(have) as usize);
                let zeros = end - offset - bytes.len() as u64;
                Found::Inline(bytes, zeros)
            }
            Home::Objects => Found::Pieces(self.pieces(ino, offset, end - offset)),
        }
    }

    /// An object that is not synced may be there: its server may lose power while we live.
    fn pieces(&self, ino: InodeId, offset: u64, len: u64) -> Vec<Piece> {
        let mut pieces = flush::pieces(&self.layout, ino, offset, len);
        for piece in &mut pieces {
            let object = &self.objects[self.index(piece.component, piece.stripe)];
            if piece.presence == Presence::Present && object.may_vanish() {
                piece.presence = Presence::Maybe;
            }
        }
        pieces
    }

    pub fn spans(&self, ino: InodeId, from: u64, to: u64) -> Vec<Span> {
        flush::spans(&self.layout, ino, from, to)
    }

    /// Space in use over all objects; None while one of them is not known.
    pub fn blocks(&self) -> Option<u64> {
        self.objects.iter().map(|object| object.blocks).sum()
    }

    /// The same, if it is for us to say.
    pub fn blocks_by_us(&self) -> Option<u64> {
        let ours = self.marked && self.home() == Home::Objects;
        if ours { self.blocks() } else { None }
    }

    /// Objects of which it is not known whether they exist, or how much space they take.
    pub fn unknown(&self, ino: InodeId) -> Vec<(OstId, ObjectId)> {
        let all = self.layout.objects(ino).zip(&self.objects);
        all.filter(|((.., presence), known)| *presence == Presence::Maybe || known.blocks.is_none())
            .map(|((_, _, ost, object, _), _)| (ost, object))
            .collect()
    }

    /// What a target says of an object that was not known; a layout that has changed meanwhile does not care.
    pub fn learned(&mut self, object: ObjectId, stat: Option<ObjectStat>) {
        let components = self.layout.components.iter().enumerate();
        let Some(component) = components
            .filter(|(_, component)| component.generation == object.generation)
            .map(|(index, _)| index)
            .next()
        else {
            return;
        };
        let stripe = object.stripe as usize;
        let index = self.index(component, stripe);
        self.objects[index].blocks = Some(stat.map_or(0, |stat| stat.blocks));
        let presence = &mut self.layout.components[component].presence;
        match (presence.get(stripe), stat) {
            (Presence::Present, Some(_)) => {}
            (Presence::Never | Presence::Maybe, Some(_)) => {
                presence.set(stripe, Presence::Present);
                // Who made it may not have synced it.
                self.objects[index].changed(None);
            }
            (Presence::Maybe, None) => presence.set(stripe, Presence::Never),
            // Known to be made and not there: lost. Reading it must go on saying so.
            (Presence::Never | Presence::Present, None) => {}
        }
    }

    // The word to the server.

    pub fn is_untold(&self) -> bool {
        self.told != self.changes || self.atime.is_some()
    }

    /// Objects that are not durable are not called present: the record would say that they are there, and a power cut could
    /// make a loss of it. With `keep` they are still to be told of; without, the server finds out by itself.
    pub fn word(&self, keep: bool) -> Word {
        let objects = (self.layout.components.iter().enumerate()).flat_map(|(index, component)| {
            let stripes = 0..component.targets.len();
            stripes.map(move |stripe| (index, stripe, component.presence.get(stripe)))
        });
        let there = objects
            .zip(&self.objects)
            .filter(|((.., presence), _)| *presence == Presence::Present);
        let (unsynced, synced): (Vec<_>, Vec<_>) = there.partition(|(_, known)| known.may_vanish());
        let places = |objects: Vec<((usize, usize, Presence), &Object)>| {
            let place = |((index, stripe, _), _)| (index as u32, stripe as u32);
            objects.into_iter().map(place).collect::<Vec<_>>()
        };
        let whole = !keep || unsynced.is_empty();
        let blocks = if self.layout.is_empty() {
            None
        } else {
            self.blocks()
        };
        Word {
            written: Written {
                size: self.size,
                mtime: self.mtime,
                atime: self.atime,
                blocks: blocks.or(self.base.map(|base| base.blocks)).unwrap_or(0),
                present: places(synced),
                unsynced: places(unsynced),
            },
            changes: self.changes,
            whole,
        }
    }

    /// Which of our times are the newest now.
    pub fn times(&self) -> Times {
        Times {
            changes: self.changes,
            atime: self.atime,
        }
    }

    /// Somebody set times at the server after `before`: ours of that moment would be told after them, and win.
    pub fn times_were_set(&mut self, mtime: bool, atime: bool, before: Times) {
        if mtime && self.changes == before.changes {
            self.mtime = None;
        }
        if atime && self.atime == before.atime {
            self.atime = None;
        }
    }

    /// The server has heard it; what changed meanwhile stays untold.
    pub fn heard(&mut self, word: &Word) {
        if word.whole {
            self.told = self.told.max(word.changes);
        }
        if self.changes == word.changes {
            self.mtime = None;
        }
        if self.atime == word.written.atime {
            self.atime = None;
        }
    }

    // What is not synced.

    /// Objects to sync, by one who tells with `synced` how it went; nobody else takes any before.
    pub fn take_unsynced(&mut self, ino: InodeId) -> Vec<Unsynced> {
        let all = std::mem::take(&mut self.sync_unsure);
        let mut taken = Vec::new();
        for ((_, _, ost, object, presence), known) in
            self.layout.objects(ino).zip(&mut self.objects)
        {
            let unsure = (all && presence != Presence::Never).then(Since::default);
            if let Some(since) = known.unsynced.take().or(unsure) {
                known.syncing = Some(since);
                taken.push(Unsynced { ost, object, since });
            }
        }
        taken
    }

    /// What was taken was synced, or could not be and is still to be.
    pub fn synced(&mut self, well: bool) {
        for object in &mut self.objects {
            object.synced(well);
        }
    }

    /// What was written to these may be lost, and so may they.
    pub fn lost(&mut self, ino: InodeId, lost: &[Unsynced]) {
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
    pub fn unsynced(&self, ino: InodeId) -> Vec<Unsynced> {
        let all = self.layout.objects(ino).zip(&self.objects);
        all.filter_map(|((_, _, ost, object, _), known)| {
            let since = known.since()?;
            Some(Unsynced { ost, object, since })
        })
        .collect()
    }

    /// The table may not forget a file of which the server waits for a word.
    pub fn must_stay(&self) -> bool {
        self.marked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::attr::FileKind;
    use gupfs_proto::layout::{ComponentKind, ComponentState};
    use gupfs_proto::{
        ByteCount, Component, FileOffset, Generation, Mode, PresenceMap, ProjectId, VolumeId,
    };

    fn opened(change: u64, presence: Presence) -> Opened {
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
        Opened {
            attr: Attr {
                ino: InodeId(5),
                kind: FileKind::Regular,
                mode: Mode(0o644),
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

    fn presence(state: &State) -> Vec<Presence> {
        let objects = state.layout.objects(InodeId(5));
        objects.map(|(.., presence)| presence).collect()
    }

    #[test]
    fn what_is_not_synced_stays_so_when_another_has_written() {
        let mut state = State::new(true);
        state.take(opened(1, Presence::Never));
        state.begun(opened(2, Presence::Maybe));
        state.touch(0, 1);
        state.given_back(Some(opened(3, Presence::Maybe).attr));
        state.take(opened(9, Presence::Maybe));
        assert_eq!(state.size, 900);
        assert_eq!(state.unsynced(InodeId(5)).len(), 1);
        assert!(state.sync_unsure, "and others wrote");
    }

    #[test]
    fn an_object_is_certain_when_it_is_synced_and_not_before() {
        let mut state = State::new(true);
        state.take(opened(1, Presence::Never));
        state.begun(opened(2, Presence::Maybe));
        let planned = |state: &State| match state.plan_read(InodeId(5), 0, 10) {
            Found::Pieces(pieces) => pieces[0].presence,
            Found::Inline(..) => panic!("it has objects"),
        };
        state.written(0, 0, (ObjectStat::default(), OstLife(1)));
        assert_eq!(planned(&state), Presence::Maybe);
        assert_eq!(state.take_unsynced(InodeId(5)).len(), 1);
        assert_eq!(planned(&state), Presence::Maybe, "it may fail yet");
        state.synced(true);
        assert_eq!(planned(&state), Presence::Present);
        let again = state.plan_write(InodeId(5), 0, 10);
        assert_eq!(again[0].0.presence, Presence::Present);
        assert_eq!(planned(&state), Presence::Maybe);
    }

    #[test]
    fn objects_are_known_as_long_as_nobody_else_can_have_made_one() {
        let mut state = State::new(true);
        state.take(opened(1, Presence::Never));
        state.begun(opened(2, Presence::Maybe));
        assert_eq!(presence(&state), [Presence::Never; 2]);
        state.given_back(Some(opened(3, Presence::Never).attr));
        state.begun(opened(4, Presence::Maybe));
        assert_eq!(presence(&state), [Presence::Never; 2]);
        state.given_back(Some(opened(5, Presence::Never).attr));
        state.begun(opened(7, Presence::Maybe));
        assert_eq!(presence(&state), [Presence::Maybe; 2]);
        assert_eq!((state.size, state.blocks()), (700, None));
    }

    #[test]
    fn a_last_word_that_is_answered_late_leaves_nothing_to_believe() {
        let mut state = State::new(true);
        state.take(opened(1, Presence::Never));
        state.begun(opened(2, Presence::Maybe));
        state.said(opened(3, Presence::Maybe).attr);
        // Another has had the file since, and given it back.
        state.given_back(Some(opened(7, Presence::Never).attr));
        state.begun(opened(8, Presence::Maybe));
        assert_eq!(state.size, 800);
    }

    #[test]
    fn an_answer_that_was_overtaken_changes_nothing() {
        let mut state = State::new(true);
        state.take(opened(5, Presence::Maybe));
        state.take(opened(4, Presence::Never));
        assert_eq!(
            (state.size, presence(&state)),
            (500, vec![Presence::Maybe; 2])
        );
        assert!(!state.counts());
        state.begun(opened(6, Presence::Maybe));
        state.take(opened(8, Presence::Never));
        assert_eq!(state.size, 500, "it is held");
        assert!(state.counts());
    }
}
