//! # transport: how messages reach this process and replies reach the kernel
//!
//! Owns   the descriptors of /dev/fuse, the rings, and the memory shared with the kernel.
//! Never  parses a message.
//! Enter  at `Device`, at `ring`.

mod device;
pub(crate) mod ring;

pub(crate) use device::{Device, DeviceRead};
