//! # connection: the kernel's side of a mount, and how to abort it
//!
//! Owns   the control files of fusectl.
//! Never  unmounts: an aborted connection is still mounted, and every use of it fails.
//! Enter  at `ConnectionControl::open`.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};

const ROOT: &str = "/sys/fs/fuse/connections";

/// The kernel's number of a connection; the kernel reuses it after the mount is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub u32);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The control files of one connection. If they are opened while the mount exists, they never act on a later mount with the
/// same number.
#[derive(Debug)]
pub struct ConnectionControl {
    id: ConnectionId,
    abort: File,
}

impl ConnectionControl {
    /// Opens the control files. Mounts fusectl if it is not mounted and this process may.
    ///
    /// # Errors
    /// NotFound if no connection has this number; PermissionDenied if this process may not open its files; the error of mount(2) if
    /// fusectl is not mounted and cannot be.
    pub fn open(id: ConnectionId) -> io::Result<ConnectionControl> {
        let abort = directory(id).join("abort");
        let open = || OpenOptions::new().write(true).open(&abort);
        let abort = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                mount_fusectl()?;
                open()?
            }
            other => other?,
        };
        Ok(ConnectionControl { id, abort })
    }

    /// From the `abort` file that another process opened and passed on.
    pub fn from_abort_file(id: ConnectionId, abort: OwnedFd) -> ConnectionControl {
        let abort = abort.into();
        ConnectionControl { id, abort }
    }

    /// A duplicate of the `abort` file, to pass to another process.
    ///
    /// # Errors
    /// EMFILE, ENFILE: no descriptor is free.
    pub fn clone_abort_file(&self) -> io::Result<OwnedFd> {
        self.abort.try_clone().map(OwnedFd::from)
    }

    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// Whether the connection still exists: until it is gone, no other mount gets its number.
    ///
    /// # Errors
    /// The error of fstat(2).
    pub fn exists(&self) -> io::Result<bool> {
        Ok(self.abort.metadata()?.nlink() > 0)
    }

    /// Aborts the connection: waiting requests fail, the workers end, and every later use fails. Does nothing if the mount is
    /// gone already.
    ///
    /// # Errors
    /// The error of write(2), such as EACCES; none if the connection has ended.
    pub fn abort(&self) -> io::Result<()> {
        (&self.abort).write_all(b"1")
    }

    /// Number of requests that programs currently wait for.
    ///
    /// # Errors
    /// NotFound if the connection has ended; the error of the read; InvalidData or Other if the file holds no number.
    pub fn waiting(&self) -> io::Result<u64> {
        let text = std::fs::read_to_string(directory(self.id).join("waiting"))?;
        text.trim().parse().map_err(io::Error::other)
    }
}

fn directory(id: ConnectionId) -> PathBuf {
    Path::new(ROOT).join(id.to_string())
}

fn mount_fusectl() -> io::Result<()> {
    // The directory is empty both without fusectl and without any connection.
    let mounted =
        crate::mountinfo::mount_at(Path::new(ROOT))?.is_some_and(|mount| mount.kind == "fusectl");
    if mounted {
        return Ok(());
    }
    mount(
        "fusectl",
        ROOT,
        "fusectl",
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
        None,
    )?;
    Ok(())
}
