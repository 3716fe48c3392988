//! The client's status report.

use crate::metrics::ClientCounts;
use crate::server_call::{CalledServer, ServerCall};
use gupfs_platform::BootTime;
use serde::Serialize;

/// The client's part of `gupfs status`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ClientStatus {
    pub session: u64,
    /// The newest change seen, and the newest change that is known to survive a power loss.
    pub seq: u64,
    pub durable: u64,
    /// Changes in the replay log: they may not be durable yet.
    #[serde(rename = "kept")]
    pub replayable_changes: usize,
    /// Open files (handles), the inodes they belong to, and how many of these have a write lease.
    pub open_files: usize,
    pub open_inodes: usize,
    #[serde(rename = "held_inodes")]
    pub leased_inodes: usize,
    /// Of these, the files that other clients may write at the same time.
    pub concurrently_leased_inodes: usize,
    /// Inodes that the kernel knows, and how many of them have no name any more.
    pub known_inodes: usize,
    pub orphans: usize,
    /// Leases on metadata: whether the server grants them to this session, and how many values this client answers by them.
    pub leases_accepted: bool,
    pub leased_values: usize,
    /// Inodes whose attributes the kernel may have by leases.
    pub kernel_attributes: usize,
    /// Files of which the kernel may have pages by leases.
    pub kernel_pages: usize,
    /// Bytes of files that this client keeps by leases.
    pub cached_bytes: usize,
    /// Bytes that programs have written and object servers do not have yet.
    pub unsent_bytes: usize,
    /// The space that targets keep for bytes which this client sends later.
    pub reservations: Vec<TargetReservationStatus>,
    #[serde(rename = "lanes_in_use")]
    pub slots_in_use: usize,
    /// Objects of closed files that were written and are not synced.
    #[serde(rename = "left_unsynced")]
    pub closed_unsynced: usize,
    /// At most `limits::STATUS_FILES` of the files that are open or have a write lease, by inode.
    pub files: Vec<FileStatus>,
    /// Pending calls, oldest first.
    #[serde(rename = "waiting")]
    pub pending_calls: Vec<PendingCallStatus>,
    #[serde(rename = "counted")]
    pub counts: ClientCounts,
}

/// What a target keeps for this client, and how much of it the unsent bytes will take.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TargetReservationStatus {
    pub ost: u16,
    pub reserved_bytes: u64,
    /// In whole blocks of 4 KiB.
    pub charged_bytes: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FileStatus {
    /// Hexadecimal, as in objects' names.
    pub ino: String,
    pub handles: u32,
    pub writers: u32,
    pub size: u64,
    /// This client has the write lease: its size, times and objects are authoritative.
    #[serde(rename = "held")]
    pub has_write_lease: bool,
    /// Other clients may have one, too.
    pub is_lease_concurrent: bool,
    /// The client has changes that it has not reported to the metadata server yet.
    #[serde(rename = "untold")]
    pub unreported: bool,
    pub unsynced_objects: usize,
}

/// A call that is not answered yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PendingCallStatus {
    /// "mds" or "ost3".
    #[serde(rename = "whom")]
    pub server: String,
    #[serde(rename = "what")]
    pub operation: &'static str,
    pub ino: Option<String>,
    pub for_ms: u64,
}

impl PendingCallStatus {
    pub(crate) fn of(call: &ServerCall, now: BootTime) -> PendingCallStatus {
        PendingCallStatus {
            server: match call.server {
                CalledServer::Mds => "mds".to_string(),
                CalledServer::Ost(ost) => format!("ost{ost}"),
            },
            operation: call.operation,
            ino: call.ino.map(|ino| format!("{:x}", ino.0)),
            for_ms: now.since(call.since).as_millis() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::{InodeId, OstId};

    #[test]
    fn a_pending_call_shows_its_server_and_its_age() {
        let call = ServerCall {
            server: CalledServer::Ost(OstId(2)),
            operation: "write",
            ino: Some(InodeId(0x5a)),
            since: BootTime(1_000_000),
        };
        let status = PendingCallStatus::of(&call, BootTime(3_000_000));
        assert_eq!((status.for_ms, status.server.as_str()), (2, "ost2"));
        assert_eq!(status.ino.as_deref(), Some("5a"));
    }
}
