//! FUSE over io_uring: whether this host permits it.
//!
//! The kernel offers it (since 6.14) only if its parameter `enable_uring` is set, which is off unless the administrator turned
//! it on. Some hosts forbid io_uring altogether.

use std::{fmt, fs, io};

use crate::limits::RING_WORKERS_MAX;
use crate::transport::ring;

/// The kernel's parameter; it affects mounts that are made after a change.
pub const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// Kernels before this version leak a page with every large request: "missing copy_finish in fuse-over-io-uring argument
/// copies" fixed it.
const LEAK_FIXED_IN: [u32; 3] = [6, 18, 3];

/// What this host permits.
#[derive(Debug)]
pub enum UringSupport {
    Ready,
    /// `PARAMETER` is off.
    Disabled,
    /// The kernel does not have it (before 6.14, or built without).
    NotInKernel,
    /// The kernel has it and leaks memory (before 6.18.3): used only if the configuration requests it.
    LeaksMemory,
    /// This process may not create rings, or not with the needed features (sysctl `kernel.io_uring_disabled`, a seccomp filter,
    /// a container).
    RingsRefused(io::Error),
}

impl fmt::Display for UringSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UringSupport::Ready => f.write_str("permitted"),
            UringSupport::Disabled => {
                write!(f, "disabled (to enable it, as root: echo Y > {PARAMETER})")
            }
            UringSupport::NotInKernel => {
                f.write_str("not in this kernel (Linux 6.14 or newer has it)")
            }
            UringSupport::LeaksMemory => {
                f.write_str("this kernel leaks memory with it (Linux 6.18.3 or newer does not)")
            }
            UringSupport::RingsRefused(error) => {
                write!(f, "this process may not create io_uring rings: {error}")
            }
        }
    }
}

/// Checks the kernel's parameter and creates a test ring. Needs no privileges.
pub fn support() -> UringSupport {
    match fs::read_to_string(PARAMETER) {
        Ok(value) if matches!(value.trim(), "Y" | "1") => match ring::creation_error() {
            None if kernel_version() < LEAK_FIXED_IN => UringSupport::LeaksMemory,
            None => UringSupport::Ready,
            Some(error) => UringSupport::RingsRefused(error),
        },
        Ok(_) => UringSupport::Disabled,
        Err(_) => UringSupport::NotInKernel,
    }
}

/// Sets the parameter; needs root. It stays set until the host restarts.
///
/// # Errors
/// NotFound if the kernel's FUSE module is not loaded or has no such parameter, PermissionDenied without root.
pub fn enable() -> io::Result<()> {
    fs::write(PARAMETER, "Y")
}

/// Descriptors that the rings of one mount need.
pub fn descriptors() -> usize {
    // A ring and an eventfd for each thread.
    2 * ring::possible_cpus().map_or(0, |cpus| cpus.min(RING_WORKERS_MAX))
}

fn kernel_version() -> [u32; 3] {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut numbers = numbers.map(|number| number.parse().unwrap_or(0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}
