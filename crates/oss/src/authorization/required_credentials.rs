//! The credentials that a request needs.

use gupfs_proto::InodeId;
use gupfs_proto::capability::Rights;
use gupfs_proto::data::DataOp;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequiredCredentials {
    /// Those of the metadata server.
    Server,
    /// A session capability.
    Session,
    /// A session capability, and an object capability with these rights to this file.
    File(InodeId, Rights),
}

impl RequiredCredentials {
    pub fn of(op: &DataOp) -> RequiredCredentials {
        let file = |rights| match op.ino() {
            Some(ino) => RequiredCredentials::File(ino, rights),
            None => RequiredCredentials::Server,
        };
        match op {
            DataOp::Read { .. } | DataOp::Seek { .. } | DataOp::Stat { .. } => file(Rights::READ),
            DataOp::Write { .. }
            | DataOp::NumberedWrite { .. }
            | DataOp::ReservedWrite { .. }
            | DataOp::MirroredWrite { .. }
            | DataOp::RelayedWrite { .. }
            | DataOp::Truncate { .. }
            | DataOp::Allocate { .. }
            | DataOp::Zero { .. } => file(Rights::WRITE),
            // They reveal and change nothing of a file, and one sync covers objects of many files.
            DataOp::Sync { .. }
            | DataOp::Space
            | DataOp::Reserve { .. }
            | DataOp::AcceptRelays { .. } => RequiredCredentials::Session,
            DataOp::Remove { .. }
            | DataOp::Quarantine { .. }
            | DataOp::Confirm { .. }
            | DataOp::List { .. }
            | DataOp::Fence { .. }
            | DataOp::FenceObject { .. }
            | DataOp::Digest { .. }
            | DataOp::Repair { .. }
            | DataOp::Damaged { .. } => RequiredCredentials::Server,
        }
    }
}
