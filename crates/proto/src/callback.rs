//! Callbacks: requests of a metadata server to a client, over the connection that the client opened.
//!
//! While a session has the write lease of a file (`MetaOp::BeginWrite`), only that session knows the file's current size, times
//! and objects. Before the server replies to another session about that file, it sends the lease holder a glimpse, or revokes the
//! lease. Several sessions may have concurrent write leases of a file; then each knows the size and times of its own writes.

use crate::error::FsError;
use crate::ids::{InodeId, OstId, OwnerEpoch, SessionId};
use crate::lease::LeaseRevocation;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CallbackRequest {
    /// Glimpse (as in Lustre): another session reads the file's attributes. The holder reports its current size, times and
    /// objects (`EndWrite` with `keep_lease`) and keeps the lease. It replies when the server has acknowledged the report.
    Glimpse { ino: InodeId },
    /// Another session is to write, truncate or set times. The holder finishes its writes under way, reports its attributes and
    /// releases the lease (`EndWrite` without `keep_lease`). It replies when the server has acknowledged that; a client without
    /// the lease replies at once.
    Revoke { ino: InodeId },
    /// These inodes have lost their last name; the client replies which of them it has open. The server rejects later opens of
    /// them, so that the client waits for its opens under way and for no others before it replies.
    CheckOpen { inodes: Vec<InodeId> },
    /// The server has granted the lock that the waiting request with number `acquire` asked for, with this grant sequence
    /// (`LockReply::grant_seq`). A client that has cancelled the request replies as well: its `Cancel` decides.
    LockGranted {
        session: SessionId,
        instance: OwnerEpoch,
        acquire: u64,
        grant_seq: u64,
    },
    // Since version 3.
    /// Leases of the session are void: the client drops what it knows by them, and replies. It replies also if it has none of them.
    RevokeLeases {
        session: SessionId,
        instance: OwnerEpoch,
        revocation: LeaseRevocation,
    },
    // Since version 4.
    /// Another session is to write the file beside the holder of its exclusive write lease. The holder finishes its writes under way,
    /// forgets what it knows by the lease, and makes it a concurrent one (`DowngradeWrite`). It replies when the server has
    /// acknowledged that; a client without the lease, or with a concurrent one, replies at once.
    Downgrade { ino: InodeId },
    // Since version 5.
    /// Members of this file's mirrored stripes on this OST are stale, and may be older than what the holder of the write lease has read or
    /// written. It uses them no more, and discards what it has read from them and not returned yet; it replies at once.
    LeaveOut { ino: InodeId, ost: OstId },
    // Since version 6.
    /// These targets are about to be stopped in order. The client waits for none of them any more where a mirrored stripe has a member on another
    /// target, until they answer again; it replies at once.
    TargetsStop { osts: Vec<OstId> },
}

impl CallbackRequest {
    /// The version of the CALLBACK protocol that added `RevokeLeases`.
    pub const REVOKE_LEASES_SINCE: u8 = 3;

    /// The version of the CALLBACK protocol that added `Downgrade`.
    pub const DOWNGRADE_SINCE: u8 = 4;

    /// The version of the CALLBACK protocol that added `LeaveOut`.
    pub const LEAVE_OUT_SINCE: u8 = 5;

    /// The version of the CALLBACK protocol that added `TargetsStop`.
    pub const TARGETS_STOP_SINCE: u8 = 6;

    /// The callback's name in trace spans and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            CallbackRequest::Glimpse { .. } => "tell",
            CallbackRequest::Revoke { .. } => "give_back",
            CallbackRequest::CheckOpen { .. } => "removed",
            CallbackRequest::LockGranted { .. } => "granted",
            CallbackRequest::RevokeLeases { .. } => "revoke_leases",
            CallbackRequest::Downgrade { .. } => "downgrade",
            CallbackRequest::LeaveOut { .. } => "leave_out",
            CallbackRequest::TargetsStop { .. } => "targets_stop",
        }
    }
}

pub type CallbackReply = Result<CallbackReplyBody, FsError>;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CallbackReplyBody {
    Done,
    /// To `CheckOpen`: for each inode, in the same order, whether this client has it open. The client sends `MetaOp::Forget` for
    /// those later.
    IsOpen(Vec<bool>),
}
