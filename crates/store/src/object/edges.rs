//! Blocks that a change covers in part: their new checksum from the old bytes, which are verified on the way, so that
//! rot in them is found and not given a fresh sum.

use super::flight::Span;
use super::object::{Change, Object, State};
use super::place::parts;
use super::region::blocks_of;
use super::target::Target;
use gupfs_platform::{DiskError, ReadHow};
use gupfs_proto::Refusal;
use gupfs_proto::checksum;
use gupfs_proto::limits::CHECKSUM_BLOCK;
use gupfs_proto::refusal::ObjectDamage;
use std::ops::Range;

/// A block that is covered in part, and what is known of it before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Edge {
    pub block: u64,
    /// Which bytes of the block change.
    pub part: Range<usize>,
    pub was: Was,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Was {
    /// Zeros, or nothing that outlives the change.
    Nothing,
    Summed(u32),
    Unknown,
}

const BLOCK: usize = CHECKSUM_BLOCK as usize;

/// The new bytes of a range: given, or zeros.
#[derive(Clone, Copy)]
pub(super) enum Bytes<'a> {
    Given(&'a [u8]),
    Zeros,
}

impl State {
    /// The blocks that a change of `range` covers in part, at most two.
    pub fn edges(&self, range: &Range<u64>) -> Vec<Edge> {
        let blocks = blocks_of(range);
        let mut ends = vec![blocks.start];
        if blocks.end > blocks.start + 1 {
            ends.push(blocks.end - 1);
        }
        let edge = |block: u64| {
            let start = block * CHECKSUM_BLOCK;
            let from = range.start.max(start) - start;
            let to = range.end.min(start + CHECKSUM_BLOCK) - start;
            let whole = from == 0 && to == CHECKSUM_BLOCK;
            // The object's last byte, seen from the block.
            let end = self.size().saturating_sub(start);
            let was = match self.sum(block) {
                _ if end == 0 || (from == 0 && to >= end) => Was::Nothing,
                Some(sum) => Was::Summed(sum),
                None => Was::Unknown,
            };
            let part = from as usize..to as usize;
            (!whole).then_some(Edge { block, part, was })
        };
        match range.is_empty() {
            true => Vec::new(),
            false => ends.into_iter().filter_map(edge).collect(),
        }
    }

    /// Takes over the sums of edge blocks, those that `better` knows from it.
    pub fn set_edges(
        &mut self,
        span: &Span,
        sums: Vec<(u64, Option<u32>)>,
        better: impl Fn(u64) -> Option<u32>,
    ) {
        for (block, sum) in sums {
            let sum = match span.shares(block) {
                true => None,
                false => better(block).or(sum),
            };
            self.set_sums(block..block + 1, |_| sum);
        }
    }
}

impl Edge {
    /// Nothing of the block but what is new: its bytes begin it, and none of the object's lie behind them.
    pub fn is_all_there_is(&self) -> bool {
        self.was == Was::Nothing && self.part.start == 0
    }

    /// The block's sum after the change; `old` holds its bytes before, zeros behind the object's end.
    fn summed(&self, mut old: [u8; BLOCK], new: Bytes<'_>, range: &Range<u64>) -> u32 {
        let part = &mut old[self.part.clone()];
        match new {
            Bytes::Zeros => part.fill(0),
            Bytes::Given(bytes) => {
                let from =
                    (self.block * CHECKSUM_BLOCK + self.part.start as u64 - range.start) as usize;
                part.copy_from_slice(&bytes[from..from + self.part.len()]);
            }
        }
        checksum::block(&old)
    }
}

impl Target {
    /// The sums that edge blocks will have; None where that is not known. While another change is under way in the same
    /// block its bytes may be half new, and prove nothing.
    pub async fn sum_edges(
        &self,
        object: &Object,
        edges: &[Edge],
        new: Bytes<'_>,
        range: &Range<u64>,
        change: &Change<'_>,
    ) -> Result<Vec<(u64, Option<u32>)>, Refusal> {
        let shared = |block| change.span().shares(block);
        let mut sums = Vec::with_capacity(edges.len());
        for edge in edges {
            let sum = match edge.was {
                _ if shared(edge.block) => None,
                Was::Unknown => None,
                Was::Nothing => Some(edge.summed([0; BLOCK], new, range)),
                Was::Summed(known) => {
                    let old = self.block(object, edge.block).await;
                    let old = old.map_err(|error| self.refused(object.id, &error))?;
                    if checksum::block(&old) == known {
                        Some(edge.summed(old, new, range))
                    } else if shared(edge.block) {
                        None // since then
                    } else {
                        return Err(self.damaged(object.id, ObjectDamage::Checksum));
                    }
                }
            };
            sums.push((edge.block, sum));
        }
        Ok(sums)
    }

    /// The bytes of a block, zeros where there are none.
    async fn block(&self, object: &Object, block: u64) -> Result<[u8; BLOCK], DiskError> {
        let mut bytes = [0; BLOCK];
        // Blocks never lie across segments.
        for part in parts(block * CHECKSUM_BLOCK, CHECKSUM_BLOCK) {
            if let Some(file) = self.file(object, part.segment).await? {
                file.read_at(&mut bytes, part.at, ReadHow::MayWait).await?;
            }
        }
        Ok(bytes)
    }
}
