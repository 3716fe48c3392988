//! # shared_state: the possible states of a directory and files that all programs change concurrently
//!
//! Owns   the states that are possible after overlapping calls.
//! Never  assumes an order of overlapping calls: each reply must fit some order.
//! Enter  at `SharedState`.

pub mod blocks;
pub mod entries;

use super::possible_states::PossibleStates;
use blocks::{Block, BlockModel, LogModel, LogState, block_of};
use entries::{CreatedInode, NameModel, SharedNames};
use gupfs_proto::InodeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The blocks of the shared files that programs write: at the boundaries of objects and stripe units, and some neighbours.
pub const WRITTEN_BLOCKS: [u64; 7] = [0, 1, 31, 32, 47, 48, 63];

/// Number of blocks of one shared file.
pub const FILE_BLOCKS: u64 = 64;

/// Number of log records in one block.
pub const RECORDS_OF_BLOCK: usize = blocks::BLOCK / blocks::SECTOR;

/// The possible states of each shared object.
#[derive(Default)]
pub struct SharedState {
    pub dir: InodeId,
    /// None until the programs start.
    pub names: Option<PossibleStates<NameModel>>,
    /// The inode number from the reply to each create.
    pub created_inodes: BTreeMap<InodeId, CreatedInode>,
    pub files: Vec<SharedFile>,
    pub log: Option<(InodeId, PossibleStates<LogModel>)>,
    /// The bytes of files that their only writer has finished, until a power loss may undo them.
    pub finished: BTreeMap<InodeId, Arc<Vec<u8>>>,
}

pub struct SharedFile {
    pub ino: InodeId,
    pub blocks: BTreeMap<u64, PossibleStates<BlockModel>>,
}

impl SharedState {
    /// An empty directory, files in which every block has one value, and a log with some records of one value; all durable.
    pub fn new(
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
            finished: BTreeMap::new(),
        }
    }

    /// Called when the metadata server loses power while all clients live and replay their answered changes. Returns false if a
    /// program has seen a change without a reply: that change may be undone until its client replays it.
    pub fn names_are_replayed(&self) -> bool {
        self.names
            .as_ref()
            .is_none_or(PossibleStates::may_lack_all_pending)
    }

    /// The metadata server has lost power: changes of names after event `synced` may be undone; lengths of files only if their
    /// lease holder may be gone (`undoes`).
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

    /// An object server has lost power.
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
        self.names.as_mut().expect("the state was set up")
    }

    pub fn log(&mut self) -> &mut PossibleStates<LogModel> {
        &mut self.log.as_mut().expect("the state was set up").1
    }

    pub fn block(&mut self, file: usize, block_index: u64) -> &mut PossibleStates<BlockModel> {
        let block = self.files[file].blocks.get_mut(&block_index);
        block.expect("a block that programs write")
    }
}

/// The bytes of this many blocks that all have one value.
pub fn repeated_value(value: u64, blocks: u64) -> Vec<u8> {
    blocks::repeat_value(value, blocks as usize * blocks::BLOCK)
}

/// The text of a block's possible states, for a failure.
pub fn block_text(block: &Block) -> String {
    format!("{block:?}")
}
