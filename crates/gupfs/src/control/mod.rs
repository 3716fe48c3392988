//! # control: how other commands talk to a running process
//!
//! Owns   the socket `control.sock` in a store's `run` or, for a mount without a store, in a place of its own; its questions
//!        and answers (one JSON object a line), finding the process that a path belongs to.
//! Never  decides what an answer is.
//! Enter  at `serve` for the process that runs, at `ControlTarget::find` and `ControlTarget::request` for the others.
//!
//! Who may connect is decided by the directory `run`, which only its owner may enter (0700).

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

/// A path to the socket that is short however deep the store lies: a socket's address holds 107 bytes. It is good as
/// long as the descriptor that comes with it is open.
fn address(run: &Path) -> std::io::Result<(OwnedFd, PathBuf)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(run, flags, Mode::empty())?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd()));
    Ok((dir, path))
}
