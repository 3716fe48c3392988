//! Who asks, and for which node.

use std::fmt;
use std::sync::Arc;

use crate::buffer::Scratch;
use crate::lane::Kit;
use crate::transport::ring::Hold;
use crate::waits::Interrupted;
use crate::wire::{Groups, Header};
use crate::{NodeId, Unique};

/// What every request carries beside its own fields. Over io_uring its answer waits until this is dropped.
pub struct Call {
    pub unique: Unique,
    /// What the request is about; for names, the directory.
    pub node: NodeId,
    pub uid: u32,
    pub gid: u32,
    /// The thread that asks; 0 if it lives in another pid namespace, or if the kernel asks by itself.
    pub pid: u32,
    /// Groups that matter for a new object (CREATE_SUPP_GROUP): the directory's, if the caller is a member.
    pub groups: Groups,
    kit: Arc<Kit>,
    /// If it came through a ring: the answer is given when this call and what was made of it are dropped.
    hold: Option<Hold>,
}

impl Call {
    pub(crate) fn new(header: &Header, groups: Groups, kit: Arc<Kit>, hold: Option<Hold>) -> Call {
        let Header {
            unique,
            node,
            uid,
            gid,
            pid,
            ..
        } = *header;
        Call {
            unique,
            node,
            uid,
            gid,
            pid,
            groups,
            kit,
            hold,
        }
    }

    /// Ready when the program got a signal while it waits for this answer. See `Interrupted`.
    pub fn interrupted(&self) -> Interrupted {
        Interrupted::new(self.unique, self.kit.waits.clone())
    }

    /// If the program has got a signal by now.
    pub fn is_interrupted(&self) -> bool {
        self.kit.waits.is_interrupted(self.unique)
    }

    /// Memory to answer a READ from. The first of a request that came through a ring is the memory that the kernel takes
    /// the answer from, so that nothing is copied.
    pub fn scratch(&self, size: usize) -> Scratch {
        let hold = self.hold.as_ref().filter(|hold| size <= hold.capacity());
        if let Some(lent) = hold.and_then(Hold::lend) {
            return Scratch::of_lent(lent, size);
        }
        Scratch::new(size, self.kit.pool.clone())
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call {
            unique,
            node,
            uid,
            gid,
            pid,
            groups,
            kit: _,
            hold: _,
        } = self;
        write!(
            f,
            "Call({} node {node} by uid {uid} gid {gid} {groups:?} pid {pid})",
            unique.0
        )
    }
}
