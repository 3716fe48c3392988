//! One thing the user does. Files, directories and names are meant by small numbers, so that a script reads like a shell
//! session and chance finds the same few again and again.

use super::house::ONE_OBJECT;
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
    /// A file without a name, held open.
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

/// Where something changes in a file: inline bytes, blocks, stripe units, objects.
const BORDERS: [u64; 6] = [
    0,
    4 << 10,
    8 << 10,
    64 << 10,
    ONE_OBJECT,
    ONE_OBJECT + (64 << 10),
];

fn offset(dice: &FakeRandom) -> u64 {
    let border = BORDERS[dice.below(BORDERS.len() as u64) as usize];
    match dice.below(4) {
        0 => border,
        1 => border + dice.below(100),
        2 => border.saturating_sub(dice.below(100)),
        _ => dice.below(BORDERS[BORDERS.len() - 1]),
    }
}

fn len(dice: &FakeRandom) -> u64 {
    match dice.below(5) {
        0 => 1 + dice.below(200),
        1 => 4096,
        2 => 1 + dice.below(9000),
        3 => 64 << 10,
        _ => 1 + dice.below(150_000),
    }
}

impl Action {
    pub fn throw(dice: &FakeRandom) -> Action {
        let (dir, name, file) = (dice.below(3), dice.below(NAMES), dice.below(8));
        match dice.below(100) {
            0..12 => Action::Create { dir, name },
            12..15 => Action::Mkdir { dir, name },
            15..17 => Action::Rmdir { dir, name },
            17..20 => Action::Link { file, dir, name },
            20..28 => Action::Unlink { dir, name },
            28..38 => Action::Rename {
                from: (dir, name),
                to: (dice.below(3), dice.below(NAMES)),
            },
            38..41 => Action::TmpFile { len: len(dice) },
            41..43 => Action::Chmod {
                file,
                mode: [0o600, 0o640, 0o755][dice.below(3) as usize],
            },
            43..46 => Action::Utimes {
                file,
                secs: 1 + dice.below(1 << 30) as i64,
            },
            46..62 => Action::Write {
                file,
                at: offset(dice),
                len: len(dice),
            },
            62..68 => Action::Append {
                file,
                len: len(dice),
            },
            68..73 => Action::Truncate {
                file,
                to: match dice.one_in(3) {
                    true => 0,
                    false => offset(dice),
                },
            },
            73..80 => Action::Fsync {
                file,
                data_only: dice.one_in(3),
            },
            80..82 => Action::SyncAll,
            82..88 => Action::Read { file },
            88..92 => Action::Close { file },
            92..95 => Action::Wait { millis: 25 },
            _ => Action::Wait { millis: 7_000 },
        }
    }
}
