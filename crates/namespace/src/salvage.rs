//! # salvage: inodes whose records are lost, made again from what else is known of them
//!
//! Owns   which layout a file's objects can have had, and what a directory is made of when only its entries are left; what counts
//!        as present in records that may be older than the objects.
//! Never  reads a store or an object.
//! Enter  at `file` and `directory`; at `count_in_doubt_as_present`.
//!
//! An object names its inode, its generation and its stripe; it does not say its component's range and unit. Where the objects' lengths fit the
//! default layout they are laid out by it. Otherwise each object's bytes follow those of the one before: then no byte stands where a
//! guess has put it inside of another object's bytes.

use crate::hash::spread;
use crate::newborn;
use crate::record::{Body, Directory, File, Inode};
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::data::{ObjectStat, Owner};
use gupfs_proto::layout::{Component, ComponentKind, ComponentState, PresenceMap};
use gupfs_proto::limits::{
    COMPONENTS_MAX, FIRST_COMPONENT, STRIPE_COUNT_MAX, STRIPE_UNIT_DEFAULT, STRIPE_UNIT_MAX,
    STRIPE_UNIT_MIN,
};
use gupfs_proto::{
    ByteCount, FileKind, FileOffset, Generation, InodeId, Layout, Mode, OstId, Presence, ProjectId,
    Timestamp, VolumeId,
};

/// One object of a file, as its target has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundObject {
    pub ost: OstId,
    pub generation: Generation,
    pub stripe: u32,
    pub stat: ObjectStat,
    /// As its record says; None if it has none.
    pub owner: Option<Owner>,
}

/// A file with these objects, for its owner alone. It counts as named, so that a check finds whether it is.
///
/// `objects` are ordered by generation and stripe. None if no layout can hold them.
pub fn file(ino: InodeId, objects: &[FoundObject]) -> Option<Inode> {
    let layout = layout(objects)?;
    let mtime = objects.iter().map(|object| object.stat.mtime).max()?;
    let owner = objects.iter().find_map(|object| object.owner);
    let next_generation = objects.iter().map(|object| object.generation.0).max()? + 1;
    Some(Inode {
        uid: owner.map_or(0, |owner| owner.uid),
        gid: owner.map_or(0, |owner| owner.gid),
        project: ProjectId(owner.map_or(0, |owner| owner.project)),
        volume: VolumeId(owner.map_or(0, |owner| owner.volume)),
        size: size(&layout, objects),
        blocks: objects.iter().map(|object| object.stat.blocks).sum(),
        body: Body::File(File {
            layout,
            next_generation,
            ..File::default()
        }),
        ..bare(ino, FileKind::Regular, Mode(0o600), mtime)
    })
}

/// A directory whose inode is lost: root's alone. Its entries are found again when they were given the hashes of its new salt.
pub fn directory(ino: InodeId, now: Timestamp, entropy: u64) -> Inode {
    if ino == InodeId::ROOT {
        return newborn::root(now, entropy);
    }
    Inode {
        body: Body::Directory(Directory {
            salt: spread(entropy, newborn::FOR_SALT),
            ..Directory::default()
        }),
        ..bare(ino, FileKind::Directory, Mode(0o700), now)
    }
}

/// The record may be older than the objects: one in doubt that is missing was removed since, or was never made, and nobody can tell
/// which. If it can hold bytes of the file it counts as present from now on, so that a read of it is an error where it is missing, and
/// never zeros. Behind the file's end the objects have the last word, as ever. Returns whether the inode was changed.
pub fn count_in_doubt_as_present(inode: &mut Inode) -> bool {
    let size = inode.size;
    let Body::File(file) = &mut inode.body else {
        return false;
    };
    if !file.inline.is_empty() {
        // The inline bytes are the file.
        return false;
    }
    let end = file.cutting.map_or(size, |cutting| size.min(cutting.to));
    let mut changed = false;
    for component in &mut file.layout.components {
        for stripe in 0..component.targets.len() {
            let in_doubt = component.presence.get(stripe) == Presence::Maybe;
            if in_doubt && component.object_size(stripe, end) > 0 {
                component.presence.set(stripe, Presence::Present);
                changed = true;
            }
        }
    }
    changed
}

/// Where the file ends, as its objects tell it.
pub fn size(layout: &Layout, objects: &[FoundObject]) -> u64 {
    let ends = objects.iter().filter_map(|object| {
        let of = |component: &&Component| component.generation == object.generation;
        let component = layout.components.iter().find(of)?;
        Some(component.file_size(object.stripe as usize, object.stat.size))
    });
    ends.max().unwrap_or(0)
}

fn bare(ino: InodeId, kind: FileKind, mode: Mode, time: Timestamp) -> Inode {
    Inode {
        ino,
        kind,
        mode,
        uid: 0,
        gid: 0,
        project: ProjectId(0),
        volume: VolumeId(0),
        names: 1,
        rdev: 0,
        size: 0,
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
        flags: InodeFlags::empty(),
        parent: None,
        born: 0,
        change: 1,
        data_version: 0,
        holders: 0,
        xattrs: 0,
        xattr_names: 0,
        acl: None,
        security: Vec::new(),
        body: Body::Special,
    }
}

fn layout(objects: &[FoundObject]) -> Option<Layout> {
    let generations: Vec<&[FoundObject]> = objects
        .chunk_by(|one, other| one.generation == other.generation)
        .collect();
    let layout = match generations[..] {
        [only @ [_]] if only[0].stripe == 0 => Layout {
            components: vec![component(0, u64::MAX, STRIPE_UNIT_DEFAULT, only)],
        },
        [first @ [_], rest] => by_default(first, rest).or_else(|| in_a_row(&generations))?,
        _ => in_a_row(&generations)?,
    };
    layout.check().is_ok().then_some(layout)
}

/// The default layout, if the objects are as long as a file without holes makes them.
fn by_default(first: &[FoundObject], rest: &[FoundObject]) -> Option<Layout> {
    let begin = FIRST_COMPONENT.0;
    let follows = rest[0].generation.0 == first[0].generation.0 + 1;
    if first[0].stripe != 0 || first[0].stat.size > begin || !follows {
        return None;
    }
    let striped = component(begin, u64::MAX, STRIPE_UNIT_DEFAULT, rest);
    let layout = Layout {
        components: vec![
            component(0, begin, STRIPE_UNIT_DEFAULT, first),
            striped.clone(),
        ],
    };
    let end = size(&layout, rest);
    let fits = (0..striped.targets.len()).all(|stripe| {
        let found = rest.iter().find(|object| object.stripe as usize == stripe);
        found.map_or(0, |object| object.stat.size) == striped.object_size(stripe, end)
    });
    fits.then_some(layout)
}

/// Each object's bytes behind those of the one before, at a multiple of the longest one's length.
fn in_a_row(generations: &[&[FoundObject]]) -> Option<Layout> {
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
        components.push(component(from, to, ByteCount(unit), objects));
        from = to;
    }
    Some(Layout { components })
}

/// Objects that were found are *maybe* there: whoever confirms them finds out whether they survive a power cut.
fn component(from: u64, to: u64, unit: ByteCount, objects: &[FoundObject]) -> Component {
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
    use crate::placement::lay_out;
    use crate::record::Cutting;
    use gupfs_proto::layout::LayoutRule;
    use gupfs_proto::meta::TargetState;

    const INO: InodeId = InodeId(0x123);
    const MIB: u64 = 1 << 20;

    fn found(ost: u16, generation: u32, stripe: u32, size: u64) -> FoundObject {
        FoundObject {
            ost: OstId(ost),
            generation: Generation(generation),
            stripe,
            stat: ObjectStat {
                size,
                blocks: size / 512,
                mtime: Timestamp::new(7, 0),
            },
            owner: Some(Owner {
                uid: 5,
                gid: 6,
                ..Owner::default()
            }),
        }
    }

    /// The objects of a file without holes.
    fn objects_of(layout: &Layout, size: u64) -> Vec<FoundObject> {
        let each = layout
            .objects(INO)
            .map(|(component, stripe, ost, object, _)| {
                let len = layout.components[component].object_size(stripe, size);
                found(ost.0, object.generation.0, stripe as u32, len)
            });
        each.filter(|object| object.stat.size > 0).collect()
    }

    #[test]
    fn a_file_of_the_default_layout_reads_as_before() {
        let targets: Vec<TargetState> = (0..6)
            .map(|ost| TargetState {
                ost: OstId(ost),
                usable: true,
                why_not: None,
                total: 1 << 40,
                free: 1 << 40,
            })
            .collect();
        let before = lay_out(&LayoutRule::default(), &targets, INO, 0).unwrap();
        for size in [1, 4 * MIB, 4 * MIB + 1, 6 * MIB, 11 * MIB + 77, 100 * MIB] {
            let objects = objects_of(&before, size);
            let inode = file(INO, &objects).unwrap();
            let after = &inode.file().unwrap().layout;
            assert_eq!((inode.size, inode.uid, inode.gid), (size, 5, 6), "{size}");
            let places = |layout: &Layout| -> Vec<_> {
                (layout.pieces(INO, FileOffset(0), size).into_iter())
                    .map(|piece| (piece.ost, piece.object, piece.at.0, piece.skip))
                    .collect()
            };
            for (at, (place, expected)) in places(after).iter().zip(places(&before)).enumerate() {
                assert_eq!(*place, expected, "{size}: at {at}");
            }
        }
    }

    #[test]
    fn objects_that_fit_no_known_layout_lie_one_behind_the_other() {
        let objects = [
            found(0, 4, 0, 100),
            found(1, 4, 2, 70_000),
            found(2, 9, 1, 5),
        ];
        let inode = file(INO, &objects).unwrap();
        let layout = &inode.file().unwrap().layout;
        let kib = 128 << 10;
        let pieces = layout.pieces(INO, FileOffset(0), inode.size);
        let made: Vec<_> = pieces
            .iter()
            .filter(|piece| piece.presence != Presence::Never)
            .map(|piece| {
                (
                    piece.ost.0,
                    piece.object.generation.0,
                    piece.object.stripe,
                    piece.skip,
                )
            })
            .collect();
        let second = 3 * kib + (64 << 10);
        assert_eq!(made, [(0, 4, 0, 0), (1, 4, 2, 2 * kib), (2, 9, 1, second)]);
        assert_eq!(inode.size, second + 5);
        assert_eq!(inode.file().unwrap().next_generation, 10);
    }

    #[test]
    fn what_is_in_doubt_below_the_files_end_counts_as_present() {
        use Presence::{Maybe, Never, Present};
        let presence = |inode: &Inode| -> Vec<Presence> {
            let layout = &inode.file().unwrap().layout;
            layout.objects(INO).map(|(.., presence)| presence).collect()
        };
        let objects = [
            found(0, 1, 0, 4 * MIB),
            found(1, 2, 0, MIB),
            found(2, 2, 1, MIB),
            found(3, 2, 2, MIB),
        ];
        let mut whole = file(INO, &objects).unwrap();
        whole.size = 5 * MIB + 1;
        whole.file_mut().unwrap().layout.components[1]
            .presence
            .set(1, Never);
        let mut inode = whole.clone();
        assert!(count_in_doubt_as_present(&mut inode));
        assert_eq!(presence(&inode), [Present, Present, Never, Maybe]);
        assert!(!count_in_doubt_as_present(&mut inode));
        // What is going to be cut off counts as cut off.
        let mut cutting = whole.clone();
        cutting.file_mut().unwrap().cutting = Some(Cutting { to: 7, number: 3 });
        assert!(count_in_doubt_as_present(&mut cutting));
        assert_eq!(presence(&cutting), [Present, Maybe, Never, Maybe]);
        let mut inline = whole;
        inline.file_mut().unwrap().inline = "bytes".into();
        assert!(!count_in_doubt_as_present(&mut inline));
    }

    #[test]
    fn a_directory_is_roots_alone_and_the_root_is_the_root() {
        let made = directory(InodeId(0x9_0000), Timestamp::new(1, 0), 3);
        assert_eq!((made.mode, made.uid), (Mode(0o700), 0));
        let root = directory(InodeId::ROOT, Timestamp::new(1, 0), 3);
        assert_eq!(root.mode, Mode(0o755));
    }
}
