//! Reading a file without its write lease, while other clients may be writing it.
//!
//! A client with the exclusive write lease may keep bytes that it has not sent: loading the file's state has it send them. Where none can have
//! that lease, answered writes are in the objects. Then, if every byte of the range exists as before, the client reads from the OSTs alone.
//!
//! A member of a mirrored stripe may become stale during a read, and return older bytes then: an OST that has lost bytes serves its members only
//! after they are recorded as stale. So the read counts if the same members are full after it. And it may have found a write at one member that
//! is still on its way to another, where the next read would not find it: so the read ends when the writes have ended that were under way.

use super::FileIo;
use super::objects::FileBytes;
use crate::inodes::ActiveInode;
use crate::metrics::Counters;
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::{FileOffset, FsError};

impl FileIo {
    pub(super) async fn read_shared(
        &self,
        inode: &ActiveInode,
        offset: FileOffset,
        end: FileOffset,
    ) -> Result<FileBytes, FsError> {
        tracing::trace!(target: "walk", file = file!(), "read_shared");
        let lease = self.mds.data_lease(inode.ino);
        if (lease.is_some() || inode.state().has_concurrent_write_lease())
            && let Some(read) = self.objects.read_hinted(inode, offset, end).await
        {
            // A record of stale members ends the lease first.
            let has_mirrors = inode.state().layout().is_mirrored();
            if !has_mirrors || self.mds.data_lease(inode.ino) == lease {
                return Ok(read);
            }
        }
        let mut damaged = false;
        loop {
            Counters::add(&self.counters.asked_again, 1);
            self.leases.load(inode).await?;
            let (objects, has_mirrors) = {
                let state = inode.state();
                (
                    state.objects.objects_version(),
                    state.layout().is_mirrored(),
                )
            };
            let read = match self.objects.read(inode, offset, end).await {
                // The layout may have changed meanwhile, and then the former layout's objects are missing legitimately.
                Err(FsError::ObjectDamaged {
                    damage: ObjectDamage::Missing,
                    ..
                }) if !damaged => {
                    damaged = true;
                    continue;
                }
                read => read?,
            };
            if !read.is_short && !has_mirrors {
                return Ok(read);
            }
            // A hole; or the file was truncated after its size was loaded, or has other objects since; or members may have become stale. And
            // of a mirrored file the writer answers when all members have what it is writing.
            self.leases.load(inode).await?;
            if inode.state().objects.objects_version() != objects {
                continue;
            }
            if !read.is_short {
                return Ok(read);
            }
            if inode.state().end_of_file() >= read.end {
                return Ok(read);
            }
        }
    }
}
