//! The end of an open file: with the last writer the holding ends, and the server's word counts again.

use super::table::File;
use crate::service::Client;
use gupfs_proto::Refusal;
use std::sync::Arc;

impl Client {
    /// The last descriptor and mapping of an open file are gone. When this is answered, the server knows what was
    /// written; until then everybody who asks here is told right. Releasing twice does nothing.
    ///
    /// # Errors
    /// When the server could not be told: the file stays held here, and is told of again at `stop`.
    pub async fn release(self: &Arc<Self>, id: u64) -> Result<(), Refusal> {
        let Some(file) = self.handles.remove(id) else {
            return Ok(());
        };
        self.unlock_at_release(id).await;
        let inode = &file.inode;
        let (last, last_writer) = {
            let state = inode.state();
            (state.handles == 0, state.writers == 0)
        };
        let mut result = Ok(());
        if last_writer {
            result = self.end_holding(inode, false).await;
        }
        if last && result.is_ok() && self.must_count(&file).is_ok() {
            result = self.tell_atime(inode).await;
        }
        if let Err(refusal) = &result {
            tracing::warn!(ino = %inode.ino, %refusal, "the end of writing could not be told");
            inode.state().errors.keep(refusal.clone());
        }
        let ino = inode.ino;
        drop(file);
        let gone = self.ledger.lock().closed(ino);
        self.tell_gone(gone);
        self.sync_left_if_many();
        result
    }

    /// `even_if_open`: the session ends.
    pub(crate) async fn end_holding(
        &self,
        inode: &File,
        even_if_open: bool,
    ) -> Result<(), Refusal> {
        if !inode.state().marked {
            return Ok(());
        }
        let _all = inode.ranges.whole().await;
        let _telling = inode.telling.lock().await;
        // Somebody may have opened it for writing while we waited.
        if inode.state().writers > 0 && !even_if_open {
            return Ok(());
        }
        // Whoever holds the file next does not know of it.
        match self.cut_leftovers(inode).await {
            Err(refusal) if even_if_open => {
                tracing::warn!(ino = %inode.ino, %refusal, "bytes behind the file's end stay");
            }
            cut => cut?,
        }
        self.let_go(inode).await
    }
}
