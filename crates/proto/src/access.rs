//! Access modes of opens, and the rights to a file's objects that follow from them.

use serde::{Deserialize, Serialize};

bitflags::bitflags! {
    /// Access mode of a file, as in access(2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
    pub struct AccessMode: u8 {
        const EXECUTE = 1;
        const WRITE = 2;
        const READ = 4;
        /// Of an open, together with WRITE: O_APPEND. Permission bits do not grant it.
        const APPEND = 8;
    }
}

bitflags::bitflags! {
    /// Rights to a file's objects.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
    pub struct Rights: u8 {
        const READ = 1;
        /// In a capability: only the session with the file's write lease gets it. In an open capability: the file was opened for
        /// writing.
        const WRITE = 2;
    }
}

impl Rights {
    /// The rights that an open with this access mode gives. A session that may write a file may read it: its client moves the
    /// bytes of a small file to objects when the file grows. A client must read a program to execute it.
    pub fn for_open(access: AccessMode) -> Rights {
        match access {
            access if access.contains(AccessMode::WRITE) => Rights::all(),
            access if access.intersects(AccessMode::READ | AccessMode::EXECUTE) => Rights::READ,
            _ => Rights::empty(),
        }
    }

    /// Whether these rights suffice for this access to an open file.
    pub fn allows(self, access: AccessMode) -> bool {
        match access.contains(AccessMode::WRITE) {
            true => self.contains(Rights::WRITE),
            false => self.contains(Rights::READ),
        }
    }
}
