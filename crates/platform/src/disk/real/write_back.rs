//! Starting the write-back of dirty pages early, so that a later `fsync` has less to write.
//!
//! Unsafe, because no safe crate offers sync_file_range(2); the call takes a descriptor and numbers, and no memory.

use super::RealFile;
use crate::tasks::spawn_on_pool;
use std::os::fd::AsRawFd;
use std::sync::Arc;

impl RealFile {
    pub fn start_write_back(self: &Arc<Self>, offset: u64, len: u64) {
        let file = self.clone();
        let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else {
            return;
        };
        // On the pool: the call blocks while the device's queue is full.
        spawn_on_pool(move || {
            let fd = file.fd.as_raw_fd();
            // SAFETY: the descriptor is open until `file` is dropped, and the call accesses no memory of this process.
            // The next sync reports an error of this call.
            unsafe { libc::sync_file_range(fd, offset, len, libc::SYNC_FILE_RANGE_WRITE) };
        });
    }
}
