//! Seeking data and holes in objects.

use super::ObjectIo;
use crate::inodes::{ActiveInode, MemberObject, ObjectSpan};
use crate::join;
use crate::reply;
use gupfs_proto::{FileOffset, FsError, Presence, data};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeekTo {
    Data,
    Hole,
}

impl ObjectIo {
    /// Searches component by component; in each, takes the nearest result of its objects.
    pub async fn seek(
        &self,
        inode: &ActiveInode,
        offset: FileOffset,
        end: FileOffset,
        to: SeekTo,
    ) -> Result<Option<FileOffset>, FsError> {
        let _in_errors = self.flush(inode).await;
        let components = inode.state().layout().components.len();
        for index in 0..components {
            let spans = {
                let state = inode.state();
                let component = state.objects.component(index);
                let (from, to) = (offset.max(component.from), end.min(component.to));
                if from >= to {
                    continue;
                }
                state.objects.spans(inode.ino, from, to)
            };
            let running = spans.iter().map(|span| self.seek_object(inode, span, to));
            let mut nearest: Option<FileOffset> = None;
            for found in join::all(running.collect()).await {
                nearest = match (nearest, found?) {
                    (Some(one), Some(two)) => Some(one.min(two)),
                    (one, two) => one.or(two),
                };
            }
            if nearest.is_some() {
                return Ok(nearest);
            }
        }
        Ok(None)
    }

    /// The result as a file offset; None when the object has none before it ends or leaves the component.
    async fn seek_object(
        &self,
        inode: &ActiveInode,
        span: &ObjectSpan,
        to: SeekTo,
    ) -> Result<Option<FileOffset>, FsError> {
        let at = match (span.presence, to) {
            (Presence::Never, SeekTo::Data) => None,
            (Presence::Never, SeekTo::Hole) => Some(span.at),
            (Presence::Maybe | Presence::Present | Presence::Stale, _) => {
                let whence = match to {
                    SeekTo::Data => data::SeekWhence::Data,
                    SeekTo::Hole => data::SeekWhence::Hole,
                };
                let seek = |member: MemberObject| {
                    let op = data::DataOp::Seek {
                        object: member.object,
                        at: span.at,
                        whence,
                    };
                    self.osts.call(member.ost, op)
                };
                let own = MemberObject {
                    component: span.component,
                    index: span.index,
                    ost: span.ost,
                    object: span.object,
                    presence: span.presence,
                };
                match self.read_members(inode, own, seek).await? {
                    // The end of the object is a hole, whether the target reports it or finds nothing.
                    data::DataReplyBody::Position(None) if to == SeekTo::Hole => Some(span.at),
                    data::DataReplyBody::Position(found) => found,
                    _ => return reply::unexpected("seek"),
                }
            }
        };
        let state = inode.state();
        let component = state.objects.component(span.component);
        let offset = at.and_then(|at| component.file_offset(span.index, at.0));
        Ok(offset.map(FileOffset))
    }
}
