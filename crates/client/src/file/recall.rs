//! A held file that another client looks at, or wants.

use crate::service::Client;
use gupfs_proto::{InodeId, Refusal};

impl Client {
    /// The server knows what was written here so far when this returns.
    pub(crate) async fn tell_of(&self, ino: InodeId) -> Result<(), Refusal> {
        let Some(inode) = self.table.find(ino) else {
            return Ok(());
        };
        // A write that is not answered yet need not be told, and one whose `BeginWrite` is not answered was not made.
        let is_due = {
            let state = inode.state();
            state.marked && state.is_untold()
        };
        if is_due {
            let _telling = inode.telling.lock().await;
            self.tell(&inode).await?;
        }
        Ok(())
    }

    /// The server has our last word on the file when this returns, and another may hold it.
    pub(crate) async fn give_back(&self, ino: InodeId) -> Result<(), Refusal> {
        let Some(inode) = self.table.find(ino) else {
            return Ok(());
        };
        // Behind what is under way: a `BeginWrite` whose answer is, too, and the write that it was for.
        let _all = inode.ranges.whole().await;
        let _telling = inode.telling.lock().await;
        if inode.state().marked {
            // Whoever holds the file next does not know of it, and it would show when the file grows.
            self.cut_leftovers(&inode).await?;
            self.let_go(&inode).await?;
        }
        Ok(())
    }
}
