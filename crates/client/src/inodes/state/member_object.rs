//! Where an object of a file is.

use gupfs_proto::{ObjectId, OstId, Presence};

/// One object of a file, and where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberObject {
    pub component: usize,
    pub index: usize,
    pub ost: OstId,
    pub object: ObjectId,
    pub presence: Presence,
}
