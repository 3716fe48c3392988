//! The layout of a file, which of its objects exist, and their blocks.

use super::chunks::{self, ObjectSpan};
use super::member_object::MemberObject;
use super::object_state::{ObjectState, UnsyncedObject};
use gupfs_proto::data::ObjectStat;
use gupfs_proto::{
    ByteCount, Component, FileOffset, InodeId, Layout, ObjectId, Presence, StripeChunk,
    WriteVerifier,
};

/// The presence bits in the layout are this client's knowledge: after `BeginWrite` the server answers `Maybe` for every object,
/// while this client knows that the objects it has not written do not exist.
#[derive(Default)]
pub struct FileObjects {
    pub(super) layout: Layout,
    /// In the order of `layout.objects()`.
    pub(super) states: Vec<ObjectState>,
    /// Members may be stale that are not known as stale here.
    pub(super) may_have_unknown_stale: bool,
    /// Unsynced changes of objects without redundancy that have moved to another OST since: their former OST says whether it lost them before.
    pub(super) left_behind: LeftBehind,
    /// There may be unsynced objects that are not marked here, because they were written before the state was loaded.
    pub(super) may_have_unknown_unsynced: bool,
}

/// Objects on their former OSTs.
#[derive(Default)]
pub struct LeftBehind {
    pub(super) unsynced: Vec<UnsyncedObject>,
    /// A sync of these is in progress.
    pub(super) syncing: Vec<UnsyncedObject>,
}

/// Which objects an attribute report lists, as (component, stripe).
pub struct ReportedObjects {
    pub present: Vec<(u32, u32)>,
    pub unsynced: Vec<(u32, u32)>,
}

impl FileObjects {
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The server's state is loaded, of a file that this open has created or not.
    pub fn load(&mut self, created: bool) {
        self.may_have_unknown_unsynced = !created;
        // Objects that stay may have become smaller; those without blocks still have none.
        for object in &mut self.states {
            object.blocks = object.blocks.filter(|blocks| *blocks == 0);
        }
    }

    /// `fresh`: the server has just made the layout, so it has no objects. `knows_objects`: the presence known here is right.
    pub fn adopt_layout(
        &mut self,
        ino: InodeId,
        mut layout: Layout,
        fresh: bool,
        knows_objects: bool,
    ) {
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
                    // Only the server knows which members are stale.
                    _ if server_presence == Presence::Stale => ObjectState::default(),
                    Some((old, _)) if old.presence.get(stripe) == Presence::Stale => {
                        ObjectState::default()
                    }
                    // It was moved, or replaced: what is known is about the object on the former OST.
                    Some((old, first))
                        if old.targets.get(stripe) != component.targets.get(stripe) =>
                    {
                        let since = self.states[first + stripe].sync.since();
                        if let (Some(since), false) = (since, component.is_mirrored()) {
                            self.left_behind.unsynced.push(UnsyncedObject {
                                ost: old.targets[stripe],
                                object: old.object(ino, stripe),
                                since,
                            });
                        }
                        ObjectState::default()
                    }
                    Some((old, first)) if knows_objects => {
                        component.presence.set(stripe, old.presence.get(stripe));
                        self.states[first + stripe]
                    }
                    // Unsynced objects stay unsynced, also if other clients wrote meanwhile.
                    Some((_, first)) => ObjectState {
                        blocks: (server_presence == Presence::Never).then_some(0),
                        ..self.states[first + stripe]
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
        self.states = objects;
    }

    /// Whether an object of the file may exist, or a write that this client has sent may still make one.
    pub fn may_have_any(&self) -> bool {
        let components = self.layout.components.iter();
        let mut presences = components.flat_map(|component| {
            let stripes = 0..component.targets.len();
            stripes.map(|stripe| component.presence.get(stripe))
        });
        presences.any(|presence| presence != Presence::Never)
            || self.states.iter().any(|object| object.sync.may_be_lost())
    }

    /// If only one object's blocks are unknown, they are the file's.
    pub fn infer_only_unknown_blocks(&mut self, blocks: u64) {
        if self.layout.is_mirrored() {
            return;
        }
        let mut unknown = (self.states.iter_mut()).filter(|object| object.blocks.is_none());
        if let (Some(only), None) = (unknown.next(), unknown.next()) {
            only.blocks = Some(blocks);
        }
    }

    /// Other clients may create objects and write to them from now on.
    pub fn note_other_writers(&mut self) {
        for component in &mut self.layout.components {
            for stripe in 0..component.targets.len() {
                if component.presence.get(stripe) == Presence::Never {
                    component.presence.set(stripe, Presence::Maybe);
                }
            }
        }
        self.states
            .iter_mut()
            .for_each(|object| object.blocks = None);
        self.may_have_unknown_unsynced = true;
    }

    pub(super) fn index(&self, component: usize, stripe: usize) -> usize {
        let before = self.layout.components[..component].iter();
        before
            .map(|component| component.targets.len())
            .sum::<usize>()
            + stripe
    }

    pub fn component(&self, index: usize) -> &Component {
        &self.layout.components[index]
    }

    /// An object is about to be changed, and created if it does not exist.
    pub fn mark_dirty(&mut self, component: usize, stripe: usize) {
        let index = self.index(component, stripe);
        self.states[index].sync.mark(None);
        let presence = &mut self.layout.components[component].presence;
        if presence.get(stripe) == Presence::Never {
            presence.set(stripe, Presence::Maybe);
        }
    }

    /// An object was written; `stat` is its new state. Concurrent writes are answered in any order, so the highest block count is
    /// kept.
    pub fn written(
        &mut self,
        component: usize,
        stripe: usize,
        (stat, verifier): (ObjectStat, WriteVerifier),
    ) {
        if let Some(object) = self.changed(component, stripe, verifier) {
            object.blocks = Some(object.blocks.unwrap_or(0).max(stat.blocks));
            self.layout.components[component]
                .presence
                .set(stripe, Presence::Present);
        }
    }

    /// Bytes of an object were removed, if it exists; an absent object stays absent.
    pub fn cleared(
        &mut self,
        component: usize,
        stripe: usize,
        (stat, verifier): (ObjectStat, WriteVerifier),
    ) {
        if let Some(object) = self.changed(component, stripe, verifier) {
            object.blocks = Some(stat.blocks);
        }
    }

    /// None for a member that has become stale since the request was sent: what it has does not count.
    fn changed(
        &mut self,
        component: usize,
        stripe: usize,
        verifier: WriteVerifier,
    ) -> Option<&mut ObjectState> {
        if self.layout.components[component].presence.get(stripe) == Presence::Stale {
            return None;
        }
        let index = self.index(component, stripe);
        let object = &mut self.states[index];
        // Again, after the change: a sync that ran meanwhile may have cleared the mark.
        object.sync.mark(Some(verifier));
        Some(object)
    }

    /// The chunks of `offset .. offset + len`, none longer than `message_max`. An unsynced object is `Maybe`: its server may lose
    /// power while this client runs on.
    pub fn chunks(
        &self,
        ino: InodeId,
        offset: FileOffset,
        len: ByteCount,
        message_max: ByteCount,
    ) -> Vec<StripeChunk> {
        let mut chunks = chunks::chunks(&self.layout, ino, offset, len, message_max);
        for chunk in &mut chunks {
            let object = &self.states[self.index(chunk.component, chunk.index)];
            if chunk.presence == Presence::Present && object.sync.may_be_lost() {
                chunk.presence = Presence::Maybe;
            }
        }
        chunks
    }

    /// The same where another client may have created objects.
    pub fn hinted_chunks(
        &self,
        ino: InodeId,
        offset: FileOffset,
        len: ByteCount,
        message_max: ByteCount,
    ) -> Vec<StripeChunk> {
        let mut chunks = chunks::chunks(&self.layout, ino, offset, len, message_max);
        for chunk in &mut chunks {
            chunk.presence = Presence::Maybe;
        }
        chunks
    }

    pub fn spans(&self, ino: InodeId, from: FileOffset, to: FileOffset) -> Vec<ObjectSpan> {
        chunks::spans(&self.layout, ino, from, to)
    }

    /// Blocks of all objects, each byte counted once; None while those of one object are not known.
    pub fn blocks(&self) -> Option<u64> {
        self.counted_states().map(|object| object.blocks).sum()
    }

    /// Blocks of the objects whose blocks are known.
    pub fn known_blocks(&self) -> u64 {
        self.counted_states()
            .filter_map(|object| object.blocks)
            .sum()
    }

    /// Objects whose existence or blocks are not known.
    pub fn unknown(&self, ino: InodeId) -> Vec<MemberObject> {
        let all = self.layout.objects(ino).zip(&self.states);
        let is_unknown = |presence: Presence, known: &ObjectState| match presence {
            Presence::Maybe => true,
            Presence::Never | Presence::Present => known.blocks.is_none(),
            Presence::Stale => false,
        };
        all.filter(|((.., presence), known)| is_unknown(*presence, known))
            .map(
                |((component, index, ost, object, presence), _)| MemberObject {
                    component,
                    index,
                    ost,
                    object,
                    presence,
                },
            )
            .collect()
    }

    /// Takes a target's reply about an unknown object; ignored if the layout has changed meanwhile.
    pub fn learned(&mut self, object: ObjectId, stat: Option<ObjectStat>) {
        let Some((component, stripe)) = self.position_of(&object) else {
            return;
        };
        let index = self.index(component, stripe);
        self.states[index].blocks = Some(stat.map_or(0, |stat| stat.blocks));
        let presence = &mut self.layout.components[component].presence;
        match (presence.get(stripe), stat) {
            (Presence::Present, Some(_)) => {}
            (Presence::Never | Presence::Maybe, Some(_)) => {
                presence.set(stripe, Presence::Present);
                // The client that created it may not have synced it.
                self.states[index].sync.mark(None);
            }
            (Presence::Maybe, None) => presence.set(stripe, Presence::Never),
            // Known to have been created and now absent: lost. Reads must continue to return that error.
            (Presence::Never | Presence::Present, None) | (Presence::Stale, _) => {}
        }
    }

    /// What a report lists. Unsynced objects are not listed as present: the record would claim that they exist, and a power loss
    /// could make that wrong.
    pub fn reported(&self) -> ReportedObjects {
        let objects = (self.layout.components.iter().enumerate()).flat_map(|(index, component)| {
            let stripes = 0..component.targets.len();
            stripes.map(move |stripe| (index, stripe, component.presence.get(stripe)))
        });
        let there = objects
            .zip(&self.states)
            .filter(|((.., presence), _)| *presence == Presence::Present);
        let (unsynced, synced): (Vec<_>, Vec<_>) =
            there.partition(|(_, known)| known.sync.may_be_lost());
        let positions = |objects: Vec<((usize, usize, Presence), &ObjectState)>| {
            let position = |((index, stripe, _), _)| (index as u32, stripe as u32);
            objects.into_iter().map(position).collect::<Vec<_>>()
        };
        ReportedObjects {
            present: positions(synced),
            unsynced: positions(unsynced),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inodes::state::fixtures::layout;

    const INO: InodeId = InodeId(5);

    fn fresh() -> FileObjects {
        let mut objects = FileObjects::default();
        objects.adopt_layout(INO, layout(Presence::Maybe), true, true);
        objects
    }

    fn presence(objects: &FileObjects) -> Vec<Presence> {
        let all = objects.layout.objects(INO);
        all.map(|(.., presence)| presence).collect()
    }

    fn written(blocks: u64) -> (ObjectStat, WriteVerifier) {
        let stat = ObjectStat {
            blocks,
            ..ObjectStat::default()
        };
        (stat, WriteVerifier(1))
    }

    #[test]
    fn the_blocks_of_a_file_are_known_when_those_of_all_objects_are() {
        let mut objects = FileObjects::default();
        objects.adopt_layout(INO, layout(Presence::Maybe), false, true);
        assert_eq!(objects.blocks(), None);
        let first = objects.unknown(INO)[0].object;
        objects.learned(first, Some(written(8).0));
        objects.infer_only_unknown_blocks(3);
        assert_eq!(objects.blocks(), Some(11));
        assert_eq!(presence(&objects), [Presence::Present, Presence::Maybe]);
    }

    #[test]
    fn an_absent_object_that_was_created_stays_present_so_that_its_loss_is_an_error() {
        let mut objects = fresh();
        objects.written(0, 1, written(8));
        let object = objects
            .layout
            .objects(INO)
            .nth(1)
            .map(|(_, _, _, object, _)| object);
        objects.learned(object.unwrap(), None);
        assert_eq!(presence(&objects), [Presence::Never, Presence::Present]);
    }

    #[test]
    fn a_report_lists_unsynced_objects_apart() {
        let mut objects = fresh();
        objects.written(0, 0, written(8));
        objects.take_unsynced(INO);
        objects.sync_finished(true);
        objects.written(0, 1, written(8));
        let reported = objects.reported();
        assert_eq!(
            (reported.present, reported.unsynced),
            (vec![(0, 0)], vec![(0, 1)])
        );
    }
}
