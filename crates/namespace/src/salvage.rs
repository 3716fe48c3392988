//! # salvage: rebuilds inodes whose records are lost from their objects or entries
//!
//! Owns   the layout that a file's objects may have had, the inode of a directory of which only entries remain, and which objects
//!        count as present in records that may be older than the objects.
//! Never  reads a store or an object.
//! Enter  at `rebuild_file` and `rebuild_directory`; at `mark_maybe_as_present`.
//!
//! An object contains its inode number, generation and stripe, but not its component's range and stripe unit. If the objects'
//! lengths fit the default layout, the file gets the default layout. Otherwise the bytes of each object follow those of the
//! previous one, so that a wrong guess never interleaves the bytes of two objects.

use crate::hash;
use crate::initial_batch;
use crate::record::{DirectoryBody, FileBody, Inode, InodeBody};
use gupfs_proto::data::{ObjectOwner, ObjectStat};
use gupfs_proto::layout::{Component, ComponentKind, ComponentState, PresenceMap};
use gupfs_proto::limits::{
    COMPONENTS_MAX, FIRST_COMPONENT_SIZE, STRIPE_COUNT_MAX, STRIPE_UNIT_DEFAULT, STRIPE_UNIT_MAX,
    STRIPE_UNIT_MIN,
};
use gupfs_proto::{
    ByteCount, FileKind, FileMode, FileOffset, Generation, InodeId, Layout, OstId, Presence,
    ProjectId, Timestamp, VolumeId,
};

/// One object of a file, as found on its OST.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundObject {
    pub ost: OstId,
    pub generation: Generation,
    pub stripe: u32,
    pub stat: ObjectStat,
    /// From the object's record; None if it has none.
    pub owner: Option<ObjectOwner>,
}

/// A file with these objects, with mode 0600. Its record says that it has a name, so that a check reports it if it has none.
///
/// `objects` are ordered by generation and stripe. None if no layout can contain them.
pub fn rebuild_file(ino: InodeId, objects: &[FoundObject]) -> Option<Inode> {
    let layout = possible_layout(objects)?;
    let mtime = objects.iter().map(|object| object.stat.mtime).max()?;
    let owner = objects.iter().find_map(|object| object.owner);
    let next_generation = objects.iter().map(|object| object.generation.0).max()? + 1;
    let size = file_size(&layout, objects);
    let body = InodeBody::File(FileBody {
        layout,
        next_generation,
        ..FileBody::default()
    });
    Some(Inode {
        names: 1,
        uid: owner.map_or(0, |owner| owner.uid),
        gid: owner.map_or(0, |owner| owner.gid),
        project: ProjectId(owner.map_or(0, |owner| owner.project)),
        volume: VolumeId(owner.map_or(0, |owner| owner.volume)),
        size,
        blocks: objects.iter().map(|object| object.stat.blocks).sum(),
        ..Inode::new(ino, FileKind::Regular, FileMode(0o600), body, mtime)
    })
}

/// A directory whose inode is lost, accessible only to root. Lookups find its entries after they have been moved to the hashes of
/// the new salt.
pub fn rebuild_directory(ino: InodeId, now: Timestamp, entropy: u64) -> Inode {
    if ino == InodeId::ROOT {
        return initial_batch::root_directory(now, entropy);
    }
    let body = InodeBody::Directory(DirectoryBody {
        salt: hash::random_salt(entropy),
        ..DirectoryBody::default()
    });
    Inode {
        names: 1,
        ..Inode::new(ino, FileKind::Directory, FileMode(0o700), body, now)
    }
}

/// The record may be older than the objects: a `Maybe` object that is missing was removed since, or was never created, and it is
/// not known which. If the object may hold bytes of the file, it is marked present, so that a read of a missing object is an
/// error and never returns zeros. Beyond the end of file the objects remain `Maybe`, as usual. Returns whether the inode was
/// changed.
pub fn mark_maybe_as_present(inode: &mut Inode) -> bool {
    mark_maybe_as_present_on(inode, |_| true)
}

/// `mark_maybe_as_present` of the objects on these OSTs.
pub(crate) fn mark_maybe_as_present_on(
    inode: &mut Inode,
    is_there: impl Fn(OstId) -> bool,
) -> bool {
    let size = inode.size;
    let InodeBody::File(file) = &mut inode.body else {
        return false;
    };
    if !file.inline.is_empty() {
        // The inline bytes are the file.
        return false;
    }
    let end = file
        .truncating
        .map_or(size, |truncate| size.min(truncate.to));
    let mut changed = false;
    for component in &mut file.layout.components {
        for stripe in 0..component.targets.len() {
            let in_doubt = component.presence.get(stripe) == Presence::Maybe
                && is_there(component.targets[stripe]);
            if in_doubt && component.object_size(stripe, end) > 0 {
                component.presence.set(stripe, Presence::Present);
                changed = true;
            }
        }
    }
    changed
}

/// The size of the file according to its objects.
pub fn file_size(layout: &Layout, objects: &[FoundObject]) -> u64 {
    let ends = objects.iter().filter_map(|object| {
        let of = |component: &&Component| component.generation == object.generation;
        let component = layout.components.iter().find(of)?;
        Some(component.file_size(object.stripe as usize, object.stat.size))
    });
    ends.max().unwrap_or(0)
}

/// A layout that may have these objects; None if no layout can.
fn possible_layout(objects: &[FoundObject]) -> Option<Layout> {
    let generations: Vec<&[FoundObject]> = objects
        .chunk_by(|one, other| one.generation == other.generation)
        .collect();
    let layout = match generations[..] {
        [only @ [_]] if only[0].stripe == 0 => Layout {
            components: vec![found_component(0, u64::MAX, STRIPE_UNIT_DEFAULT, only)],
        },
        [first @ [_], rest] => {
            fitting_default_layout(first, rest).or_else(|| concatenated_layout(&generations))?
        }
        _ => concatenated_layout(&generations)?,
    };
    layout.check().is_ok().then_some(layout)
}

/// The default layout, if the objects' lengths are those of a file without holes.
fn fitting_default_layout(first: &[FoundObject], rest: &[FoundObject]) -> Option<Layout> {
    let begin = FIRST_COMPONENT_SIZE.0;
    let follows = rest[0].generation.0 == first[0].generation.0 + 1;
    if first[0].stripe != 0 || first[0].stat.size > begin || !follows {
        return None;
    }
    let striped = found_component(begin, u64::MAX, STRIPE_UNIT_DEFAULT, rest);
    let layout = Layout {
        components: vec![
            found_component(0, begin, STRIPE_UNIT_DEFAULT, first),
            striped.clone(),
        ],
    };
    let end = file_size(&layout, rest);
    let fits = (0..striped.targets.len()).all(|stripe| {
        let found = rest.iter().find(|object| object.stripe as usize == stripe);
        found.map_or(0, |object| object.stat.size) == striped.object_size(stripe, end)
    });
    fits.then_some(layout)
}

/// A layout in which each object's bytes follow those of the previous one, at a multiple of the longest object's length.
fn concatenated_layout(generations: &[&[FoundObject]]) -> Option<Layout> {
    if generations.len() > COMPONENTS_MAX {
        return None;
    }
    let mut components = Vec::new();
    let mut from = 0u64;
    for (index, objects) in generations.iter().enumerate() {
        let longest = objects.iter().map(|object| object.stat.size).max()?;
        let unit = longest.max(1).next_multiple_of(STRIPE_UNIT_MIN.0);
        let stripes = u64::from(objects.last()?.stripe) + 1;
        if unit > STRIPE_UNIT_MAX.0 || stripes > u64::from(STRIPE_COUNT_MAX) {
            return None;
        }
        let to = match index + 1 == generations.len() {
            true => u64::MAX,
            false => from + unit * stripes,
        };
        components.push(found_component(from, to, ByteCount(unit), objects));
        from = to;
    }
    Some(Layout { components })
}

/// A component of found objects. They are `Maybe` present: their confirmation finds out whether they survive a power loss.
fn found_component(from: u64, to: u64, unit: ByteCount, objects: &[FoundObject]) -> Component {
    let last = objects.last().expect("a generation has an object");
    let mut targets = vec![last.ost; last.stripe as usize + 1];
    let mut presence = PresenceMap::new(targets.len());
    for object in objects {
        targets[object.stripe as usize] = object.ost;
        presence.set(object.stripe as usize, Presence::Maybe);
    }
    Component {
        from: FileOffset(from),
        to: FileOffset(to),
        kind: ComponentKind::Plain,
        unit,
        targets,
        generation: last.generation,
        state: ComponentState::Live,
        presence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::choose_layout;
    use crate::record::UnfinishedTruncate;
    use gupfs_proto::layout::DefaultLayout;
    use gupfs_proto::meta::PlacementTarget;

    const INO: InodeId = InodeId(0x123);
    const MIB: u64 = 1 << 20;

    fn found_object(ost: u16, generation: u32, stripe: u32, size: u64) -> FoundObject {
        FoundObject {
            ost: OstId(ost),
            generation: Generation(generation),
            stripe,
            stat: ObjectStat {
                size,
                blocks: size / 512,
                mtime: Timestamp::new(7, 0),
            },
            owner: Some(ObjectOwner {
                uid: 5,
                gid: 6,
                ..ObjectOwner::default()
            }),
        }
    }

    /// The objects of a file without holes.
    fn objects_of(layout: &Layout, size: u64) -> Vec<FoundObject> {
        let each = layout
            .objects(INO)
            .map(|(component, stripe, ost, object, _)| {
                let len = layout.components[component].object_size(stripe, size);
                found_object(ost.0, object.generation.0, stripe as u32, len)
            });
        each.filter(|object| object.stat.size > 0).collect()
    }

    #[test]
    fn a_file_of_the_default_layout_reads_as_before() {
        let targets: Vec<PlacementTarget> = (0..6)
            .map(|ost| PlacementTarget {
                ost: OstId(ost),
                domain: u32::from(ost),
                is_up: true,
                usable: true,
                is_draining: false,
                why_not: None,
                total: 1 << 40,
                free: 1 << 40,
            })
            .collect();
        let before = choose_layout(&DefaultLayout::default(), &targets, INO, 0).unwrap();
        for size in [1, 4 * MIB, 4 * MIB + 1, 6 * MIB, 11 * MIB + 77, 100 * MIB] {
            let objects = objects_of(&before, size);
            let inode = rebuild_file(INO, &objects).unwrap();
            let after = &inode.file().unwrap().layout;
            assert_eq!((inode.size, inode.uid, inode.gid), (size, 5, 6), "{size}");
            let chunks = |layout: &Layout| -> Vec<_> {
                (layout.stripe_chunks(INO, FileOffset(0), size).into_iter())
                    .map(|piece| (piece.ost, piece.object, piece.at.0, piece.buffer_offset))
                    .collect()
            };
            for (at, (chunk, expected)) in chunks(after).iter().zip(chunks(&before)).enumerate() {
                assert_eq!(*chunk, expected, "{size}: at {at}");
            }
        }
    }

    #[test]
    fn objects_that_do_not_fit_the_default_layout_are_concatenated() {
        let objects = [
            found_object(0, 4, 0, 100),
            found_object(1, 4, 2, 70_000),
            found_object(2, 9, 1, 5),
        ];
        let inode = rebuild_file(INO, &objects).unwrap();
        let layout = &inode.file().unwrap().layout;
        let kib = 128 << 10;
        let pieces = layout.stripe_chunks(INO, FileOffset(0), inode.size);
        let made: Vec<_> = pieces
            .iter()
            .filter(|piece| piece.presence != Presence::Never)
            .map(|piece| {
                (
                    piece.ost.0,
                    piece.object.generation.0,
                    piece.object.stripe,
                    piece.buffer_offset,
                )
            })
            .collect();
        let second = 3 * kib + (64 << 10);
        assert_eq!(made, [(0, 4, 0, 0), (1, 4, 2, 2 * kib), (2, 9, 1, second)]);
        assert_eq!(inode.size, second + 5);
        assert_eq!(inode.file().unwrap().next_generation, 10);
    }

    #[test]
    fn maybe_objects_below_the_end_of_file_are_marked_present() {
        use Presence::{Maybe, Never, Present};
        let presence = |inode: &Inode| -> Vec<Presence> {
            let layout = &inode.file().unwrap().layout;
            layout.objects(INO).map(|(.., presence)| presence).collect()
        };
        let objects = [
            found_object(0, 1, 0, 4 * MIB),
            found_object(1, 2, 0, MIB),
            found_object(2, 2, 1, MIB),
            found_object(3, 2, 2, MIB),
        ];
        let mut whole = rebuild_file(INO, &objects).unwrap();
        whole.size = 5 * MIB + 1;
        whole.file_mut().unwrap().layout.components[1]
            .presence
            .set(1, Never);
        let mut inode = whole.clone();
        assert!(mark_maybe_as_present(&mut inode));
        assert_eq!(presence(&inode), [Present, Present, Never, Maybe]);
        assert!(!mark_maybe_as_present(&mut inode));
        // With an unfinished truncate, the new end counts.
        let mut truncating = whole.clone();
        truncating.file_mut().unwrap().truncating = Some(UnfinishedTruncate { to: 7, number: 3 });
        assert!(mark_maybe_as_present(&mut truncating));
        assert_eq!(presence(&truncating), [Present, Maybe, Never, Maybe]);
        let mut inline = whole;
        inline.file_mut().unwrap().inline = "bytes".into();
        assert!(!mark_maybe_as_present(&mut inline));
    }

    #[test]
    fn a_rebuilt_directory_is_accessible_to_root_only_except_the_root_directory() {
        let made = rebuild_directory(InodeId(0x9_0000), Timestamp::new(1, 0), 3);
        assert_eq!((made.mode, made.uid), (FileMode(0o700), 0));
        let root = rebuild_directory(InodeId::ROOT, Timestamp::new(1, 0), 3);
        assert_eq!(root.mode, FileMode(0o755));
    }
}
