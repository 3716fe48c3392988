//! Reads that this client may answer from its memory, as a lease on the file's data or the write lease allows.

use super::FileIo;
use super::objects::FileBytes;
use super::read::ReadOptions;
use crate::data_cache::CachedRead;
use crate::inodes::{ActiveInode, OpenFile};
use crate::lease_number::LeaseNumber;
use crate::limits::READ_AHEAD_TIME_MAX;
use crate::metrics::Counters;
use crate::session::MdsSession;
use bytes::Bytes;
use gupfs_proto::{FileOffset, FsError};

impl FileIo {
    /// Reads from memory if all of the range is there, and else from the servers. Under a lease it keeps what it has read, and reads ahead.
    pub(super) async fn read_cached(
        &self,
        file: &OpenFile,
        offset: FileOffset,
        end: FileOffset,
        options: ReadOptions,
    ) -> Result<Vec<Bytes>, FsError> {
        tracing::trace!(target: "walk", file = file!(), "read_cached");
        let (inode, cache) = (&file.inode, self.mds.data_cache());
        let (ino, range) = (inode.ino, offset.0..end.0);
        let is_cached = cache.is_on() && !file.flags().direct && !range.is_empty();
        // Without a lock: the task needs one for which a change may be waiting that waits for the lock of this read.
        if is_cached && cache.is_read_ahead(ino, &range) {
            tokio::select! {
                biased;
                () = cache.wait_for_read_ahead(ino, &range) => {}
                () = self.clock.sleep(READ_AHEAD_TIME_MAX) => {}
            }
        }
        let _held = inode.range_locks.shared(offset..end).await;
        if file.flags().direct {
            // What the object servers have counts, and later reads show the same.
            let _in_errors = self.objects.flush(inode).await;
            cache.forget(ino, range.clone());
        }
        let lease = match is_cached {
            true => lease_on_data(&self.mds, inode),
            false => None,
        };
        let Some(lease) = lease else {
            let read = self.read_servers(inode, offset, end, options).await?;
            return Ok(read.segments);
        };
        let segments = match cache.get(ino, lease, range.clone()) {
            Some(segments) => {
                Counters::add(&self.counters.cached_reads, 1);
                self.note_read(inode, options);
                segments
            }
            None => {
                let read = self.read_servers(inode, offset, end, options).await?;
                cache_read(&self.mds, inode, lease, offset, end, &read);
                read.segments
            }
        };
        // The kernel reads ahead for its page cache by itself.
        if !options.for_page_cache {
            self.read_ahead.after(file, &range, lease);
        }
        Ok(segments)
    }
}

/// The lease under which this client may answer reads of the file from its memory: no other client changes it before the lease ends.
///
/// None while this client has a concurrent write lease, also if it is the only one and has a lease to read: then its own writes lock the
/// range of their bytes only, and a read beside one that moves the file's end would keep the former end.
pub fn lease_on_data(mds: &MdsSession, inode: &ActiveInode) -> Option<LeaseNumber> {
    let write_lease = {
        let state = inode.state();
        if state.has_concurrent_write_lease() {
            return None;
        }
        state.write_lease_number()
    };
    match write_lease {
        Some(number) => mds.is_valid().then_some(number),
        None => mds.data_lease(inode.ino),
    }
}

/// Keeps what was read in `offset .. end`, if the lease was in force all the time. The caller has locked the range.
pub fn cache_read(
    mds: &MdsSession,
    inode: &ActiveInode,
    lease: LeaseNumber,
    offset: FileOffset,
    end: FileOffset,
    read: &FileBytes,
) {
    if lease_on_data(mds, inode) != Some(lease) {
        return;
    }
    let read = CachedRead {
        offset: offset.0,
        segments: &read.segments,
        end_of_file: (read.end < end).then_some(read.end.0),
    };
    mds.data_cache().put(inode.ino, lease, read);
}
