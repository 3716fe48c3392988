//! Stored replies (NFSv4.1 reply cache): a retransmitted request gets the reply of its execution.

use crate::driver::OpResult;
use crate::record::{Inode, ReplySummary, StoredReply, WriteLeaseMode};
use crate::requester::RequestingSession;
use crate::steps::write_lease;
use crate::view::ReadView;
use gupfs_proto::meta::{MetaOp, MetaReplyBody, RemovedName, SlotSeq};
use gupfs_proto::{FsError, InodeId};
use std::rc::Rc;

/// The reply to a request that was executed before: its stored summary, with attributes as they are now.
pub(crate) fn stored_reply(
    view: &mut ReadView,
    session: &RequestingSession,
    op: &MetaOp,
    last: &StoredReply,
    slot_seq: SlotSeq,
    digest: u64,
) -> OpResult<MetaReplyBody> {
    let malformed = |problem: &str| {
        let number = slot_seq.sequence;
        Err(FsError::Malformed(format!(
            "{} {} of slot {} {problem}",
            op.name(),
            number,
            slot_seq.slot
        ))
        .into())
    };
    if last.sequence > slot_seq.sequence {
        return malformed(&format!("arrived after {}", last.sequence));
    }
    if last.digest != digest {
        return malformed("was used for another request before");
    }
    Ok(match last.summary {
        ReplySummary::Done => MetaReplyBody::Done,
        // A client reports under a lock that another client's report may wait for; no program sees these attributes.
        ReplySummary::Attr(ino) if op.reports_client_state() => {
            MetaReplyBody::Attr(view.inode(ino)?.attr())
        }
        ReplySummary::Attr(ino) => {
            MetaReplyBody::Attr(inode_with_attr_report(view, session, ino)?.attr())
        }
        ReplySummary::Entry(ino) => {
            MetaReplyBody::Entry(inode_with_attr_report(view, session, ino)?.attr())
        }
        ReplySummary::Opened { ino, .. } if matches!(op, MetaOp::BeginWriteAt { .. }) => {
            let mode = write_lease::mode_of(view, session.id, ino)?;
            MetaReplyBody::WriteBegun {
                opened: view.inode(ino)?.open_info(false),
                is_concurrent: mode != Some(WriteLeaseMode::Exclusive),
            }
        }
        // The lease may have been revoked since; then the reply grants none.
        ReplySummary::Opened { ino, created }
            if created
                && matches!(op, MetaOp::CreateForWriting { .. })
                && write_lease::mode_of(view, session.id, ino)?
                    == Some(WriteLeaseMode::Exclusive) =>
        {
            MetaReplyBody::WriteBegun {
                opened: view.inode(ino)?.open_info(created),
                is_concurrent: false,
            }
        }
        ReplySummary::Opened { ino, created } => {
            MetaReplyBody::Opened(inode_with_attr_report(view, session, ino)?.open_info(created))
        }
        ReplySummary::Removed {
            victim,
            orphan,
            moved,
        } => {
            let attr = match moved {
                Some(ino) => view.find_inode(ino)?.map(|inode| inode.attr()),
                None => None,
            };
            MetaReplyBody::Removed(RemovedName {
                victim,
                is_orphan: orphan,
                attr,
            })
        }
    })
}

/// An inode with its current attributes: with the lease holder's report, if another session has the write lease.
fn inode_with_attr_report(
    view: &mut ReadView,
    session: &RequestingSession,
    ino: InodeId,
) -> OpResult<Rc<Inode>> {
    let inode = view.inode(ino)?;
    write_lease::require_attr_report(view, session, &inode)?;
    Ok(inode)
}

/// The part of a reply that is stored. Called only for operations that change records.
pub(crate) fn summarize_reply(reply: &MetaReplyBody) -> OpResult<ReplySummary> {
    Ok(match reply {
        MetaReplyBody::Done => ReplySummary::Done,
        MetaReplyBody::Attr(attr) => ReplySummary::Attr(attr.ino),
        MetaReplyBody::Entry(attr) => ReplySummary::Entry(attr.ino),
        MetaReplyBody::Opened(opened) => ReplySummary::Opened {
            ino: opened.attr.ino,
            created: opened.created,
        },
        // The mode of the lease is recorded, and changes only by requests that the session sends after this reply.
        MetaReplyBody::WriteBegun { opened, .. } => ReplySummary::Opened {
            ino: opened.attr.ino,
            created: opened.created,
        },
        MetaReplyBody::Removed(removed) => ReplySummary::Removed {
            victim: removed.victim,
            orphan: removed.is_orphan,
            moved: removed.attr.map(|attr| attr.ino),
        },
        other => unreachable!("no changing operation replies {other:?}"),
    })
}
