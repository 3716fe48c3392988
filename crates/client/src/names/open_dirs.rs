//! Opening directories.

use super::Namespace;
use crate::reply;
use gupfs_proto::meta::{AccessMode, MetaOp, OpenMode};
use gupfs_proto::{Caller, FsError, InodeId};

impl Namespace {
    pub async fn open_dir(&self, caller: &Caller, dir: InodeId) -> Result<(), FsError> {
        let access = AccessMode::READ;
        let open = OpenMode {
            access,
            truncate: false,
            kill_privileges: false,
        };
        let op = MetaOp::Open { ino: dir, open };
        let opened = reply::opened("open", self.mds.call(caller, op).await?)?;
        let given = opened.capability.as_ref();
        let open_capability = given.and_then(|given| given.open_capability(dir, access));
        let session = self.mds.id();
        self.open_dirs.add(
            dir,
            open_capability.map(|open_capability| (session, open_capability)),
        );
        Ok(())
    }

    pub fn close_dir(&self, dir: InodeId) {
        self.open_dirs.remove(dir);
    }
}
