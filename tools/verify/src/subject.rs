//! The subjects of operations, and their paths below the directory of a round; of held ones, below that of the run.
//!
//! A subject of names has two directories, `x` and `y`. Each has three *plain* slots, whose names come, go and move, and one
//! *folder*: a directory that is made and removed, never moved, with two slots in it. (A path through a directory that moves is
//! resolved by Linux in steps, between which it may move: no local file system is linearizable there.)

use serde::{Deserialize, Serialize};

/// The subject of an operation. Operations on different subjects never conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Subject {
    /// Two directories with a dozen names (slots, see above).
    Names(u8),
    /// A file that is written, cut and read at offsets. Its name is never touched.
    Data(u8),
    /// A file of constant size, also read and written through mappings.
    Mapped(u8),
    /// A file that is appended to, and emptied now and then.
    Log(u8),
    /// A file whose mode, time and extended attribute are set.
    Attr(u8),
    /// A file that is locked: even numbers by flock, odd ones by fcntl.
    Lock(u8),
    /// A file of constant size that is also read through calls which pass its pages on, and changed by writes alone. (Linux takes the size
    /// for these calls from its own copy, and fills punched ranges of its own pages with zeros: both when a reply to another call of
    /// the same mount arrives, which may be late.)
    Spliced(u8),
    /// A file of the whole run, which each worker opened once; written, cut and read through that descriptor.
    HeldData(u8),
    /// The same, of constant size and mapped once.
    HeldMapped(u8),
    /// The same, for its mode, time and extended attribute.
    HeldAttr(u8),
    /// A directory of the whole run, which each worker opened once. Even numbers: names are relative to the descriptor; odd ones: to the
    /// working directory.
    HeldDir(u8),
}

/// Bytes `from..to` of a file, multiples of a word of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Range {
    pub from: u64,
    pub to: u64,
}

/// Plain slots: 0..3 in x, 3..6 in y. Folders: 6 in x, 7 in y. Inside them: 8, 9 and 10, 11.
pub const SLOTS: u8 = 12;
pub const PLAIN: u8 = 6;
pub const FOLDERS: u8 = 8;

/// Which directory of the subject a slot is in, itself or through a folder.
pub fn directory(slot: u8) -> u8 {
    match slot {
        0..3 | 6 | 8 | 9 => 0,
        _ => 1,
    }
}

/// The folder that a slot lies in.
pub fn folder(slot: u8) -> Option<u8> {
    (slot >= FOLDERS).then(|| PLAIN + (slot - FOLDERS) / 2)
}

/// The slots inside a folder.
pub fn inside(folder: u8) -> std::ops::Range<u8> {
    let first = FOLDERS + (folder - PLAIN) * 2;
    first..first + 2
}

/// A slot's path below the subject's directory.
pub fn slot_path(slot: u8) -> String {
    let directory = ["x", "y"][usize::from(directory(slot))];
    match slot {
        0..3 => format!("{directory}/n{slot}"),
        3..6 => format!("{directory}/n{}", slot - 3),
        6 | 7 => format!("{directory}/f"),
        _ => format!("{directory}/f/m{}", (slot - FOLDERS) % 2),
    }
}

/// The slots that a listing of a directory may show, with their names there.
pub fn listed(directory: u8) -> impl Iterator<Item = (u8, String)> {
    (0..FOLDERS)
        .filter(move |slot| self::directory(*slot) == directory)
        .map(|slot| (slot, slot_path(slot)[2..].to_string()))
}

/// A subject's path below the round's directory.
pub fn subject_path(subject: Subject) -> String {
    match subject {
        Subject::Names(n) => format!("names{n}"),
        Subject::Data(n) => format!("data{n}"),
        Subject::Mapped(n) => format!("mapped{n}"),
        Subject::Log(n) => format!("log{n}"),
        Subject::Attr(n) => format!("attr{n}"),
        Subject::Lock(n) => format!("lock{n}"),
        Subject::Spliced(n) => format!("spliced{n}"),
        Subject::HeldData(n) => format!("held/data{n}"),
        Subject::HeldMapped(n) => format!("held/mapped{n}"),
        Subject::HeldAttr(n) => format!("held/attr{n}"),
        Subject::HeldDir(n) => format!("held/parent{n}"),
    }
}

/// Where files lie before they are published.
pub const UNPUBLISHED: &str = "unpublished";

/// The size of a file that is mapped or spliced: a few pages.
pub const CONSTANT_SIZE: u64 = 64 << 10;

/// A record of a log.
pub const LOG_RECORD: u64 = 64;

/// Held directories: one by descriptor, one as working directory.
pub const HELD_DIRS: u8 = 2;

/// The names in a held directory that come and go.
pub const HELD_NAMES: u8 = 3;

/// A name in a held directory.
pub fn held_name(slot: u8) -> String {
    format!("n{slot}")
}

/// The names between which a held directory moves in its parent.
pub const HELD_CALLED: [&str; 2] = ["d0", "d1"];

impl Subject {
    /// Whether it lasts for the whole run, and each worker keeps it open.
    pub fn is_held(self) -> bool {
        match self {
            Subject::HeldData(_)
            | Subject::HeldMapped(_)
            | Subject::HeldAttr(_)
            | Subject::HeldDir(_) => true,
            Subject::Names(_)
            | Subject::Data(_)
            | Subject::Mapped(_)
            | Subject::Log(_)
            | Subject::Attr(_)
            | Subject::Lock(_)
            | Subject::Spliced(_) => false,
        }
    }
}

/// The subjects of every round, and of the run. Few of each: contention is the point.
pub fn subjects() -> Vec<Subject> {
    let mut all: Vec<Subject> = (0..3).map(Subject::Names).collect();
    all.extend((0..3).map(Subject::Data));
    all.extend((0..1).map(Subject::Mapped));
    all.extend((0..2).map(Subject::Log));
    all.extend((0..2).map(Subject::Attr));
    all.extend((0..2).map(Subject::Lock));
    all.extend((0..1).map(Subject::Spliced));
    all.extend((0..1).map(Subject::HeldData));
    all.extend((0..1).map(Subject::HeldMapped));
    all.extend((0..1).map(Subject::HeldAttr));
    all.extend((0..HELD_DIRS).map(Subject::HeldDir));
    all
}

/// Offsets at which operations begin and end: around the borders at which file systems cut files into pieces (sectors, pages,
/// 64 KiB, 256 KiB, 1 MiB), on them and beside them.
pub const BORDERS: [u64; 20] = [
    0,
    24,
    512,
    4096 - 40,
    4096,
    4096 + 24,
    8192,
    12288 + 8,
    (64 << 10) - 72,
    64 << 10,
    (64 << 10) + 512,
    68 << 10,
    (256 << 10) - 24,
    256 << 10,
    (256 << 10) + 4096,
    (512 << 10) + 1000,
    (1 << 20) - 4096,
    1 << 20,
    (1 << 20) + 24,
    (1 << 20) + 8192,
];

/// The range that the last read of a round covers in a file of bytes.
pub const WHOLE: Range = Range {
    from: 0,
    to: BORDERS[BORDERS.len() - 1],
};
