//! Reading a file that others may be writing, and that is not held here.
//!
//! What another has written and was told so lies in the objects; how long the file is and whether it has objects at all,
//! the server knows. So where every byte is found that was there before, no server but theirs is asked.

use super::read::Read;
use super::table::File;
use crate::metrics::Counters;
use crate::service::Client;
use gupfs_proto::Refusal;
use gupfs_proto::refusal::ObjectDamage;

impl Client {
    pub(super) async fn read_shared(
        &self,
        inode: &File,
        offset: u64,
        end: u64,
    ) -> Result<Read, Refusal> {
        let hinted = inode.state().plan_hinted_read(inode.ino, offset, end);
        if let Some(pieces) = hinted
            && let Ok(read) = self.read_pieces(inode, &pieces).await
            && !read.is_short
        {
            return Ok(read);
        }
        let mut damaged = false;
        loop {
            Counters::add(&self.counters.asked_again, 1);
            self.load(inode).await?;
            let read = match self.read_known(inode, offset, end).await {
                // The layout may be another by now, and then no object of the former is missed.
                Err(Refusal::ObjectDamaged {
                    what: ObjectDamage::Missing,
                    ..
                }) if !damaged => {
                    damaged = true;
                    continue;
                }
                read => read?,
            };
            if !read.is_short {
                return Ok(read);
            }
            // A hole, or the file was cut after we asked where it ends.
            self.load(inode).await?;
            if inode.state().size >= read.end {
                return Ok(read);
            }
        }
    }
}
