//! # connection: the kernel's side of a mount, and how to cut it
//!
//! Owns   the control files of fusectl.
//! Never  unmounts: a connection that was aborted is still mounted, and every use of it fails.
//! Enter  at `Control::open`.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};

const ROOT: &str = "/sys/fs/fuse/connections";

/// The kernel's number of a connection; it is used again after the mount is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub u32);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The control files of one connection. Opened while the mount lives, they never act on a later mount that got the
/// same number.
#[derive(Debug)]
pub struct Control {
    id: ConnectionId,
    abort: File,
}

impl Control {
    /// Mounts fusectl if it is not there and we may.
    pub fn open(id: ConnectionId) -> io::Result<Control> {
        let abort = directory(id).join("abort");
        let open = || OpenOptions::new().write(true).open(&abort);
        let abort = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                show_connections()?;
                open()?
            }
            other => other?,
        };
        Ok(Control { id, abort })
    }

    /// What another process opened and handed over: its `abort` file.
    pub fn handed_over(id: ConnectionId, abort: OwnedFd) -> Control {
        let abort = abort.into();
        Control { id, abort }
    }

    /// The `abort` file, to hand over.
    pub fn hand_over(&self) -> io::Result<OwnedFd> {
        self.abort.try_clone().map(OwnedFd::from)
    }

    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// If the mount, or what is left of it, is there still: until then nobody else gets its number.
    pub fn exists(&self) -> io::Result<bool> {
        Ok(self.abort.metadata()?.nlink() > 0)
    }

    /// Ends the connection: requests that wait fail, the reactors end, every later use fails. Does nothing if the
    /// mount is gone already.
    pub fn abort(&self) -> io::Result<()> {
        (&self.abort).write_all(b"1")
    }

    /// Requests that programs wait for now.
    pub fn waiting(&self) -> io::Result<u64> {
        let text = std::fs::read_to_string(directory(self.id).join("waiting"))?;
        text.trim().parse().map_err(io::Error::other)
    }
}

fn directory(id: ConnectionId) -> PathBuf {
    Path::new(ROOT).join(id.to_string())
}

fn show_connections() -> io::Result<()> {
    // An empty directory is what there is without fusectl, or without any connection.
    let mounted =
        crate::mountinfo::at(Path::new(ROOT))?.is_some_and(|mount| mount.kind == "fusectl");
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
