//! FUSE over io_uring: whether this machine permits it.
//!
//! The kernel offers it (since 6.14) only if its parameter `enable_uring` says so, which is off unless the administrator
//! turned it on; and some machines forbid rings altogether.

use std::{fmt, fs, io};

use crate::limits::RING_REACTORS_MAX;
use crate::transport::ring;

/// The kernel's switch, for all mounts made from then on.
pub const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Kernels before it lose a page with every large request: "missing copy_finish in fuse-over-io-uring argument copies" was
/// mended there.
const MENDED: [u32; 3] = [6, 18, 3];

/// What this machine permits.
#[derive(Debug)]
pub enum Support {
    Ready,
    /// `SWITCH` says no.
    SwitchedOff,
    /// This kernel cannot (before 6.14, or built without).
    KernelLacks,
    /// It can, and loses memory (before 6.18.3): only for who asks for it.
    KernelLeaks,
    /// This process may not have rings, or not of the kind that is needed (sysctl `kernel.io_uring_disabled`, a seccomp
    /// filter, a container).
    RingsRefused(io::Error),
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Support::Ready => f.write_str("permitted"),
            Support::SwitchedOff => write!(f, "switched off (as root: echo Y > {SWITCH})"),
            Support::KernelLacks => f.write_str("this kernel cannot (Linux 6.14 or newer can)"),
            Support::KernelLeaks => {
                f.write_str("this kernel loses memory that way (Linux 6.18.3 or newer does not)")
            }
            Support::RingsRefused(error) => write!(f, "this process may not have rings: {error}"),
        }
    }
}

/// Asks the kernel. Needs no rights.
pub fn support() -> Support {
    match fs::read_to_string(SWITCH) {
        Ok(value) if matches!(value.trim(), "Y" | "1") => match ring::unavailable() {
            None if version() < MENDED => Support::KernelLeaks,
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

/// Descriptors that the rings of one mount need.
pub fn descriptors() -> usize {
    // A ring and what wakes it, for each thread.
    2 * ring::possible_cpus().map_or(0, |cpus| cpus.min(RING_REACTORS_MAX))
}

fn version() -> [u32; 3] {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut numbers = numbers.map(|number| number.parse().unwrap_or(0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}
