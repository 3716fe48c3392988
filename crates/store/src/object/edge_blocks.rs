//! Edge blocks: blocks that a change covers in part. Their new checksum is computed from the old bytes, which are
//! verified first, so that damaged bytes are found and do not get a valid checksum.

use super::in_flight::InFlightChange;
use super::object::{ChangeGuard, Object, ObjectState};
use super::object_regions::ObjectRegions;
use super::reader::ObjectReader;
use super::region::blocks_of;
use gupfs_proto::FsError;
use gupfs_proto::checksum;
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::limits::CHECKSUM_BLOCK;
use std::ops::Range;

/// A block that a change covers in part, and what is known of its old content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct EdgeBlock {
    pub block: u64,
    /// The bytes of the block that change.
    pub part: Range<usize>,
    pub old: OldContent,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OldContent {
    /// Zeros, or bytes that the change replaces completely.
    Empty,
    Known(u32),
    Unknown,
}

const BLOCK: usize = CHECKSUM_BLOCK as usize;

/// The new bytes of a range: given bytes, or zeros.
#[derive(Clone, Copy)]
pub(super) enum NewBytes<'a> {
    Given(&'a [u8]),
    Zeros,
}

/// The blocks that a change of `range` covers in part, at most two.
pub(super) fn edge_blocks(state: &ObjectState, range: &Range<u64>) -> Vec<EdgeBlock> {
    let size = state.size();
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
        // The object's end, relative to the start of the block.
        let end = size.saturating_sub(start);
        let old = match state.regions.checksum(block, size) {
            _ if end == 0 || (from == 0 && to >= end) => OldContent::Empty,
            Some(sum) => OldContent::Known(sum),
            None => OldContent::Unknown,
        };
        let part = from as usize..to as usize;
        (!whole).then_some(EdgeBlock { block, part, old })
    };
    match range.is_empty() {
        true => Vec::new(),
        false => ends.into_iter().filter_map(edge).collect(),
    }
}

/// Sets the checksums of edge blocks; prefers a checksum that `better` returns.
pub(super) fn set_edge_checksums(
    regions: &mut ObjectRegions,
    span: &InFlightChange,
    sums: Vec<(u64, Option<u32>)>,
    better: impl Fn(u64) -> Option<u32>,
) {
    for (block, sum) in sums {
        let sum = match span.shares(block) {
            true => None,
            false => better(block).or(sum),
        };
        regions.set_checksums(block..block + 1, |_| sum);
    }
}

impl EdgeBlock {
    /// Whether the new bytes are the block's only data: they begin the block, and the object has no bytes after them.
    pub fn is_only_data(&self) -> bool {
        self.old == OldContent::Empty && self.part.start == 0
    }

    /// The block's checksum after the change; `old` are its bytes before, with zeros after the object's end.
    fn new_checksum(&self, mut old: [u8; BLOCK], new: NewBytes<'_>, range: &Range<u64>) -> u32 {
        let part = &mut old[self.part.clone()];
        match new {
            NewBytes::Zeros => part.fill(0),
            NewBytes::Given(bytes) => {
                let from =
                    (self.block * CHECKSUM_BLOCK + self.part.start as u64 - range.start) as usize;
                part.copy_from_slice(&bytes[from..from + self.part.len()]);
            }
        }
        checksum::block(&old)
    }
}

/// The checksums that the edge blocks will have; None where that is unknown. While another change of the same block
/// is in flight, its bytes may be old or new, and a mismatch proves nothing.
pub(super) async fn checksum_edges(
    reader: &ObjectReader,
    object: &Object,
    edges: &[EdgeBlock],
    new: NewBytes<'_>,
    range: &Range<u64>,
    change: &ChangeGuard<'_>,
) -> Result<Vec<(u64, Option<u32>)>, FsError> {
    tracing::trace!(target: "walk", file = file!(), "checksum_edges");
    let shared = |block| change.span().shares(block);
    let mut sums = Vec::with_capacity(edges.len());
    for edge in edges {
        let sum = match edge.old {
            _ if shared(edge.block) => None,
            OldContent::Unknown => None,
            OldContent::Empty => Some(edge.new_checksum([0; BLOCK], new, range)),
            OldContent::Known(known) => {
                let old = reader.read_block(object, edge.block).await;
                let old = old.map_err(|error| reader.damage.fs_error(object.id, &error))?;
                if checksum::block(&old) == known {
                    Some(edge.new_checksum(old, new, range))
                } else if shared(edge.block) {
                    None // another change began meanwhile
                } else {
                    return Err(reader.damage.report(object.id, ObjectDamage::Checksum));
                }
            }
        };
        sums.push((edge.block, sum));
    }
    Ok(sums)
}
