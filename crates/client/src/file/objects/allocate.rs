//! Zeroing and allocating ranges of objects.

use super::{ObjectIo, required_existence};
use crate::inodes::{ActiveInode, ObjectSpan};
use crate::reply;
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
                .mark_dirty(span.component, span.stripe);
            let op = data::DataOp::Zero {
                object: span.object,
                at: span.at,
                len: span.len.0,
                punch,
            };
            let stat = reply::written("zero", self.call_for_space(span.ost, op).await?)?;
            has_touched |= span.at.0 < stat.0.size;
            inode
                .state()
                .objects
                .cleared(span.component, span.stripe, stat);
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
                .mark_dirty(span.component, span.stripe);
            let op = data::DataOp::Allocate {
                object: span.object,
                at: span.at,
                len: span.len.0,
                keep_size: !grows,
                existence: required_existence(span.presence),
                owner,
            };
            let stat = reply::written("allocate", self.call_for_space(span.ost, op).await?)?;
            inode
                .state()
                .objects
                .written(span.component, span.stripe, stat);
        }
        Ok(())
    }
}
