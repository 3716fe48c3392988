//! One object as it is known in memory: its segments, what changes it now, what is durable.

use super::ahead::Ahead;
use super::behind::Behind;
use super::flight::{Flight, Span};
use super::limits::SEGMENT;
use super::record::ObjectRecord;
use super::region::{Region, blocks_of};
use super::sync_point::SyncPoint;
use gupfs_platform::{DiskFile, Stat};
use gupfs_proto::data::{ObjectStat, Owner};
use gupfs_proto::{ObjectId, Seq, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::Notify;

pub(super) struct Object {
    pub id: ObjectId,
    state: Mutex<State>,
    /// Loading, creating and removing its files: one at a time.
    pub gate: tokio::sync::Mutex<()>,
    /// A change under way has ended.
    ended: Notify,
    /// Its data files; their names are the directory's.
    pub data: SyncPoint,
    /// Since the table last looked for one to forget.
    pub used: AtomicBool,
}

pub(super) struct State {
    /// False: files and record are to be looked up first.
    pub loaded: bool,
    /// Segment 0 is there whenever the object is.
    pub segments: BTreeMap<u32, Segment>,
    pub mtime: Timestamp,
    pub flight: Flight,
    /// As the last writer said.
    pub owner: Owner,
    /// Its record as it was staged last; none before it was first settled.
    pub record: Option<ObjectRecord>,
    /// Regions that are known: all dirty ones that may still be settled, and clean ones while there is room. One that
    /// is not here has no record if it lies behind `record.regions_end`; else the records know.
    pub regions: BTreeMap<u64, Region>,
    /// Records taken away as of here speak for bytes that are gone: new ones wait until it is durable.
    pub forgotten: Seq,
    /// How often records of its regions were staged or taken away: who looked some up before looks again.
    pub restaged: u64,
    pub ahead: Ahead,
    pub behind: Behind,
    /// It waits to be settled.
    pub queued: bool,
    /// The target's count of dirty regions.
    pub dirty: Arc<AtomicUsize>,
}

#[derive(Default)]
pub(super) struct Segment {
    pub file: Option<DiskFile>,
    /// Since the open files were last looked through for one to close.
    pub used: bool,
    pub len: u64,
    /// Space in units of 512 bytes.
    pub blocks: u64,
}

impl Segment {
    pub fn new(stat: &Stat, file: Option<DiskFile>) -> Segment {
        Segment {
            file,
            used: true,
            len: stat.len,
            blocks: stat.allocated / 512,
        }
    }

    /// Takes over bytes written at `range`; false if only the file knows how much space they took.
    fn wrote(&mut self, range: &Range<u64>) -> bool {
        let whole = |len: u64| len.next_multiple_of(4096) / 512;
        let dense = self.blocks >= whole(self.len) && range.start <= self.len;
        self.len = self.len.max(range.end);
        if dense {
            self.blocks = self.blocks.max(whole(self.len));
        }
        dense
    }
}

impl State {
    pub fn exists(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Where the last byte ends.
    pub fn size(&self) -> u64 {
        let last = self.segments.last_key_value();
        last.map_or(0, |(number, segment)| {
            u64::from(*number) * SEGMENT + segment.len
        })
    }

    pub fn stat(&self) -> ObjectStat {
        ObjectStat {
            size: self.size(),
            blocks: self.segments.values().map(|segment| segment.blocks).sum(),
            mtime: self.mtime,
        }
    }

    /// Whether writing `range` takes no space: it lies within, and there are no holes.
    pub fn has_space_for(&self, range: &Range<u64>) -> bool {
        let size = self.size();
        range.end <= size && self.segments.len() == 1 && self.stat().blocks >= size / 512
    }

    /// The file of a segment, if it is open.
    pub fn file(&mut self, segment: u32) -> Option<DiskFile> {
        let segment = self.segments.get_mut(&segment)?;
        segment.used = true;
        segment.file.clone()
    }

    /// Takes over bytes written to a segment; false if its space is to be asked for.
    pub fn wrote(&mut self, segment: u32, range: &Range<u64>) -> bool {
        match self.segments.get_mut(&segment) {
            Some(segment) => segment.wrote(range),
            None => false,
        }
    }
}

impl Object {
    pub fn new(id: ObjectId, dirty: &Arc<AtomicUsize>) -> Object {
        let state = State {
            loaded: false,
            segments: BTreeMap::new(),
            mtime: Timestamp::default(),
            flight: Flight::default(),
            owner: Owner::default(),
            record: None,
            regions: BTreeMap::new(),
            forgotten: Seq(0),
            ahead: Ahead::default(),
            behind: Behind::default(),
            restaged: 0,
            queued: false,
            dirty: Arc::clone(dirty),
        };
        Object {
            id,
            state: Mutex::new(state),
            gate: tokio::sync::Mutex::new(()),
            ended: Notify::new(),
            data: SyncPoint::unknown(),
            used: AtomicBool::new(true),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Begins a change of these bytes when no overlapping one is under way.
    pub async fn change(&self, range: Range<u64>) -> Change<'_> {
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable(); // before looking, or an end in between would be missed
            if let Some(number) = self.state.lock().flight.begin(range.clone()) {
                return Change {
                    object: self,
                    number,
                    begun: false,
                    ended: false,
                };
            }
            ended.await;
        }
    }

    /// Nothing of it would be lost if it were forgotten.
    pub fn is_settled(&self) -> bool {
        let state = self.state.lock();
        state.flight.is_idle() && self.data.is_synced() && !state.queued
    }

    pub fn touch(&self) {
        self.used.store(true, Ordering::Relaxed);
    }
}

/// A change under way. Dropped before it was ended (it failed, or its caller gave up), it leaves the sums of what it
/// may have touched unknown, and the object is looked at again.
pub(super) struct Change<'a> {
    object: &'a Object,
    number: u64,
    /// Bytes may have changed. Before that a drop forgets nothing: an unknown sum is believed of whatever is there.
    begun: bool,
    ended: bool,
}

impl Change<'_> {
    /// As it stands now.
    pub fn span(&self) -> Span {
        self.object.state.lock().flight.span(self.number).clone()
    }

    /// The first byte is about to change.
    pub fn touch(&mut self) {
        self.begun = true;
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// It took effect; `then` says what is known of it, in the moment in which it ends.
    pub fn end<T>(mut self, then: impl FnOnce(&mut State, &Span) -> T) -> T {
        // Before it is over for anybody: who finds nothing under way and syncs covers it.
        self.object.data.change();
        let mut state = self.object.state.lock();
        self.ended = true;
        let span = state.flight.end(self.number);
        let said = then(&mut state, &span);
        drop(state);
        self.object.ended.notify_waiters();
        said
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // First, as in `end`: some part may have taken effect.
        self.object.data.change();
        let mut state = self.object.state.lock();
        let span = state.flight.end(self.number);
        if self.begun {
            state.set_sums(blocks_of(&span.range), |_| None);
            state.loaded = false;
        }
        drop(state);
        self.object.ended.notify_waiters();
    }
}
