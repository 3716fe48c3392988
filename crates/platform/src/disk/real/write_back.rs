//! Beginning to write dirty pages to the device, which `fsync` would have to do in one go.
//!
//! Unsafe, because no safe crate offers sync_file_range(2); it takes a descriptor and numbers, and no memory.

use super::RealFile;
use crate::tasks::left_to_pool;
use std::os::fd::AsRawFd;
use std::sync::Arc;

impl RealFile {
    pub fn begin_write_back(self: &Arc<Self>, offset: u64, len: u64) {
        let file = self.clone();
        let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else {
            return;
        };
        // On the pool: where the device's queue is full it waits.
        left_to_pool(move || {
            let fd = file.fd.as_raw_fd();
            // SAFETY: the descriptor is open as long as `file` is held, and the call reads and writes no memory of ours.
            // What fails here the next sync meets again, and tells.
            unsafe { libc::sync_file_range(fd, offset, len, libc::SYNC_FILE_RANGE_WRITE) };
        });
    }
}
