//! Where an object's files lie: `objects/<inode number / 4096>/<object>[+<segment>]`.

use super::limits::{DIR_SHIFT, SEGMENT};
use gupfs_proto::{InodeId, ObjectId};
use std::ops::Range;

/// All objects lie below it.
pub const TOP: &str = "objects";

/// The directory of an object. Names of equal length, so that their order as text is the order of inodes.
pub fn dir_of(id: ObjectId) -> String {
    format!("{TOP}/{:013x}", id.ino.0 >> DIR_SHIFT)
}

/// The lowest inode whose objects lie in the directory of this name; None if it is none of ours.
pub fn first_of_dir(name: &str) -> Option<InodeId> {
    let number = u64::from_str_radix(name, 16).ok()?;
    let ours = name.len() == 13 && format!("{number:013x}") == name;
    ours.then_some(InodeId(number << DIR_SHIFT))
}

pub fn file_of(id: ObjectId, segment: u32) -> String {
    let dir = dir_of(id);
    match segment {
        0 => format!("{dir}/{id}"),
        further => format!("{dir}/{id}+{further:x}"),
    }
}

/// Object and segment that a file of this name holds; None if it is none of ours.
pub fn parse(name: &str) -> Option<(ObjectId, u32)> {
    let (object, segment) = match name.split_once('+') {
        None => (name, 0),
        Some((object, further)) => {
            let segment = u32::from_str_radix(further, 16).ok()?;
            (object, (segment > 0).then_some(segment)?)
        }
    };
    let id: ObjectId = object.parse().ok()?;
    // Spelled as we spell it: "0a.1.0" is somebody else's file.
    let spelled = file_of(id, segment);
    (spelled.rsplit('/').next() == Some(name)).then_some((id, segment))
}

/// Part of a range that lies in one segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    pub segment: u32,
    /// From the start of the segment.
    pub at: u64,
    /// Which bytes of the whole range.
    pub of: Range<u64>,
}

/// The parts of `at .. at + len`, in order.
pub fn parts(at: u64, len: u64) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let here = at + done;
        let within = here % SEGMENT;
        let step = (SEGMENT - within).min(len - done);
        let part = Part {
            segment: segment_of(here),
            at: within,
            of: done..done + step,
        };
        done += step;
        Some(part)
    })
}

/// The segment a byte lies in.
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
    fn an_objects_files_lie_in_the_directory_of_its_inodes() {
        assert_eq!(
            file_of(object(), 0),
            "objects/0001000000002/1000000002abc.3.2"
        );
        assert_eq!(
            file_of(object(), 17),
            "objects/0001000000002/1000000002abc.3.2+11"
        );
        assert_eq!(
            first_of_dir("0001000000002"),
            Some(InodeId::new(VirtualShard(1), 0x2000))
        );
        assert_eq!(first_of_dir("lost+found"), None);
        assert_eq!(first_of_dir("00010000000002"), None);
    }

    #[test]
    fn a_files_name_reads_back_and_a_strangers_does_not() {
        assert_eq!(parse("1000000002abc.3.2"), Some((object(), 0)));
        assert_eq!(parse("1000000002abc.3.2+11"), Some((object(), 17)));
        for stranger in [
            "1000000002abc.3.2+0",
            "01.3.2",
            "1.3",
            "1.3.2~",
            "1.3.2+011",
            "core",
        ] {
            assert_eq!(parse(stranger), None, "{stranger}");
        }
    }

    #[test]
    fn a_range_over_a_border_has_a_part_in_each_segment() {
        let found: Vec<Part> = parts(SEGMENT - 10, 30).collect();
        let first = Part {
            segment: 0,
            at: SEGMENT - 10,
            of: 0..10,
        };
        let second = Part {
            segment: 1,
            at: 0,
            of: 10..30,
        };
        assert_eq!(found, [first, second]);
        assert_eq!(
            parts(i64::MAX as u64 - 5, 5)
                .last()
                .map(|part| part.segment),
            Some((1 << 21) - 1)
        );
    }
}
