//! The origin of a piece of work: the session and the operation for which the server does it.

use gupfs_proto::SessionId;

/// The session number under which the metadata server itself sends requests to OSTs; clients' session numbers are above it.
pub const MDS_SESSION: SessionId = SessionId(0);

/// The session and operation that a wait, a request to an OST or a change belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestOrigin {
    pub session: SessionId,
    pub op: &'static str,
}

impl RequestOrigin {
    /// Work of the server itself.
    pub fn server(op: &'static str) -> RequestOrigin {
        RequestOrigin {
            session: MDS_SESSION,
            op,
        }
    }
}
