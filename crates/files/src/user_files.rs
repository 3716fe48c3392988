//! The files as one user sees them; each operation stands in `ops`.

use crate::run_to_end::RunToEnd;
use crate::shared_session::SharedSession;
use gupfs_proto::{Caller, FsError};
use std::future::Future;
use std::sync::Arc;

/// The file system with the credentials of one user. A clone is cheap.
#[derive(Clone)]
pub struct UserFiles {
    pub(crate) core: Arc<SharedSession>,
    pub(crate) caller: Caller,
    /// Of new files and directories.
    pub(crate) umask: u32,
}

/// Whether an operation follows a symbolic link that the path's last component names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FollowLinks {
    Yes,
    No,
}

impl UserFiles {
    /// The same user with another umask.
    pub fn with_umask(&self, umask: u32) -> UserFiles {
        UserFiles {
            umask,
            ..self.clone()
        }
    }

    /// The future of one operation: it runs to its end, also if its caller drops it.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        operation: impl Future<Output = Result<T, FsError>> + Send + 'static,
    ) -> RunToEnd<T> {
        RunToEnd::new(self.core.clone(), Box::pin(operation))
    }

    /// Whether writes clear setuid, setgid and capabilities of the file.
    pub(crate) fn kills_privileges(&self) -> bool {
        !self.caller.is_root()
    }
}
