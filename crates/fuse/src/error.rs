//! Why a mount failed.

use std::path::PathBuf;

use thiserror::Error;

use crate::Errno;
use crate::limits::{MAJOR, MINOR_MIN};
use crate::wire::{InitFlags, Malformed};

#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    #[error("cannot use /dev/fuse: {0}")]
    Device(#[source] Errno),
    #[error("cannot find {path}: {errno}")]
    Path { path: PathBuf, errno: Errno },
    #[error("cannot mount at {path}: {errno}")]
    Mount { path: PathBuf, errno: Errno },
    /// Only without root.
    #[error("fusermount3 did not mount at {path}: {why}")]
    Fusermount { path: PathBuf, why: String },
    #[error("the mount ended before it was ready")]
    Gone,
    #[error("cannot parse the kernel's first message: {0}")]
    Malformed(#[source] Malformed),
    #[error("the kernel's first request has opcode {0}, expected INIT")]
    NotInit(u32),
    #[error(
        "this kernel has FUSE protocol {major}.{minor}; gupfs needs {MAJOR}.{MINOR_MIN} or newer"
    )]
    Version { major: u32, minor: u32 },
    #[error("this kernel's FUSE lacks {}", names(.0))]
    KernelLacks(InitFlags),
    #[error("FUSE over io_uring is not available: {0}")]
    NoIoUring(String),
    #[error("cannot create an io_uring ring: {0}")]
    Ring(#[source] std::io::Error),
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
}

fn names(flags: &InitFlags) -> String {
    let names: Vec<&str> = flags.iter_names().map(|(name, _)| name).collect();
    names.join(", ")
}
