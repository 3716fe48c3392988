use crate::driver::OpResult;
use crate::ops::end_write::end_write;
use crate::record::WriteLeaseMode;
use crate::steps::write_lease_grant;
use crate::view::OpView;
use gupfs_proto::meta::{AttrReport, MetaReplyBody};
use gupfs_proto::{InodeId, SessionId};

/// The lease holder reports its writes, and lets other sessions write beside it. Its record need not be durable: a later one of another
/// writer is, and with it this one.
pub(crate) fn downgrade_write(
    view: &mut OpView,
    session: SessionId,
    ino: InodeId,
    report: &AttrReport,
) -> OpResult<MetaReplyBody> {
    tracing::trace!(target: "walk", file = file!(), "downgrade_write");
    let reply = end_write(view, session, ino, report, true)?;
    write_lease_grant::put(view, session, ino, WriteLeaseMode::Concurrent);
    Ok(reply)
}
