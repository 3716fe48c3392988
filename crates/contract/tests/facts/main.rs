//! The facts, tried on the running kernel over /dev/fuse. Without the device, or the right to mount, the test says so.

mod kernel;

/// The way requests come in this run of the tests.
const TRANSPORT: gupfs_fuse::Transport = gupfs_fuse::Transport::Device;
