//! # transport: how messages reach this process and replies reach the kernel
//!
//! Owns   the descriptors of /dev/fuse, the rings, and the memory shared with the kernel.
//! Never  parses a message.
//! Enter  at `Device`, at `ring`.

mod device;
pub(crate) mod ring;

pub(crate) use device::{Device, DeviceRead};

/// The transport of requests and replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FuseTransport {
    /// Rings if the kernel offers them and permits them to this process, else the device.
    #[default]
    Auto,
    /// /dev/fuse: one `read` per request, one `write` per reply.
    Device,
    /// FUSE over io_uring: one system call submits replies and fetches requests, on the CPU on which the calling program runs.
    /// If it is not available, mounting fails. See `over_io_uring`.
    IoUring,
}
