//! What the kernel counted for this process.
//!
//! Unsafe: getrusage fills a structure that the caller owns; rustix does not have it.

use std::mem::MaybeUninit;

/// Seconds that the kernel worked for all threads of this process so far.
pub fn system_seconds() -> f64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a whole rusage, and zeroes are one.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_stime.tv_sec as f64 + usage.ru_stime.tv_usec as f64 / 1e6
}
