//! One call to a server: what `gupfs status` lists while it is pending, and what an observer receives when it ends.

use gupfs_platform::BootTime;
use gupfs_proto::{InodeId, OstId};

/// The server that a call went to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CalledServer {
    Mds,
    Ost(OstId),
}

/// One call to a server: listed while it is pending, reported to the observer when it ends.
#[derive(Clone, Copy, Debug)]
pub struct ServerCall {
    pub server: CalledServer,
    pub operation: &'static str,
    /// The inode that the call is about; None for sessions, space and the like.
    pub ino: Option<InodeId>,
    pub since: BootTime,
}
