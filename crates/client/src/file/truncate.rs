//! truncate(2), ftruncate(2): the server cuts or grows; we tell it first what it does not know.

use super::OpenFile;
use super::table::File;
use crate::answer;
use crate::service::Client;
use gupfs_proto::limits::FILE_SIZE_MAX;
use gupfs_proto::meta::Op;
use gupfs_proto::{Attr, Caller, InodeId, Refusal};

impl Client {
    /// A new size. `by_handle`: through a file opened for writing, so permission was given then.
    pub async fn truncate(
        &self,
        caller: &Caller,
        ino: InodeId,
        to: u64,
        by_handle: bool,
        kill_privileges: bool,
    ) -> Result<Attr, Refusal> {
        let inode = self.table.pin(ino);
        let _all = inode.ranges.whole().await;
        self.resize(&inode, caller, to, by_handle, kill_privileges)
            .await
    }

    /// ftruncate(2): through a file that is open for writing, so permission was given then.
    ///
    /// # Errors
    /// `Stale` if the session was lost in which it was opened: what was written through it may be gone, and another's be there.
    pub async fn truncate_open(
        &self,
        caller: &Caller,
        file: &OpenFile,
        to: u64,
        kill_privileges: bool,
    ) -> Result<Attr, Refusal> {
        let _all = file.inode.ranges.whole().await;
        self.must_count(file)?;
        self.resize(&file.inode, caller, to, true, kill_privileges)
            .await
    }

    /// The caller has the whole file for itself.
    pub(super) async fn resize(
        &self,
        inode: &File,
        caller: &Caller,
        to: u64,
        by_handle: bool,
        kill_privileges: bool,
    ) -> Result<Attr, Refusal> {
        if to > FILE_SIZE_MAX {
            return Err(Refusal::TooLarge);
        }
        let _telling = inode.telling.lock().await;
        if to > inode.state().size {
            self.cut_leftovers(inode).await?;
        }
        if to > 0 || self.options.shared {
            // The server cuts what it knows of: objects made since, and a size beyond its own.
            self.tell(inode).await?;
        }
        let op = Op::Truncate {
            ino: inode.ino,
            to,
            by_handle,
            kill_privileges,
        };
        // The right of the open file is shown to a server that others ask too; alone, we looked at it ourselves.
        let us = Caller::root();
        let caller = if by_handle { &us } else { caller };
        let opened = answer::opened("truncate", self.ask(caller, op).await?)?;
        let attr = opened.attr;
        let mut state = inode.state();
        self.table.count_no_more(inode.ino);
        state.load(opened);
        state.took_privileges(kill_privileges);
        Ok(state.overlay(attr))
    }
}
