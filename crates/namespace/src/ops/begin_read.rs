use crate::driver::OpResult;
use crate::requester::RequestingSession;
use crate::steps::{orphan, truncation, write_lease};
use crate::view::ReadView;
use gupfs_proto::InodeId;
use gupfs_proto::meta::MetaReplyBody;

/// A client reads a file that it has open into a cache: no other session writes it, so the reply may grant a lease on the data. The driver has
/// another session release the write lease first.
pub(crate) fn begin_read(
    view: &mut ReadView,
    session: &RequestingSession,
    ino: InodeId,
) -> OpResult<MetaReplyBody> {
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    orphan::check_orphan_user(view, session, &inode, false)?;
    write_lease::require_revoked(view, session, &inode)?;
    truncation::check_no_unfinished_truncate(file, ino)?;
    Ok(MetaReplyBody::Opened(inode.open_info(false)))
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{LeaseCallback, Prerequisite};
    use gupfs_proto::meta::{MetaOp, MetaReplyBody};
    use gupfs_proto::{Caller, FsError, SessionId};

    #[test]
    fn reading_for_a_cache_needs_the_write_lease_of_others_revoked_and_not_ones_own() {
        let (mut server, file) = leased_file();
        let op = MetaOp::BeginRead { ino: file };
        let reply = server.request(&Caller::root(), &op);
        assert!(matches!(reply, Ok(MetaReplyBody::Opened(_))));
        server.session = SessionId(99);
        assert_eq!(server.request(&Caller::root(), &op), Err(FsError::Busy));
        let revoke = Prerequisite::Callback {
            ino: file,
            callback: LeaseCallback::Revoke,
        };
        assert_eq!(server.prerequisite, Some(revoke));
        assert_eq!(server.batch.len(), 0);
    }

    #[test]
    fn a_directory_is_not_read_for_a_cache() {
        let mut server = TestServer::new(1);
        let op = MetaOp::BeginRead { ino: ROOT };
        let reply = server.request(&Caller::root(), &op);
        assert_eq!(reply, Err(FsError::IsDirectory));
    }
}
