//! Arguments that the calls of all programs share.

use gupfs_client::OpenFileFlags;
use gupfs_proto::meta::{AccessMode, CreateMode, OpenMode};
use gupfs_proto::{Caller, Name};

/// The largest file that is stored in one object; a larger one is striped.
pub const ONE_OBJECT: u64 = 128 << 10;

/// The user of all programs.
pub fn caller() -> Caller {
    Caller::new(1000, 1000, [])
}

/// The name that consists of one letter, by its number.
pub fn name(number: u8) -> Name {
    Name::new(&[b'a' + number]).expect("a short name")
}

/// The mode of new files and directories.
pub fn create_mode() -> CreateMode {
    CreateMode {
        mode: 0o755,
        umask: 0,
    }
}

/// Opens for reading and writing.
pub fn read_write() -> OpenMode {
    OpenMode {
        access: AccessMode::READ | AccessMode::WRITE,
        truncate: false,
        kill_privileges: false,
    }
}

/// No open flags.
pub fn no_flags() -> OpenFileFlags {
    OpenFileFlags::default()
}
