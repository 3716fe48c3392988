//! Learning what objects there are, and their blocks.

use super::ObjectIo;
use crate::inodes::ActiveInode;
use crate::join;
use gupfs_proto::FsError;

impl ObjectIo {
    /// Sends a stat for each object whose blocks or existence are not known.
    pub async fn stat_unknown(&self, inode: &ActiveInode) -> Result<(), FsError> {
        let (lease, unknown) = {
            let state = inode.state();
            (state.any_lease_number(), state.objects.unknown(inode.ino))
        };
        if unknown.is_empty() {
            return Ok(());
        }
        let asked = unknown.into_iter().map(|(ost, object)| async move {
            let stat = self.osts.stat(ost, object).await?;
            Ok((object, stat))
        });
        for found in join::all(asked.collect()).await {
            let (object, stat) = found?;
            inode.state().learned(lease, object, stat);
        }
        Ok(())
    }
}
