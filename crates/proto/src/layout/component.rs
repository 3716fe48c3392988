//! Components: the mapping of one range of a file to objects.

use super::{Presence, PresenceMap};
use crate::ids::{Generation, InodeId, ObjectId, OstId};
use crate::units::{ByteCount, FileOffset};
use serde::{Deserialize, Serialize};

/// One range of a file, striped over `targets` in stripe units of `unit` bytes, round robin from the range's start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Component {
    /// First byte.
    pub from: FileOffset,
    /// First byte after the range; `FileOffset(u64::MAX)` means "to the end of the file".
    pub to: FileOffset,
    pub kind: ComponentKind,
    pub unit: ByteCount,
    /// The OSTs, one object on each. The first copy of every stripe comes first, in stripe order; then, if the component is mirrored, the
    /// second copies in the same order, and so on. An *object index* is a position in this list.
    pub targets: Vec<OstId>,
    pub generation: Generation,
    pub state: ComponentState,
    pub presence: PresenceMap,
}

/// Redundancy of a component.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ComponentKind {
    /// No redundancy: each byte is stored once.
    Plain,
    /// Each stripe has this many objects with the same bytes, its members, on OSTs of different failure domains. The version counts
    /// the changes of which members are stale.
    Mirrored { copies: u8, version: u32 },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ComponentState {
    /// Clients read and write it.
    Live,
}

impl Component {
    /// Offset in the file → (stripe index, offset in that object, bytes left in this stripe unit). `offset` must be in the
    /// component's range.
    pub fn locate(&self, offset: u64) -> (usize, u64, u64) {
        let (unit, count) = (self.unit.0, self.stripes() as u64);
        let within = offset - self.from.0;
        let (number, rest) = (within / unit, within % unit);
        (
            (number % count) as usize,
            number / count * unit + rest,
            unit - rest,
        )
    }

    /// Offset in an object → offset in the file: the inverse of `locate`. None beyond the component's end or the largest offset.
    pub fn file_offset(&self, index: usize, at: u64) -> Option<u64> {
        let (unit, count) = (self.unit.0, self.stripes() as u64);
        let stripe = self.stripe_of(index) as u64;
        let number = (at / unit).checked_mul(count)?.checked_add(stripe)?;
        let offset = number
            .checked_mul(unit)?
            .checked_add(at % unit)?
            .checked_add(self.from.0)?;
        (offset < self.to.0).then_some(offset)
    }

    /// The size of an object if the file ends at `size`: a truncate of the file sets each object to this size.
    pub fn object_size(&self, index: usize, size: u64) -> u64 {
        let end = size.min(self.to.0);
        if end <= self.from.0 {
            return 0;
        }
        let (unit, count) = (self.unit.0, self.stripes() as u64);
        let within = end - self.from.0;
        let (whole, rest) = (within / unit, within % unit);
        let (rounds, partial) = (whole / count, whole % count);
        rounds * unit
            + match (self.stripe_of(index) as u64).cmp(&partial) {
                std::cmp::Ordering::Less => unit,
                std::cmp::Ordering::Equal => rest,
                std::cmp::Ordering::Greater => 0,
            }
    }

    /// The least size of the file if this object has `length` bytes. 0 for an empty object.
    pub fn file_size(&self, index: usize, length: u64) -> u64 {
        match length
            .checked_sub(1)
            .and_then(|last| self.file_offset(index, last))
        {
            Some(last) => last + 1,
            None => 0,
        }
    }

    /// Whether it is known of each object that it was never created, or that it is durable and has every byte.
    pub fn is_settled(&self) -> bool {
        let mut presence = (0..self.targets.len()).map(|index| self.presence.get(index));
        presence.all(|presence| matches!(presence, Presence::Never | Presence::Present))
    }

    pub fn object(&self, ino: InodeId, index: usize) -> ObjectId {
        let (stripe, copy) = (index % self.stripes(), index / self.stripes());
        ObjectId {
            ino,
            generation: self.generation,
            stripe: stripe as u32 | (copy as u32) << ObjectId::STRIPE_BITS,
        }
    }

    /// The index of an object of this component; None if the component has no such object.
    pub fn index_of(&self, object: &ObjectId) -> Option<usize> {
        let stripe = (object.stripe & ((1 << ObjectId::STRIPE_BITS) - 1)) as usize;
        let index = object.copy() as usize * self.stripes() + stripe;
        let is_there = stripe < self.stripes() && index < self.targets.len();
        (is_there && object.generation == self.generation).then_some(index)
    }
}
