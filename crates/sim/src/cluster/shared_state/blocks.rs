//! Blocks of 4 KiB, each written as a whole with a unique value, so that a read identifies the writer; and a log to which such
//! values are appended.

use crate::cluster::possible_states::ObjectModel;
use std::collections::BTreeSet;

/// A disk keeps or loses this many bytes as a unit.
pub const SECTOR: usize = 512;
pub const BLOCK: usize = 4096;
const SECTORS: usize = BLOCK / SECTOR;

/// The value of bytes that no program wrote.
pub const UNWRITTEN: u64 = 0;

/// The values that one sector may have: several only after a power loss.
type Sector = BTreeSet<u64>;

/// Repeats a value, so that each part of the bytes identifies it.
pub fn repeat_value(value: u64, len: usize) -> Vec<u8> {
    value.to_le_bytes().repeat(len / 8)
}

/// Returns the value of each sector.
///
/// # Errors
/// The number of a sector whose bytes come from two writers.
pub fn values(bytes: &[u8]) -> Result<Vec<u64>, String> {
    let of_sector = |(number, sector): (usize, &[u8])| {
        let mut words = sector.chunks(8).map(|word| {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            u64::from_le_bytes(padded)
        });
        let first = words.next().unwrap_or(UNWRITTEN);
        match words.all(|word| word == first) {
            true => Ok(first),
            false => Err(format!("sector {number} has bytes of two writers")),
        }
    };
    bytes.chunks(SECTOR).enumerate().map(of_sector).collect()
}

/// The model of one block.
pub struct BlockModel;

pub type Block = Vec<Sector>;

pub fn block_of(value: u64) -> Block {
    vec![BTreeSet::from([value]); SECTORS]
}

impl ObjectModel for BlockModel {
    type State = Block;
    type Change = u64;
    type Reply = ();

    fn change(_: &Block, value: &u64) -> Vec<(Block, ())> {
        vec![(block_of(*value), ())]
    }

    /// Each sector may have the value of any state.
    fn after_power_loss<'a>(states: impl Iterator<Item = &'a Block>) -> Vec<Block> {
        let mut mixed = vec![Sector::new(); SECTORS];
        for state in states {
            for (sector, values) in mixed.iter_mut().zip(state) {
                sector.extend(values);
            }
        }
        vec![mixed]
    }
}

/// Whether a block in this state may have these values.
pub fn is_block(block: &Block, found: &[u64]) -> bool {
    let fits = |(sector, value): (&Sector, &u64)| sector.contains(value);
    block.len() == found.len() && block.iter().zip(found).all(fits)
}

/// The model of a file to which all programs append one sector at a time.
pub struct LogModel;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct LogState {
    /// The length is between this and that of `slots`.
    pub len_min: usize,
    pub slots: Vec<Sector>,
}

impl LogState {
    pub fn of(value: u64, count: usize) -> LogState {
        LogState {
            len_min: count,
            slots: vec![Sector::from([value]); count],
        }
    }
}

impl ObjectModel for LogModel {
    type State = LogState;
    type Change = u64;
    /// The slot of the appended record.
    type Reply = usize;

    fn change(log: &LogState, value: &u64) -> Vec<(LogState, usize)> {
        let put = |slot: usize| {
            let mut slots = log.slots.clone();
            slots.truncate(slot);
            for hole in &mut slots[log.len_min.min(slot)..] {
                hole.insert(UNWRITTEN);
            }
            slots.push(Sector::from([*value]));
            let len_min = slots.len();
            (LogState { len_min, slots }, slot)
        };
        (log.len_min..=log.slots.len()).map(put).collect()
    }

    fn after_power_loss<'a>(states: impl Iterator<Item = &'a LogState>) -> Vec<LogState> {
        let mut mixed: Option<LogState> = None;
        for state in states {
            let Some(mixed) = &mut mixed else {
                mixed = Some(state.clone());
                continue;
            };
            let longest = mixed.slots.len().max(state.slots.len());
            mixed.slots.resize(longest, Sector::new());
            mixed.len_min = mixed.len_min.min(state.len_min);
            for (slot, values) in mixed.slots.iter_mut().zip(&state.slots) {
                slot.extend(values);
            }
        }
        let mut mixed = mixed.unwrap_or_default();
        for lost in &mut mixed.slots[mixed.len_min..] {
            lost.insert(UNWRITTEN);
        }
        vec![mixed]
    }
}

/// Whether a log in this state may have these values.
pub fn is_log(log: &LogState, found: &[u64]) -> bool {
    let fits = |(slot, value): (&Sector, &u64)| slot.contains(value);
    (log.len_min..=log.slots.len()).contains(&found.len()) && log.slots.iter().zip(found).all(fits)
}
