//! The kernel's caches and the free memory when a run begins.

use std::hint::black_box;

use gupfs_kit::machine;

use crate::results::Cache;

/// Makes the kernel forget what it holds of files, after all of it was written.
pub fn drop_all() -> Cache {
    match machine::drop_caches() {
        Ok(()) => Cache::Dropped,
        Err(_) => Cache::Undropped,
    }
}

/// Bytes of each piece; the memory of a piece goes back to the kernel when it is dropped, as it is mapped by itself.
const PIECE: u64 = 64 << 20;

/// Touches memory and gives it back: a guest's host must find pages for what is touched first, which is slow, and should not
/// be found in a figure. Of what is free at most three quarters. The bytes that were touched.
pub fn touch_memory(bytes: u64) -> u64 {
    let free = machine::memory("MemAvailable").unwrap_or(0);
    let pieces = bytes.min(free / 4 * 3) / PIECE;
    let held: Vec<Vec<u8>> = (0..pieces).map(|_| vec![1; PIECE as usize]).collect();
    black_box(&held);
    pieces * PIECE
}
