//! The tests of `mounted` over io_uring. On a host that does not permit it every test is skipped.

// Tests run on the real clock, not on the simulated platform.
#![allow(clippy::disallowed_methods)]

/// The transport of this run of the tests.
const TRANSPORT: gupfs_fuse::FuseTransport = gupfs_fuse::FuseTransport::IoUring;

/// Worker threads read the requests, not an event loop of the test.
const EVENT_LOOP: bool = false;

#[path = "../../examples/memfs/fs/mod.rs"]
mod memfs;

mod disk_reads;
mod ring_entries;

#[path = "../mounted/faulty_fs.rs"]
mod faulty_fs;
#[path = "../mounted/files.rs"]
mod files;
#[path = "../mounted/gated_fs.rs"]
mod gated_fs;
#[path = "../mounted/lifecycle.rs"]
mod lifecycle;
#[path = "../mounted/lock_waits.rs"]
mod lock_waits;
#[path = "../mounted/notifications.rs"]
mod notifications;
#[path = "../mounted/one_file.rs"]
mod one_file;
#[path = "../mounted/reply_deadlines.rs"]
mod reply_deadlines;
#[path = "../mounted/requests.rs"]
mod requests;
#[path = "../mounted/shared_mapping.rs"]
mod shared_mapping;
#[path = "../mounted/test_mount.rs"]
mod test_mount;
