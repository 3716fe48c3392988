//! syncfs(2), and fsync(2) of a directory.

use crate::run_to_end::RunToEnd;
use crate::user_files::UserFiles;

impl UserFiles {
    /// Everything that this session was answered survives a power loss.
    ///
    /// # Errors
    /// Those of the servers; that a target lost unsynced bytes.
    pub fn sync_all(&self) -> RunToEnd<()> {
        let core = self.core.clone();
        self.run(async move { core.client.sync_all().await })
    }

    /// Every answered change of names survives a power loss.
    ///
    /// # Errors
    /// The metadata server's.
    pub fn sync_names(&self) -> RunToEnd<()> {
        let core = self.core.clone();
        self.run(async move { core.client.fsync_dir().await })
    }
}
