//! Probes the behaviours on the running kernel over /dev/fuse. Without the device, or the right to mount, the test is skipped.

mod kernel;
mod page;

/// The transport of this run of the tests.
const TRANSPORT: gupfs_fuse::FuseTransport = gupfs_fuse::FuseTransport::Device;
