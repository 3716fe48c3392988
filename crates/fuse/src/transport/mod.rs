//! # transport: how messages come and go
//!
//! Owns   the descriptors of /dev/fuse, the rings and the memory that the kernel shares with us.
//! Never  looks into a message.
//! Enter  at `Device`, at `ring`.

mod device;
pub(crate) mod ring;

pub(crate) use device::{Device, Received};
