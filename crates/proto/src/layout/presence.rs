//! Which objects of a component exist, as its file's layout records it.

use serde::{Deserialize, Serialize};

/// The existence of an object as its file's layout records it: distinguishes a hole from a lost object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Presence {
    /// The object was never created: its bytes are zeros.
    Never,
    /// A client may have created it and has not reported that yet.
    Maybe,
    /// The object was created: if it is missing, it is lost.
    Present,
    /// A member of a mirrored stripe that lacks writes which another member has: no client reads or writes it.
    Stale,
}

/// Presence of a component's objects: two bits per object, in stripe order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PresenceMap(Vec<u8>);

impl PresenceMap {
    pub fn new(objects: usize) -> PresenceMap {
        PresenceMap(vec![0; objects.div_ceil(4)])
    }

    pub fn get(&self, stripe: usize) -> Presence {
        match self
            .0
            .get(stripe / 4)
            .map_or(0, |byte| byte >> (stripe % 4 * 2) & 3)
        {
            0 => Presence::Never,
            1 => Presence::Maybe,
            2 => Presence::Present,
            _ => Presence::Stale,
        }
    }

    pub fn set(&mut self, stripe: usize, presence: Presence) {
        let bits = match presence {
            Presence::Never => 0,
            Presence::Maybe => 1,
            Presence::Present => 2,
            Presence::Stale => 3,
        };
        if stripe / 4 >= self.0.len() {
            self.0.resize(stripe / 4 + 1, 0);
        }
        let byte = &mut self.0[stripe / 4];
        *byte = *byte & !(3 << (stripe % 4 * 2)) | bits << (stripe % 4 * 2);
    }
}
