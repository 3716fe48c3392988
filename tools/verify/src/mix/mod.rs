//! # mix: which operation comes next
//!
//! Owns   the groups with their weights, the choice of names, attributes and locks; `bytes`: of ranges around borders.
//! Never  does an operation, or knows what the others do.
//! Enter  at [`Mix`] and [`next`].

mod bytes;

use std::collections::BTreeMap;

use crate::history::{Call, Rename, tag};
use crate::rng::Rng;
use crate::subject::{FOLDERS, HELD_NAMES, PLAIN, SLOTS, Subject, subjects};

/// How often each group of subjects is what all work on.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Mix(BTreeMap<String, u32>);

/// Groups and their usual shares.
const GROUPS: [(&str, u32); 8] = [
    ("names", 35),
    ("data", 30),
    ("mmap", 8),
    ("append", 12),
    ("attributes", 10),
    ("locks", 5),
    ("splice", 12),
    ("held", 20),
];

/// Groups that run only where they are asked for: mounts that cache without being told of changes fail them (docs/verify.md).
const ON_REQUEST: [&str; 2] = ["splice", "held"];

impl Default for Mix {
    fn default() -> Mix {
        Mix(GROUPS
            .into_iter()
            .filter(|(group, _)| !ON_REQUEST.contains(group))
            .map(|(group, weight)| (group.into(), weight))
            .collect())
    }
}

impl std::str::FromStr for Mix {
    type Err = String;

    /// `names,data=3`: these groups alone, each with its weight or its usual one.
    fn from_str(text: &str) -> Result<Mix, String> {
        let mut mix = BTreeMap::new();
        for part in text.split(',') {
            let (group, weight) = match part.split_once('=') {
                Some((group, weight)) => {
                    let weight = weight
                        .parse()
                        .map_err(|_| format!("'{weight}' is no weight"))?;
                    (group, Some(weight))
                }
                None => (part, None),
            };
            let known = GROUPS.iter().find(|(name, _)| *name == group);
            let Some((_, usual)) = known else {
                let all: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
                return Err(format!(
                    "there is no group '{group}'; there are {}",
                    all.join(", ")
                ));
            };
            mix.insert(group.to_string(), weight.unwrap_or(*usual));
        }
        match mix.values().any(|weight| *weight > 0) {
            true => Ok(Mix(mix)),
            false => Err("all weights are 0".into()),
        }
    }
}

impl Mix {
    /// Whether a subject is worked on. A held file is mapped only where other files are too.
    pub fn has(&self, subject: Subject) -> bool {
        let has = |group: &str| self.0.get(group).is_some_and(|weight| *weight > 0);
        has(subject.group()) && (!matches!(subject, Subject::HeldMapped(_)) || has("mmap"))
    }

    /// Whether objects are held over rounds.
    pub fn has_held(&self) -> bool {
        subjects()
            .into_iter()
            .any(|subject| subject.is_held() && self.has(subject))
    }

    /// Subjects of a round with their weights, a group's weight divided among its subjects.
    pub fn subjects(&self) -> Vec<(u32, Subject)> {
        let all: Vec<Subject> = subjects()
            .into_iter()
            .filter(|subject| self.has(*subject))
            .collect();
        all.iter()
            .map(|subject| {
                let weight = self.0[subject.group()];
                let of_group = all
                    .iter()
                    .filter(|other| other.group() == subject.group())
                    .count();
                (weight * 12 / of_group as u32, *subject)
            })
            .collect()
    }
}

/// The locks and records that a worker knows from its earlier operations.
#[derive(Debug, Default)]
pub struct WorkerMemory {
    /// Units of each lock file that it holds: first, last.
    pub held: BTreeMap<Subject, (u8, u8)>,
    /// Records that it last saw in each log.
    pub records: BTreeMap<Subject, usize>,
}

/// A worker's next operation on a subject. `number` is the operation's, for its tag.
pub fn next(
    rng: &mut Rng,
    subject: Subject,
    worker: u16,
    number: u32,
    memory: &mut WorkerMemory,
) -> Call {
    let tag = tag::of(worker, number);
    match subject {
        Subject::Names(_) => name(rng, tag),
        Subject::Data(_) => bytes::data(rng, tag),
        Subject::Mapped(_) => bytes::mapped(rng, tag),
        Subject::Log(_) => log(rng, tag, memory.records.get(&subject).copied()),
        Subject::Attr(_) => attr(rng, tag),
        Subject::Lock(n) => lock(rng, n % 2 == 0, memory.held.get(&subject).copied()),
        Subject::Spliced(_) => bytes::spliced(rng, tag),
        Subject::HeldData(_) => bytes::held(|| bytes::data(rng, tag)),
        Subject::HeldMapped(_) => bytes::held(|| bytes::mapped(rng, tag)),
        Subject::HeldAttr(_) => attr(rng, tag),
        Subject::HeldDir(n) => held_dir(rng, n % 2 == 1, worker == 0),
    }
}

fn name(rng: &mut Rng, tag: u64) -> Call {
    // Half of all meet at two slots of different directories.
    let slot = |rng: &mut Rng| match rng.below(10) {
        0..5 => rng.one_of(&[0, 3]),
        5..8 => rng.below(u64::from(PLAIN)) as u8,
        _ => FOLDERS + rng.below(u64::from(SLOTS - FOLDERS)) as u8,
    };
    let at = slot(rng);
    if rng.chance(8) {
        let at = PLAIN + rng.below(u64::from(FOLDERS - PLAIN)) as u8;
        return rng.weighted(&[
            (5, Call::MakeDir { at }),
            (3, Call::RemoveDir { at }),
            (2, Call::Look { at }),
        ]);
    }
    let to = slot(rng);
    let rename = |how| Call::Rename { from: at, to, how };
    rng.weighted(&[
        (
            6,
            Call::Create {
                at,
                exclusive: true,
            },
        ),
        (
            5,
            Call::Create {
                at,
                exclusive: false,
            },
        ),
        (14, Call::Get { at }),
        (14, Call::Look { at }),
        (
            6,
            Call::List {
                directory: crate::subject::directory(at),
            },
        ),
        (10, Call::Unlink { at }),
        (11, rename(Rename::Over)),
        (4, rename(Rename::NoReplace)),
        (4, rename(Rename::Exchange)),
        (6, Call::Link { from: at, to }),
        (3, Call::Symlink { at, tag }),
        (3, Call::ReadLink { at }),
        (3, Call::MakeDir { at }),
        (3, Call::RemoveDir { at }),
        (10, Call::Publish { at, tag }),
    ])
}

fn held_dir(rng: &mut Rng, has_path: bool, moves: bool) -> Call {
    let at = rng.below(u64::from(HELD_NAMES)) as u8;
    let to = rng.below(2) as u8;
    let create = Call::Create {
        at,
        exclusive: true,
    };
    rng.weighted(&[
        (25, create),
        (45, Call::Look { at }),
        (25, Call::Unlink { at }),
        (if has_path { 10 } else { 0 }, Call::GetCwd),
        // One worker alone, so that one mount knows the name.
        (if moves { 10 } else { 0 }, Call::MoveDir { to }),
    ])
}

fn log(rng: &mut Rng, tag: u64, records: Option<usize>) -> Call {
    // Read before it is cut, so that the order of most records is known.
    if records.is_some_and(|records| records > 40) && rng.chance(30) {
        return Call::CutLog;
    }
    rng.weighted(&[
        (40, Call::Append { tag }),
        (45, Call::ReadLog),
        (15, Call::LogSize),
    ])
}

fn attr(rng: &mut Rng, tag: u64) -> Call {
    // Times that are whole seconds and all different; modes that the owner keeps his rights in.
    let seconds = 1_000_000_001 + (tag >> 32) * 10_000_000 + (tag & 0xFF_FFFF) % 10_000_000;
    let mode = 0o600 | rng.below(0o200) as u32;
    rng.weighted(&[
        (15, Call::SetMode { mode }),
        (15, Call::SetTime { seconds }),
        (15, Call::SetXattr { tag }),
        (4, Call::RemoveXattr),
        (20, Call::GetXattr),
        (30, Call::Stat),
    ])
}

fn lock(rng: &mut Rng, whole: bool, held: Option<(u8, u8)>) -> Call {
    if let Some((first, last)) = held {
        return Call::Unlock { first, last };
    }
    let units = crate::check::model::locks::UNITS as u64;
    let (first, last) = match whole {
        true => (0, units as u8),
        false => {
            let first = rng.below(units);
            (first as u8, (first + 1 + rng.below(units - first)) as u8)
        }
    };
    Call::Lock {
        first,
        last,
        exclusive: rng.chance(60),
    }
}
