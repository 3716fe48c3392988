//! The seven kinds of file, for tables that try each.

use crate::fixtures::{dir, file};
use crate::outcome::{Outcome, failed, same, skipped};
use crate::sys::*;

/// A kind of file that a name can lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Dir,
    Symlink,
    Fifo,
    Socket,
    Char,
    Block,
}

impl Kind {
    pub const ALL: [Kind; 7] = [
        Kind::File,
        Kind::Dir,
        Kind::Symlink,
        Kind::Fifo,
        Kind::Socket,
        Kind::Char,
        Kind::Block,
    ];

    /// All but directories: what unlink and link take.
    pub const LEAVES: [Kind; 6] = [
        Kind::File,
        Kind::Symlink,
        Kind::Fifo,
        Kind::Socket,
        Kind::Char,
        Kind::Block,
    ];

    /// As it appears in a check's name.
    pub fn word(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Dir => "dir",
            Kind::Symlink => "symlink",
            Kind::Fifo => "fifo",
            Kind::Socket => "socket",
            Kind::Char => "char-device",
            Kind::Block => "block-device",
        }
    }

    /// The type bits of st_mode.
    pub fn mode(self) -> u32 {
        match self {
            Kind::File => S_IFREG,
            Kind::Dir => S_IFDIR,
            Kind::Symlink => S_IFLNK,
            Kind::Fifo => S_IFIFO,
            Kind::Socket => S_IFSOCK,
            Kind::Char => S_IFCHR,
            Kind::Block => S_IFBLK,
        }
    }

    /// The d_type of a directory entry.
    pub fn entry_type(self) -> u8 {
        match self {
            Kind::File => DT_REG,
            Kind::Dir => DT_DIR,
            Kind::Symlink => DT_LNK,
            Kind::Fifo => DT_FIFO,
            Kind::Socket => DT_SOCK,
            Kind::Char => DT_CHR,
            Kind::Block => DT_BLK,
        }
    }

    /// A new file of this kind. A symbolic link points at a name that does not exist; a device is the null device, so
    /// that no accident can touch a disk.
    #[track_caller]
    pub fn make(self, name: &str) -> Outcome {
        match self {
            Kind::File => return file(name, b"bytes"),
            Kind::Dir => return dir(name),
            Kind::Symlink => symlink("no-such-target", name)?,
            Kind::Fifo => mkfifo(name, 0o644)?,
            Kind::Socket => mknod(name, S_IFSOCK | 0o644, 0)?,
            Kind::Char | Kind::Block if geteuid() != 0 => {
                return skipped("needs root, to make devices");
            }
            Kind::Char => mknod(name, S_IFCHR | 0o644, makedev(1, 3))?,
            // Block major 0 is reserved: nothing can ever open it.
            Kind::Block => mknod(name, S_IFBLK | 0o644, makedev(0, 77))?,
        }
        Ok(())
    }

    /// The name leads to this kind of file.
    #[track_caller]
    pub fn is_at(self, name: &str) -> Outcome {
        match lstat(name) {
            Ok(facts) => same(&format!("type bits of {name}"), facts.kind(), self.mode()),
            Err(refused) => Err(failed(
                format!("{name} is a {}", self.word()),
                refused.errno.to_string(),
            )),
        }
    }
}
