//! # control: how other commands talk to a running `gupfs up`
//!
//! Owns   the socket `DIR/run/control.sock`, its questions and answers (one JSON object a line), finding the store
//!        that a path belongs to.
//! Never  decides what an answer is.
//! Enter  at `serve` for the process that runs, at `Place::find` and `Place::ask` for the others.
//!
//! Who may connect is decided by the directory `run`, which only its owner may enter (0700).

mod ask;
mod place;
mod serve;

pub use ask::{Ask, Reply};
pub use place::Place;
pub use serve::{Answerer, Served, serve};

use crate::home::Home;
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

const SOCKET: &str = "control.sock";

/// A path to the socket that is short however deep the store lies: a socket's address holds 107 bytes. It is good as
/// long as the descriptor that comes with it is open.
fn address(home: &Home) -> std::io::Result<(OwnedFd, PathBuf)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(home.run(), flags, Mode::empty())?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd()));
    Ok((dir, path))
}
