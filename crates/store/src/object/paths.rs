//! Paths of an object's files: `objects/<inode number / 4096>/<object>[+<segment>]`.

use super::limits::{DIR_SHIFT, SEGMENT};
use gupfs_proto::{InodeId, ObjectId};
use std::ops::Range;

/// The directory of all objects.
pub const OBJECTS_DIR: &str = "objects";

/// The directory of an object. All names have equal length, so that their order as text is the order of inodes.
pub fn dir_path(id: ObjectId) -> String {
    format!("{OBJECTS_DIR}/{:013x}", id.ino.0 >> DIR_SHIFT)
}

/// The lowest inode whose objects are in the directory of this name; None if the name is no object directory.
pub fn first_inode_of_dir(name: &str) -> Option<InodeId> {
    let number = u64::from_str_radix(name, 16).ok()?;
    let is_canonical = name.len() == 13 && format!("{number:013x}") == name;
    is_canonical.then_some(InodeId(number << DIR_SHIFT))
}

pub fn file_path(id: ObjectId, segment: u32) -> String {
    let dir = dir_path(id);
    match segment {
        0 => format!("{dir}/{id}"),
        further => format!("{dir}/{id}+{further:x}"),
    }
}

/// Object and segment of a file name; None if the name is no object file.
pub fn parse_file_name(name: &str) -> Option<(ObjectId, u32)> {
    let (object, segment) = match name.split_once('+') {
        None => (name, 0),
        Some((object, further)) => {
            let segment = u32::from_str_radix(further, 16).ok()?;
            (object, (segment > 0).then_some(segment)?)
        }
    };
    let id: ObjectId = object.parse().ok()?;
    // Only the canonical spelling: a file "0a.1.0" was made by another program.
    let spelled = file_path(id, segment);
    (spelled.rsplit('/').next() == Some(name)).then_some((id, segment))
}

/// The part of a range that is in one segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentPart {
    pub segment: u32,
    /// Offset in the segment.
    pub at: u64,
    /// Its position in the whole range.
    pub range: Range<u64>,
}

/// Splits `at .. at + len` at segment boundaries; the parts are in order.
pub fn split_by_segment(at: u64, len: u64) -> impl Iterator<Item = SegmentPart> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let here = at + done;
        let within = here % SEGMENT;
        let step = (SEGMENT - within).min(len - done);
        let part = SegmentPart {
            segment: segment_of(here),
            at: within,
            range: done..done + step,
        };
        done += step;
        Some(part)
    })
}

/// The segment of a byte.
pub fn segment_of(at: u64) -> u32 {
    u32::try_from(at / SEGMENT).expect("2^64 bytes are 2^22 segments")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::{Generation, VirtualShard};

    fn object() -> ObjectId {
        ObjectId {
            ino: InodeId::new(VirtualShard(1), 0x2abc),
            generation: Generation(3),
            stripe: 2,
        }
    }

    #[test]
    fn an_objects_files_are_in_the_directory_of_its_inode() {
        assert_eq!(
            file_path(object(), 0),
            "objects/0001000000002/1000000002abc.3.2"
        );
        assert_eq!(
            file_path(object(), 17),
            "objects/0001000000002/1000000002abc.3.2+11"
        );
        assert_eq!(
            first_inode_of_dir("0001000000002"),
            Some(InodeId::new(VirtualShard(1), 0x2000))
        );
        assert_eq!(first_inode_of_dir("lost+found"), None);
        assert_eq!(first_inode_of_dir("00010000000002"), None);
    }

    #[test]
    fn a_file_name_parses_back_and_other_names_do_not() {
        assert_eq!(parse_file_name("1000000002abc.3.2"), Some((object(), 0)));
        assert_eq!(
            parse_file_name("1000000002abc.3.2+11"),
            Some((object(), 17))
        );
        for other in [
            "1000000002abc.3.2+0",
            "01.3.2",
            "1.3",
            "1.3.2~",
            "1.3.2+011",
            "core",
        ] {
            assert_eq!(parse_file_name(other), None, "{other}");
        }
    }

    #[test]
    fn a_range_across_a_segment_boundary_is_split() {
        let found: Vec<SegmentPart> = split_by_segment(SEGMENT - 10, 30).collect();
        let first = SegmentPart {
            segment: 0,
            at: SEGMENT - 10,
            range: 0..10,
        };
        let second = SegmentPart {
            segment: 1,
            at: 0,
            range: 10..30,
        };
        assert_eq!(found, [first, second]);
        assert_eq!(
            split_by_segment(i64::MAX as u64 - 5, 5)
                .last()
                .map(|part| part.segment),
            Some((1 << 21) - 1)
        );
    }
}
