//! The CPU time that the kernel counted for this process.
//!
//! Unsafe: getrusage fills a structure that the caller owns; rustix does not have it.

use std::mem::MaybeUninit;

fn usage() -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a whole rusage, and zeroes are one.
    unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    }
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

/// Seconds that the kernel worked for all threads of this process so far.
pub fn system_seconds() -> f64 {
    seconds(usage().ru_stime)
}

/// Seconds that all threads of this process and the kernel for them worked so far.
pub fn all_seconds() -> f64 {
    let usage = usage();
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
