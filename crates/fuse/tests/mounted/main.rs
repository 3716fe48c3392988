//! Tests of this crate against the real kernel: file systems mounted in temporary directories.
//!
//! These run over /dev/fuse; `over_io_uring` runs the same over io_uring.
//!
//! Needs /dev/fuse and the right to mount; without the device every test is skipped.

// Tests run on the real clock, not on the simulated platform.
#![allow(clippy::disallowed_methods)]

/// The transport of this run of the tests.
const TRANSPORT: gupfs_fuse::FuseTransport = gupfs_fuse::FuseTransport::Device;

/// Worker threads read the requests, not an event loop of the test.
const EVENT_LOOP: bool = false;

#[path = "../../examples/memfs/fs/mod.rs"]
mod memfs;

mod disk_waits;
mod faulty_fs;
mod files;
mod gated_fs;
mod lifecycle;
mod lock_waits;
mod notifications;
mod one_file;
mod reply_deadlines;
mod requests;
mod shared_mapping;
mod test_mount;
