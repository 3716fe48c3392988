//! What a request must show.

use gupfs_proto::InodeId;
use gupfs_proto::capability::Rights;
use gupfs_proto::data::Op;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// That it comes from the metadata server.
    Server,
    /// That its session lives.
    Pass,
    /// And what it may do with this file.
    File(InodeId, Rights),
}

impl Need {
    pub fn of(op: &Op) -> Need {
        let file = |rights| match op.file() {
            Some(ino) => Need::File(ino, rights),
            None => Need::Server,
        };
        match op {
            Op::Read { .. } | Op::Seek { .. } | Op::Stat { .. } => file(Rights::READ),
            Op::Write { .. } | Op::Cut { .. } | Op::Allocate { .. } | Op::Zero { .. } => {
                file(Rights::WRITE)
            }
            // They show nothing of a file and change nothing, and a sync goes to the objects of many.
            Op::Sync { .. } | Op::Space => Need::Pass,
            Op::Remove { .. }
            | Op::SetAside { .. }
            | Op::Confirm { .. }
            | Op::List { .. }
            | Op::Fence { .. } => Need::Server,
        }
    }
}
