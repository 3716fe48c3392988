//! The space that some unsent bytes will take.

use super::{NeededSpace, ReservedSpace};
use std::sync::Arc;

/// Charged until this is dropped: the bytes are at the object servers then, or lost.
#[derive(Default)]
pub struct SpaceCharges {
    space: Option<Arc<ReservedSpace>>,
    /// One entry for each target.
    charged: Vec<NeededSpace>,
}

impl SpaceCharges {
    pub(super) fn new(space: Arc<ReservedSpace>, charged: Vec<NeededSpace>) -> SpaceCharges {
        SpaceCharges {
            space: Some(space),
            charged,
        }
    }

    /// Adds those of further bytes, which are charged in the same table.
    pub fn add(&mut self, mut more: SpaceCharges) {
        if self.space.is_none() {
            *self = more;
            return;
        }
        for NeededSpace { ost, bytes } in std::mem::take(&mut more.charged) {
            match self.charged.iter_mut().find(|own| own.ost == ost) {
                Some(own) => own.bytes += bytes,
                None => self.charged.push(NeededSpace { ost, bytes }),
            }
        }
    }
}

impl Drop for SpaceCharges {
    fn drop(&mut self) {
        if let Some(space) = &self.space {
            space.release(&self.charged);
        }
    }
}
