//! Immutable and append-only files: the server decides and enforces; the session that holds the file gives it back first.

use crate::answer;
use crate::service::Client;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::meta::Op;
use gupfs_proto::{Attr, Caller, InodeId, Refusal};

impl Client {
    /// FS_IOC_SETFLAGS. What was written here before is the file's content; a later write asks the server again.
    pub async fn set_flags(
        &self,
        caller: &Caller,
        ino: InodeId,
        flags: InodeFlags,
    ) -> Result<Attr, Refusal> {
        let op = Op::SetFlags { ino, flags };
        let Some(inode) = self.table.find(ino) else {
            return answer::entry("set_flags", self.ask(caller, op).await?);
        };
        // The server asks every session for the file but the one that asks it.
        let _all = inode.ranges.whole().await;
        let _telling = inode.telling.lock().await;
        if inode.state().marked {
            self.cut_leftovers(&inode).await?;
            self.let_go(&inode).await?;
        }
        let attr = answer::entry("set_flags", self.ask(caller, op).await?)?;
        let mut state = inode.state();
        state.said(attr);
        Ok(state.overlay(attr))
    }
}
