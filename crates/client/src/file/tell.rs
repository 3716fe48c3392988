//! Our word on a held file, to the metadata server.

use super::table::File;
use crate::answer;
use crate::service::Client;
use gupfs_proto::meta::{Op, SetAttr, SetTime};
use gupfs_proto::{Caller, Refusal};

impl Client {
    /// Tells what was not told, and goes on holding the file. The caller has `telling`.
    pub(crate) async fn tell(&self, inode: &File) -> Result<(), Refusal> {
        let due = {
            let state = inode.state();
            state.marked && state.is_untold()
        };
        if due {
            self.end_write(inode, true).await?;
        }
        Ok(())
    }

    /// Ends the holding: from here on the server's word counts. The caller has the whole file, and `telling`.
    pub(super) async fn let_go(&self, inode: &File) -> Result<(), Refusal> {
        if inode.state().marked {
            self.end_write(inode, false).await?;
        }
        Ok(())
    }

    async fn end_write(&self, inode: &File, keep: bool) -> Result<(), Refusal> {
        self.learn(inode).await?;
        let word = inode.state().word(keep);
        let op = Op::EndWrite {
            ino: inode.ino,
            written: word.written.clone(),
            keep,
        };
        let attr = answer::changed("end_write", self.ask(&Caller::root(), op).await?)?;
        let mut state = inode.state();
        state.heard(&word);
        if !keep {
            // Before it can be seen: answers that are under way may be older than our word.
            self.table.count_no_more(inode.ino);
            state.given_back(attr);
        }
        if let Some(attr) = attr {
            state.said(attr);
        }
        Ok(())
    }

    /// The access time of a file that is not held, told when it is closed: reading alone makes no file held.
    pub(super) async fn tell_atime(&self, inode: &File) -> Result<(), Refusal> {
        let _telling = inode.telling.lock().await;
        let (atime, ctime) = {
            let state = inode.state();
            (state.atime, state.base().map(|base| base.ctime))
        };
        let Some(atime) = atime else { return Ok(()) };
        let set = SetAttr {
            atime: Some(SetTime::To(atime)),
            // Reading does not change the inode: its ctime stays.
            ctime,
            ..SetAttr::default()
        };
        let op = Op::SetAttr {
            ino: inode.ino,
            set,
        };
        let attr = answer::changed("setattr", self.ask(&Caller::root(), op).await?)?;
        let mut state = inode.state();
        state.atime = None;
        if let Some(attr) = attr {
            state.note(attr);
        }
        Ok(())
    }
}
