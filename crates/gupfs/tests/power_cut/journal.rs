//! The steps of each writer, and the states of its files that a power loss may leave.
//!
//! A writer has few files and takes one step at a time: change one file, fsync, acknowledge. Step n + 1 begins only when step n
//! is acknowledged. So after a cut every file is as after the last acknowledged step, but for the one file of the step under
//! way: there each block of 4 KiB may be old or new, and names and sizes may be of either state.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Blocks are written whole or in part; each is named by the step that wrote it.
pub const BLOCK: usize = 4096;

/// A file as its owner knows it: which step wrote each block, and where the last one ends.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileState {
    /// 0 is a hole.
    pub blocks: Vec<u32>,
    pub size: usize,
}

/// All files of one writer after a step, by name.
pub type Files = BTreeMap<String, FileState>;

#[derive(Default)]
struct Journal {
    /// `states[n]`: after step n. The last one may not be acknowledged yet.
    states: Vec<Arc<Files>>,
    acknowledged: usize,
}

#[derive(Clone)]
pub struct Journals(Arc<Vec<Mutex<Journal>>>);

impl Journals {
    pub fn new(writers: usize) -> Journals {
        let empty = || {
            Mutex::new(Journal {
                states: vec![Arc::new(Files::new())],
                acknowledged: 0,
            })
        };
        Journals(Arc::new((0..writers).map(|_| empty()).collect()))
    }

    /// Before the first call of a step.
    pub fn begin(&self, writer: usize, after: Files) {
        self.0[writer]
            .lock()
            .expect("no writer panics")
            .states
            .push(Arc::new(after));
    }

    /// After the fsync of the last step begun.
    pub fn acknowledge(&self, writer: usize) {
        let mut journal = self.0[writer].lock().expect("no writer panics");
        journal.acknowledged = journal.states.len() - 1;
    }

    pub fn acknowledged(&self) -> Vec<u64> {
        self.0
            .iter()
            .map(|journal| journal.lock().expect("no writer panics").acknowledged as u64)
            .collect()
    }

    pub fn snapshot(&self) -> Begun {
        Begun(
            self.0
                .iter()
                .map(|journal| journal.lock().expect("no writer panics").states.clone())
                .collect(),
        )
    }
}

/// The states of every writer up to the newest begun step.
pub struct Begun(Vec<Vec<Arc<Files>>>);

#[derive(Default)]
pub struct Judged {
    pub violations: Vec<String>,
    pub compared: u64,
}

impl Begun {
    /// Compares the files of a mount with the permitted states: at least everything that was acknowledged before the power loss.
    pub fn judge(&self, acknowledged: &[u64], mount: &Path) -> Judged {
        let mut judged = Judged::default();
        for (writer, states) in self.0.iter().enumerate() {
            let allowed = &states[acknowledged[writer] as usize..];
            let dir = mount.join(format!("writer-{writer}"));
            let names: std::collections::BTreeSet<&String> =
                allowed.iter().flat_map(|files| files.keys()).collect();
            for name in names {
                judged.compared += 1;
                let found = read(&dir.join(name));
                if let Err(why) = fits(&found, allowed, name) {
                    judged.violations.push(format!(
                        "writer {writer}, {name}, acknowledged step {}: {why}",
                        acknowledged[writer]
                    ));
                }
            }
        }
        judged
    }
}

enum Found {
    Absent,
    Bytes(Vec<u8>),
    Error(String),
}

fn read(path: &Path) -> Found {
    match std::fs::read(path) {
        Ok(bytes) => Found::Bytes(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Found::Absent,
        Err(error) => Found::Error(error.to_string()),
    }
}

fn fits(found: &Found, allowed: &[Arc<Files>], name: &str) -> Result<(), String> {
    let states: Vec<Option<&FileState>> = allowed.iter().map(|files| files.get(name)).collect();
    let bytes = match found {
        Found::Error(error) => return Err(format!("cannot be read: {error}")),
        Found::Absent if states.contains(&None) => return Ok(()),
        Found::Absent => return Err("is gone".into()),
        Found::Bytes(bytes) => bytes,
    };
    // A file that may be absent may also exist in part: empty or with holes.
    let nothing = FileState::default();
    let states: Vec<&FileState> = states
        .into_iter()
        .map(|state| state.unwrap_or(&nothing))
        .collect();
    let sizes: Vec<usize> = states.iter().map(|state| state.size).collect();
    let (least, most) = (
        sizes.iter().min().copied().unwrap_or(0),
        sizes.iter().max().copied().unwrap_or(0),
    );
    // A write under way may have extended the file in part.
    if bytes.len() < least || bytes.len() > most {
        return Err(format!(
            "has {} bytes, allowed {least} to {most}",
            bytes.len()
        ));
    }
    for (number, block) in bytes.chunks(BLOCK).enumerate() {
        let written: Vec<u32> = states
            .iter()
            .map(|state| state.blocks.get(number).copied().unwrap_or(0))
            .collect();
        if !written
            .iter()
            .any(|step| block_is(block, name, number, *step))
        {
            let head = u32::from_le_bytes(
                block
                    .get(..4)
                    .and_then(|head| head.try_into().ok())
                    .unwrap_or_default(),
            );
            return Err(format!(
                "block {number} is of step {head} or torn, allowed {written:?}"
            ));
        }
    }
    Ok(())
}

/// The data that step `step` writes into block `number`: a unique pattern. Step 0 is zeros.
pub fn pattern(name: &str, number: usize, step: u32) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    if step == 0 {
        return block;
    }
    let seed = name
        .bytes()
        .fold(u64::from(step) << 32 | number as u64, |seed, byte| {
            seed.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte)
        });
    for (at, word) in block.chunks_mut(8).enumerate() {
        word.copy_from_slice(
            &(seed
                .wrapping_add(at as u64)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .to_le_bytes(),
        );
    }
    block[..4].copy_from_slice(&step.to_le_bytes());
    block
}

fn block_is(block: &[u8], name: &str, number: usize, step: u32) -> bool {
    pattern(name, number, step)[..block.len()] == *block
}
