//! # shared_state: the possible states of a directory and files that all programs change at once
//!
//! Owns   the states that are possible after overlapping calls.
//! Never  guesses an order: each reply must fit one.
//! Enter  at `SharedState`.

pub mod blocks;
pub mod entries;

use super::possible_states::PossibleStates;
use blocks::{Block, BlockModel, LogModel, LogState, block_of};
use entries::{CreatedInode, NameModel, SharedNames};
use gupfs_proto::InodeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Blocks of the shared files that are written: at the borders of objects and stripe units, and some together.
pub const WRITTEN_BLOCKS: [u64; 7] = [0, 1, 31, 32, 47, 48, 63];

/// Blocks of one shared file.
pub const FILE_BLOCKS: u64 = 64;

/// Records of the log in one block.
pub const RECORDS_OF_BLOCK: usize = blocks::BLOCK / blocks::SECTOR;

/// The state that all programs share: the possible states of each object.
#[derive(Default)]
pub struct SharedState {
    pub dir: InodeId,
    /// None before the start.
    pub names: Option<PossibleStates<NameModel>>,
    /// The inode number that each create request got.
    pub created_inodes: BTreeMap<InodeId, CreatedInode>,
    pub files: Vec<SharedFile>,
    pub log: Option<(InodeId, PossibleStates<LogModel>)>,
    /// Files that their only writer has finished: their bytes, until a power loss takes them.
    pub finished: BTreeMap<InodeId, Arc<Vec<u8>>>,
    /// By machine, when the look at bytes began that is under way: a sync beside it rules nothing out for it.
    pub reads_in_progress: BTreeMap<usize, u64>,
}

pub struct SharedFile {
    pub ino: InodeId,
    pub blocks: BTreeMap<u64, PossibleStates<BlockModel>>,
}

impl SharedState {
    /// With an empty directory, files whose every block holds one value, and a log of some records of one value; all of it
    /// durable.
    pub fn begin(
        dir: InodeId,
        files: &[(InodeId, u64)],
        (log, value, records): (InodeId, u64, usize),
    ) -> SharedState {
        let blocks = |value: u64| {
            let block = |block_index: &u64| {
                (
                    *block_index,
                    PossibleStates::<BlockModel>::new(block_of(value)),
                )
            };
            WRITTEN_BLOCKS.iter().map(block).collect()
        };
        let shared = |(ino, value): &(InodeId, u64)| SharedFile {
            ino: *ino,
            blocks: blocks(*value),
        };
        SharedState {
            dir,
            names: Some(PossibleStates::new(SharedNames::new())),
            created_inodes: BTreeMap::new(),
            files: files.iter().map(shared).collect(),
            log: Some((log, PossibleStates::new(LogState::of(value, records)))),
            reads_in_progress: BTreeMap::new(),
            finished: BTreeMap::new(),
        }
    }

    /// The metadata server loses power while all clients live: they replay their answered changes. False if a program
    /// has seen a change without a reply: that one may be undone until its client replays it.
    pub fn names_are_replayed(&self) -> bool {
        self.names
            .as_ref()
            .is_none_or(PossibleStates::may_lack_pending)
    }

    /// The metadata server lost power: of what was done since `synced` any may be undone; how long a file was only if its
    /// holder may be gone (`undoes`).
    pub fn lose_names(&mut self, now: u64, synced: u64, undoes: bool) {
        if let Some(names) = &mut self.names {
            names.synced(synced);
            names.lose_power(now);
        }
        if !undoes {
            return;
        }
        if let Some((_, log)) = &mut self.log {
            log.lose_power(now);
        }
        self.finished.clear();
    }

    /// An object server lost power.
    pub fn lose_bytes(&mut self, now: u64) {
        for file in &mut self.files {
            file.blocks
                .values_mut()
                .for_each(|block| block.lose_power(now));
        }
        if let Some((_, log)) = &mut self.log {
            log.lose_power(now);
        }
        self.finished.clear();
    }

    pub fn names(&mut self) -> &mut PossibleStates<NameModel> {
        self.names.as_mut().expect("it has begun")
    }

    pub fn log(&mut self) -> &mut PossibleStates<LogModel> {
        &mut self.log.as_mut().expect("it has begun").1
    }

    pub fn block(&mut self, file: usize, block_index: u64) -> &mut PossibleStates<BlockModel> {
        let block = self.files[file].blocks.get_mut(&block_index);
        block.expect("a place that is written")
    }
}

/// The bytes of so many blocks that all hold one value.
pub fn repeated_value(value: u64, blocks: u64) -> Vec<u8> {
    blocks::repeat_value(value, blocks as usize * blocks::BLOCK)
}

/// Text of a block's possible states, for the message of a failure.
pub fn block_text(block: &Block) -> String {
    format!("{block:?}")
}
