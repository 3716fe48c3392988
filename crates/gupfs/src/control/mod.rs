//! # control: how commands send requests to a running process
//!
//! Owns   the socket `control.sock` in the `run` directory of a store or, for a mount without a store, in a directory for the mount;
//!        its requests and replies (one JSON object a line); finding the process that serves a path.
//! Never  executes a request.
//! Enter  at `serve` in the serving process, at `ControlTarget::find` and `ControlTarget::request` in the commands.
//!
//! Only the owner of the process can connect: no other user can enter the directory of the socket (0700).

mod mounts;
mod replies;
mod request;
mod serve;
mod target;

pub use mounts::{make_base_of_mounts, make_run_of_mount, run_of_mount};
pub use replies::{OstSpace, Synced};
pub use request::{ControlReply, ControlRequest};
pub use serve::{CONNECTIONS_MAX, ControlHandler, ControlServer, serve};
pub use target::ControlTarget;

use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

const SOCKET: &str = "control.sock";

/// A path to the socket through a descriptor of its directory: an address holds only 107 bytes, and the directory's path may be longer.
/// The path is valid as long as the descriptor is open.
fn address(run: &Path) -> std::io::Result<(OwnedFd, PathBuf)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(run, flags, Mode::empty())?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd()));
    Ok((dir, path))
}
