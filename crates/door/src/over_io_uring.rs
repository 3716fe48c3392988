//! FUSE over io_uring: whether this machine permits it.
//!
//! The kernel offers it (since 6.14) only if its parameter `enable_uring` says so, which is off unless the
//! administrator turned it on; and some machines forbid rings altogether.

use std::{fs, io};

use crate::transport::ring;

/// The kernel's switch, for all mounts made from then on.
pub const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// What this machine permits.
#[derive(Debug)]
pub enum Support {
    Ready,
    /// `SWITCH` says no.
    SwitchedOff,
    /// This kernel cannot (before 6.14, or built without).
    KernelLacks,
    /// This process may not have rings, or not of the kind that is needed (sysctl `kernel.io_uring_disabled`, a seccomp
    /// filter, a container).
    RingsRefused(io::Error),
}

/// Asks the kernel. Needs no rights.
pub fn support() -> Support {
    match fs::read_to_string(SWITCH) {
        Ok(value) if matches!(value.trim(), "Y" | "1") => match ring::unavailable() {
            None => Support::Ready,
            Some(error) => Support::RingsRefused(error),
        },
        Ok(_) => Support::SwitchedOff,
        Err(_) => Support::KernelLacks,
    }
}

/// Turns the switch on; needs root. It stays on until the machine restarts.
pub fn switch_on() -> io::Result<()> {
    fs::write(SWITCH, "Y")
}
