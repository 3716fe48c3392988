//! The door against the real kernel: file systems mounted in temporary directories.
//!
//! These run over /dev/fuse, those of `ringed` are the same over io_uring.
//!
//! Needs /dev/fuse and the right to mount; without the device every test says so and does nothing.

// Tests stand outside the simulated world and wait by the real clock.
#![allow(clippy::disallowed_methods)]

/// The way requests come in this run of the tests.
const TRANSPORT: gupfs_fuse::Transport = gupfs_fuse::Transport::Device;

/// Who takes them: not an event loop of the test's.
const LOOPED: bool = false;

#[path = "../../examples/memfs/fs/mod.rs"]
mod memfs;

mod files;
mod gated;
mod in_time;
mod life;
mod map;
mod notices;
mod odd;
mod one_file;
mod requests;
mod rig;
mod waiters;
mod waits;
