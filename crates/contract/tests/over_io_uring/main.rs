//! Probes the behaviours over io_uring. On a host that does not permit it the test is skipped.

#[path = "../behaviours/kernel.rs"]
mod kernel;

/// The transport of this run of the tests.
const TRANSPORT: gupfs_fuse::FuseTransport = gupfs_fuse::FuseTransport::IoUring;
