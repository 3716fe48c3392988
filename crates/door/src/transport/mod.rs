//! # transport: how messages come and go
//!
//! Owns   the descriptors of /dev/fuse.
//! Never  looks into a message.
//! Enter  at `Device`.

mod device;

pub(crate) use device::{Device, Received};
