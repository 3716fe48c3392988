//! # shared_state: the possible states of a directory and files that all programs change at once
//!
//! Owns   the states that are possible after overlapping calls.
//! Never  guesses an order: each reply must fit one.
//! Enter  at `Commons`.

pub mod blocks;
pub mod entries;

use super::possible::Possible;
use blocks::{Block, Blocks, Log, Records, block_of};
use entries::{Entries, Names, Thing};
use gupfs_proto::InodeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Blocks of the shared files that are written: at the borders of objects and stripe units, and some together.
pub const PLACES: [u64; 7] = [0, 1, 31, 32, 47, 48, 63];

/// Blocks of one shared file.
pub const FILE_BLOCKS: u64 = 64;

/// Records of the log in one block.
pub const RECORDS_OF_BLOCK: usize = blocks::BLOCK / blocks::SECTOR;

/// The state that all programs share: the possible states of each object.
#[derive(Default)]
pub struct Commons {
    pub dir: InodeId,
    /// None before the start.
    pub names: Option<Possible<Entries>>,
    /// The inode number that each create request got.
    pub things: BTreeMap<InodeId, Thing>,
    pub files: Vec<Shared>,
    pub log: Option<(InodeId, Possible<Log>)>,
    /// Files that their only writer has finished: their bytes, until a power loss takes them.
    pub kept: BTreeMap<InodeId, Arc<Vec<u8>>>,
    /// By machine, when the look at bytes began that is under way: a sync beside it rules nothing out for it.
    pub looks: BTreeMap<usize, u64>,
}

pub struct Shared {
    pub ino: InodeId,
    pub blocks: BTreeMap<u64, Possible<Blocks>>,
}

impl Commons {
    /// With an empty directory, files whose every block holds one value, and a log of some records of one value; all of it
    /// durable.
    pub fn begin(
        dir: InodeId,
        files: &[(InodeId, u64)],
        (log, value, records): (InodeId, u64, usize),
    ) -> Commons {
        let blocks = |value: u64| {
            let block = |place: &u64| (*place, Possible::<Blocks>::new(block_of(value)));
            PLACES.iter().map(block).collect()
        };
        let shared = |(ino, value): &(InodeId, u64)| Shared {
            ino: *ino,
            blocks: blocks(*value),
        };
        Commons {
            dir,
            names: Some(Possible::new(Names::new())),
            things: BTreeMap::new(),
            files: files.iter().map(shared).collect(),
            log: Some((log, Possible::new(Records::of(value, records)))),
            looks: BTreeMap::new(),
            kept: BTreeMap::new(),
        }
    }

    /// The metadata server loses power while all clients live: they replay their answered changes. False if a program
    /// has seen a change without a reply: that one may be undone until its client replays it.
    pub fn names_are_replayed(&self) -> bool {
        self.names
            .as_ref()
            .is_none_or(Possible::may_be_without_asked)
    }

    /// The metadata server lost power: of what was done since `synced` any may be undone; how long a file was only if its
    /// holder may be gone (`undoes`).
    pub fn cut_names(&mut self, now: u64, synced: u64, undoes: bool) {
        if let Some(names) = &mut self.names {
            names.synced(synced);
            names.cut(now);
        }
        if !undoes {
            return;
        }
        if let Some((_, log)) = &mut self.log {
            log.cut(now);
        }
        self.kept.clear();
    }

    /// An object server lost power.
    pub fn cut_bytes(&mut self, now: u64) {
        for file in &mut self.files {
            file.blocks.values_mut().for_each(|block| block.cut(now));
        }
        if let Some((_, log)) = &mut self.log {
            log.cut(now);
        }
        self.kept.clear();
    }

    pub fn names(&mut self) -> &mut Possible<Entries> {
        self.names.as_mut().expect("it has begun")
    }

    pub fn log(&mut self) -> &mut Possible<Log> {
        &mut self.log.as_mut().expect("it has begun").1
    }

    pub fn block(&mut self, file: usize, place: u64) -> &mut Possible<Blocks> {
        let block = self.files[file].blocks.get_mut(&place);
        block.expect("a place that is written")
    }
}

/// The bytes of so many blocks that all hold one value.
pub fn fill_of(value: u64, blocks: u64) -> Vec<u8> {
    blocks::fill(value, blocks as usize * blocks::BLOCK)
}

/// Text of a block's possible states, for the message of a failure.
pub fn show_block(block: &Block) -> String {
    format!("{block:?}")
}
