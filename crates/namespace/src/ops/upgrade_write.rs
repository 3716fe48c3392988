use crate::driver::OpResult;
use crate::record::WriteLeaseMode;
use crate::requester::RequestingSession;
use crate::steps::{truncation, write_lease_grant};
use crate::view::OpView;
use gupfs_proto::meta::MetaReplyBody;
use gupfs_proto::{FsError, InodeId};

/// The only writer of a file makes its concurrent lease an exclusive one. It never waits: the client holds locks that other sessions'
/// requests may need.
///
/// # Errors
/// `Busy` if another session has a write lease of the file, dead or alive.
pub(crate) fn upgrade_write(
    view: &mut OpView,
    session: &RequestingSession,
    ino: InodeId,
) -> OpResult<MetaReplyBody> {
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    truncation::check_no_unfinished_truncate(file, ino)?;
    if file.write_leases != 1 {
        return Err(FsError::Busy.into());
    }
    write_lease_grant::put(view, session.id, ino, WriteLeaseMode::Exclusive);
    Ok(MetaReplyBody::Opened(inode.open_info(false)))
}
