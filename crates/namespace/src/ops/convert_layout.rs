use crate::driver::OpResult;
use crate::permission;
use crate::placement;
use crate::record::InodeBody;
use crate::requester::RequestingSession;
use crate::steps::{default_layout, write_lease};
use crate::view::ReadView;
use gupfs_proto::layout::{ConversionState, LayoutChange};
use gupfs_proto::meta::{MetaReplyBody, PlacementTarget};
use gupfs_proto::{Caller, FsError, InodeId};

/// Decides whether the layout of a file must change, and to what. If so, no other session has the file's write lease afterwards, so that the
/// server can copy its bytes. Only the owner may ask for it.
///
/// # Errors
/// `Invalid` for what is no regular file, for a layout that no file can have, and with fewer failure domains than copies.
pub(crate) fn convert_layout(
    view: &mut ReadView,
    session: &RequestingSession,
    caller: &Caller,
    targets: &[PlacementTarget],
    ino: InodeId,
    change: &LayoutChange,
) -> OpResult<MetaReplyBody> {
    let inode = view.inode(ino)?;
    let InodeBody::File(file) = &inode.body else {
        return Err(FsError::Invalid.into());
    };
    if !permission::is_owner_or_root(&inode, caller)
        || permission::is_immutable_or_append_only(&inode)
    {
        return Err(FsError::NotPermitted.into());
    }
    if file.layout.is_empty() {
        return Ok(MetaReplyBody::Conversion(ConversionState::Unneeded));
    }
    let layout = match change.is_empty() {
        true => default_layout::of_inode(view, &inode)?.0,
        false => change.applied_to(&file.layout),
    };
    placement::check_default_layout(&layout, targets)?;
    if placement::has_shape(&file.layout, &layout, targets) {
        return Ok(MetaReplyBody::Conversion(ConversionState::Unneeded));
    }
    write_lease::require_revoked(view, session, &inode)?;
    let needed = ConversionState::Needed(layout);
    Ok(MetaReplyBody::Conversion(needed))
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{LeaseCallback, Prerequisite};
    use gupfs_proto::layout::{ConversionState, DefaultLayout, LayoutChange, Redundancy};
    use gupfs_proto::meta::{MetaOp, MetaReplyBody};
    use gupfs_proto::{Caller, FsError, InodeId};

    fn convert(
        server: &mut TestServer,
        caller: &Caller,
        ino: InodeId,
        change: LayoutChange,
    ) -> Result<ConversionState, FsError> {
        match server.request(caller, &MetaOp::ConvertLayout { ino, change })? {
            MetaReplyBody::Conversion(state) => Ok(state),
            other => panic!("{other:?}"),
        }
    }

    fn written_file(server: &mut TestServer) -> InodeId {
        let root = Caller::root();
        let ino = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        server.begin_write(ino).unwrap();
        server.end_write(ino, report(9, &[(0, 0)]), false).unwrap();
        ino
    }

    fn copies(copies: u8) -> LayoutChange {
        LayoutChange {
            copies: Some(copies),
            ..LayoutChange::default()
        }
    }

    #[test]
    fn a_file_needs_a_conversion_only_if_its_layout_is_another_one() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let ino = written_file(&mut server);
        let nothing = LayoutChange::default();
        let unneeded = Ok(ConversionState::Unneeded);
        assert_eq!(convert(&mut server, &root, ino, nothing), unneeded);
        assert_eq!(convert(&mut server, &root, ino, copies(1)), unneeded);
        let all = LayoutChange {
            count: Some(0),
            ..nothing
        };
        assert_eq!(convert(&mut server, &root, ino, all), unneeded);
        let two = LayoutChange {
            count: Some(2),
            ..nothing
        };
        let Ok(ConversionState::Needed(layout)) = convert(&mut server, &root, ino, two) else {
            panic!("a conversion is needed");
        };
        assert_eq!(layout.components[1].count, 2);
        // As new files of the directory, which are mirrored from now on.
        let mut default = DefaultLayout::default();
        default.components[0].redundancy = Redundancy::Mirror(2);
        let set = MetaOp::SetDefaultLayout {
            ino: ROOT,
            layout: Some(default.clone()),
        };
        server.request(&root, &set).unwrap();
        let needed = Ok(ConversionState::Needed(default));
        assert_eq!(convert(&mut server, &root, ino, nothing), needed);
        let empty = server.create(&root, ROOT, "empty", 0o644).unwrap().ino;
        assert_eq!(convert(&mut server, &root, empty, nothing), unneeded);
    }

    #[test]
    fn only_the_owner_converts_a_file_and_only_to_a_layout_that_it_can_have() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let ino = written_file(&mut server);
        let denied = convert(&mut server, &user(1000), ino, copies(2));
        assert_eq!(denied, Err(FsError::NotPermitted));
        for too_many in [copies(5), copies(200)] {
            let refused = convert(&mut server, &root, ino, too_many);
            assert_eq!(refused, Err(FsError::Invalid));
        }
        let unit = LayoutChange {
            unit: Some(gupfs_proto::ByteCount(4096)),
            ..LayoutChange::default()
        };
        let refused = convert(&mut server, &root, ino, unit);
        assert_eq!(refused, Err(FsError::Invalid));
        let refused = convert(&mut server, &root, ROOT, copies(2));
        assert_eq!(refused, Err(FsError::Invalid));
    }

    #[test]
    fn another_sessions_write_lease_is_revoked_first() {
        let (mut server, ino) = leased_file();
        (server.session, server.prerequisite) = (OTHER_SESSION, None);
        let _ = convert(&mut server, &Caller::root(), ino, copies(2));
        let Some(Prerequisite::Callback { callback, .. }) = server.prerequisite else {
            panic!("{:?}", server.prerequisite);
        };
        assert_eq!(callback, LeaseCallback::Revoke);
    }
}
