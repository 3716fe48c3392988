//! The memory allocator of a daemon.
//!
//! Owns   the thresholds of glibc's allocator.
//! Never  allocates.
//! Enter  at `keep_freed_memory`, once, by a daemon before it starts threads.
//!
//! A stream of reads or writes allocates and frees a buffer of 256 KiB for each message. By default glibc returns such a buffer to
//! the kernel as soon as it is freed, and each page of the next one is a page fault, in which the kernel clears the page.
//!
//! Unsafe, because no safe crate offers mallopt(3); the call takes two numbers, and no memory.

/// Allocations from this size on are mappings of their own, returned to the kernel when they are freed. A frame is smaller.
#[cfg(target_env = "gnu")]
const MAPPING_MIN: libc::c_int = 8 << 20;

/// The allocator keeps so much freed memory at the end of each of its heaps, of which there are a few for each CPU.
#[cfg(target_env = "gnu")]
const KEPT_MAX: libc::c_int = 32 << 20;

/// Makes the allocator keep freed buffers of messages for the next ones. Without effect where the C library is not glibc.
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes no pointer, and glibc locks the settings that it changes.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPING_MIN);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_MAX);
    }
}
