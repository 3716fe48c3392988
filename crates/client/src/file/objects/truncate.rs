//! Truncating objects to the end of the file.

use super::ObjectIo;
use crate::inodes::{ActiveInode, ObjectSpan};
use crate::join;
use gupfs_proto::{FileOffset, FsError, Presence, data};

impl ObjectIo {
    /// Truncates leftovers of failed writes behind the end of the file. The caller has locked everything from there on.
    pub async fn truncate_leftovers(&self, inode: &ActiveInode) -> Result<(), FsError> {
        let leftovers = {
            let mut state = inode.state();
            let Some(range) = state.leftovers() else {
                return Ok(());
            };
            let mut leftovers = (state.objects).spans(inode.ino, range.start, range.end);
            leftovers.retain(|span| span.presence != Presence::Never);
            for span in &leftovers {
                state.objects.mark_members_dirty(span.component, span.index);
            }
            leftovers
        };
        let truncates = (leftovers.into_iter()).map(|span| self.truncate(inode, span));
        // Each is tried, also when one fails; the truncated objects have a new mtime.
        let outcomes = join::all(truncates.collect()).await;
        let mut state = inode.state();
        if state.has_write_lease() {
            state.data_changed(FileOffset(0), self.clock.now());
        }
        outcomes.into_iter().collect::<Result<(), FsError>>()?;
        state.leftovers_truncated();
        Ok(())
    }

    async fn truncate(&self, inode: &ActiveInode, span: ObjectSpan) -> Result<(), FsError> {
        let truncate = |object| data::DataOp::Truncate {
            object,
            to: span.at.0,
        };
        for (index, stat) in self.change_span(inode, &span, "truncate", truncate).await? {
            inode.state().objects.cleared(span.component, index, stat);
        }
        Ok(())
    }
}
