//! What a file system learns about its mount.

use std::path::PathBuf;

use crate::connection::ConnectionId;
use crate::mountinfo::DeviceNumber;
use crate::notify::Notifier;
use crate::transport::FuseTransport;
use crate::wire::InitFlags;

/// Information about a mount that the file system receives.
#[derive(Clone)]
pub struct MountInfo {
    pub mountpoint: PathBuf,
    pub device: DeviceNumber,
    pub connection: ConnectionId,
    pub negotiated: Negotiated,
    pub notifier: Notifier,
}

impl MountInfo {
    /// The transport in use: `Device` or `IoUring`.
    pub fn transport(&self) -> FuseTransport {
        match self.negotiated.has(InitFlags::OVER_IO_URING) {
            true => FuseTransport::IoUring,
            false => FuseTransport::Device,
        }
    }
}

/// The result of the negotiation at INIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiated {
    /// The kernel's minor version; messages follow the smaller of it and `MINOR`.
    pub kernel_minor: u32,
    /// The flags that the kernel offered.
    pub offered: InitFlags,
    /// The flags in effect.
    pub flags: InitFlags,
    pub max_write: u32,
    /// The requested value, limited by the kernel's limit for all mounts (see `pages_limit`).
    pub max_pages: u16,
    pub max_readahead: u32,
}

impl Negotiated {
    pub fn has(&self, flags: InitFlags) -> bool {
        self.flags.contains(flags)
    }
}
