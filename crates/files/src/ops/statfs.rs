//! statfs(2).

use crate::run_to_end::RunToEnd;
use crate::user_files::UserFiles;
use gupfs_client::FileSystemSpace;

impl UserFiles {
    /// The space of all targets.
    ///
    /// # Errors
    /// Those of the servers, if none answers.
    pub fn space(&self) -> RunToEnd<FileSystemSpace> {
        let this = self.clone();
        self.run(async move { this.core.client.statfs(&this.caller).await })
    }
}
