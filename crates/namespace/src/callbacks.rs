//! Callbacks to lease holders: their results, for the operation that needed them.

use gupfs_proto::{InodeId, SessionId};
use std::collections::BTreeSet;

/// The results of the callbacks that the driver made to lease holders for the current operation.
#[derive(Clone, Debug, Default)]
pub struct CallbackResults {
    reported: BTreeSet<InodeId>,
    unreachable: BTreeSet<(InodeId, SessionId)>,
}

impl CallbackResults {
    /// The file's lease holder has reported its attributes since the operation arrived. The operation need not see later writes.
    pub fn add_report(&mut self, ino: InodeId) {
        self.reported.insert(ino);
    }

    /// This lease holder is dead and the file's objects cannot be queried now: operations do not wait for its report.
    pub fn add_unreachable(&mut self, ino: InodeId, session: SessionId) {
        self.unreachable.insert((ino, session));
    }

    /// Whether the file's lease holder has reported its attributes.
    pub(crate) fn has_report(&self, ino: InodeId) -> bool {
        self.reported.contains(&ino)
    }

    /// Whether a lease holder of the file is unreachable.
    pub(crate) fn has_unreachable(&self, ino: InodeId) -> bool {
        self.unreachable.iter().any(|(of, _)| *of == ino)
    }

    /// Whether this lease holder of the file is unreachable.
    pub(crate) fn is_unreachable(&self, ino: InodeId, session: SessionId) -> bool {
        self.unreachable.contains(&(ino, session))
    }
}
