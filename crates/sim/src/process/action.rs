//! One action of the program. Small numbers name files, directories and names, so that a script reads like a shell session and
//! random actions name the same few again and again.

use super::host::ONE_OBJECT;
use gupfs_platform::fake::FakeRandom;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    Create {
        dir: u64,
        name: u64,
    },
    Mkdir {
        dir: u64,
        name: u64,
    },
    Rmdir {
        dir: u64,
        name: u64,
    },
    Link {
        file: u64,
        dir: u64,
        name: u64,
    },
    Unlink {
        dir: u64,
        name: u64,
    },
    Rename {
        from: (u64, u64),
        to: (u64, u64),
    },
    /// Creates a file without a name and keeps it open.
    TmpFile {
        len: u64,
    },
    Chmod {
        file: u64,
        mode: u32,
    },
    Utimes {
        file: u64,
        secs: i64,
    },
    Write {
        file: u64,
        at: u64,
        len: u64,
    },
    Append {
        file: u64,
        len: u64,
    },
    Truncate {
        file: u64,
        to: u64,
    },
    Fsync {
        file: u64,
        data_only: bool,
    },
    SyncAll,
    Read {
        file: u64,
    },
    Close {
        file: u64,
    },
    Wait {
        millis: u64,
    },
}

pub const NAMES: u64 = 5;

/// Offsets where the storage of a file changes: inline bytes, blocks, stripe units, objects.
const BOUNDARIES: [u64; 6] = [
    0,
    4 << 10,
    8 << 10,
    64 << 10,
    ONE_OBJECT,
    ONE_OBJECT + (64 << 10),
];

fn offset(random: &FakeRandom) -> u64 {
    let boundary = BOUNDARIES[random.below(BOUNDARIES.len() as u64) as usize];
    match random.below(4) {
        0 => boundary,
        1 => boundary + random.below(100),
        2 => boundary.saturating_sub(random.below(100)),
        _ => random.below(BOUNDARIES[BOUNDARIES.len() - 1]),
    }
}

fn len(random: &FakeRandom) -> u64 {
    match random.below(5) {
        0 => 1 + random.below(200),
        1 => 4096,
        2 => 1 + random.below(9000),
        3 => 64 << 10,
        _ => 1 + random.below(150_000),
    }
}

impl Action {
    pub fn random(random: &FakeRandom) -> Action {
        let (dir, name, file) = (random.below(3), random.below(NAMES), random.below(8));
        match random.below(100) {
            0..12 => Action::Create { dir, name },
            12..15 => Action::Mkdir { dir, name },
            15..17 => Action::Rmdir { dir, name },
            17..20 => Action::Link { file, dir, name },
            20..28 => Action::Unlink { dir, name },
            28..38 => Action::Rename {
                from: (dir, name),
                to: (random.below(3), random.below(NAMES)),
            },
            38..41 => Action::TmpFile { len: len(random) },
            41..43 => Action::Chmod {
                file,
                mode: [0o600, 0o640, 0o755][random.below(3) as usize],
            },
            43..46 => Action::Utimes {
                file,
                secs: 1 + random.below(1 << 30) as i64,
            },
            46..62 => Action::Write {
                file,
                at: offset(random),
                len: len(random),
            },
            62..68 => Action::Append {
                file,
                len: len(random),
            },
            68..73 => Action::Truncate {
                file,
                to: match random.one_in(3) {
                    true => 0,
                    false => offset(random),
                },
            },
            73..80 => Action::Fsync {
                file,
                data_only: random.one_in(3),
            },
            80..82 => Action::SyncAll,
            82..88 => Action::Read { file },
            88..92 => Action::Close { file },
            92..95 => Action::Wait { millis: 25 },
            _ => Action::Wait { millis: 7_000 },
        }
    }
}
