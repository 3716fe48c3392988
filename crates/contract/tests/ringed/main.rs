//! The same over io_uring. Where that is not permitted the test says so.

#[path = "../facts/kernel.rs"]
mod kernel;

/// The way requests come in this run of the tests.
const TRANSPORT: gupfs_fuse::Transport = gupfs_fuse::Transport::IoUring;
