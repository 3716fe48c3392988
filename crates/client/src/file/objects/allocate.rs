//! Zeroing and allocating ranges of objects.

use super::{ObjectIo, required_existence};
use crate::inodes::{ActiveInode, ObjectSpan};
use gupfs_proto::{FileOffset, FsError, Presence, data};

impl ObjectIo {
    /// Zeroes spans of objects that may exist; punches holes if `punch`. Returns whether any object had bytes there, and so has a
    /// new mtime.
    pub async fn zero(
        &self,
        inode: &ActiveInode,
        spans: &[ObjectSpan],
        punch: bool,
    ) -> Result<bool, FsError> {
        let mut has_touched = false;
        for span in spans.iter().filter(|span| span.presence != Presence::Never) {
            inode
                .state()
                .objects
                .mark_members_dirty(span.component, span.index);
            let zero = |object| data::DataOp::Zero {
                object,
                at: span.at,
                len: span.len.0,
                punch,
            };
            for (index, stat) in self.change_span(inode, span, "zero", zero).await? {
                has_touched |= span.at.0 < stat.0.size;
                inode.state().objects.cleared(span.component, index, stat);
            }
        }
        Ok(has_touched)
    }

    /// Allocates the space of `offset .. end`; with `grows` also the objects' sizes.
    pub async fn allocate(
        &self,
        inode: &ActiveInode,
        grows: bool,
        offset: FileOffset,
        end: FileOffset,
    ) -> Result<(), FsError> {
        let (spans, owner) = {
            let mut state = inode.state();
            if grows {
                // If one OST fails, objects on others may still be longer than the file.
                state.extend_leftovers(end);
            }
            (state.objects.spans(inode.ino, offset, end), state.owner())
        };
        for span in spans {
            inode
                .state()
                .objects
                .mark_members_dirty(span.component, span.index);
            let allocate = |object| data::DataOp::Allocate {
                object,
                at: span.at,
                len: span.len.0,
                keep_size: !grows,
                existence: required_existence(span.presence),
                owner,
            };
            for (index, stat) in (self.change_span(inode, &span, "allocate", allocate)).await? {
                inode.state().objects.written(span.component, index, stat);
            }
        }
        Ok(())
    }
}
