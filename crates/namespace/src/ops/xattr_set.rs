use crate::acl::Acl;
use crate::driver::OpResult;
use crate::key::RecordKey;
use crate::ops::acl_change;
use crate::record::{Inode, XattrRecord};
use crate::requester::RequestingSession;
use crate::steps::write_lease;
use crate::view::OpView;
use crate::xattr::{self, XattrNamespace};
use bytes::Bytes;
use gupfs_proto::limits::{XATTR_LIST_MAX, XATTR_VALUE_MAX};
use gupfs_proto::meta::{MetaReplyBody, XattrMode, XattrName};
use gupfs_proto::{Caller, FsError, InodeId};

/// setxattr(2): sets the whole value or nothing; ctime is updated. ACLs are attributes too: an access ACL also sets the mode's
/// bits, and is not stored if the mode alone expresses it.
pub(crate) fn set_xattr(
    view: &mut OpView,
    session: &RequestingSession,
    caller: &Caller,
    ino: InodeId,
    name: &XattrName,
    value: &Bytes,
    mode: XattrMode,
) -> OpResult<MetaReplyBody> {
    if value.len() > XATTR_VALUE_MAX {
        return Err(FsError::ValueTooLarge.into());
    }
    let inode = view.inode(ino)?;
    let namespace = xattr::namespace_of(name)?;
    xattr::check_write(&inode, caller, namespace)?;
    if name.as_bytes() == XattrName::CAPABILITY {
        // The next write must remove the capabilities. A lease holder writes without a request to this server, so its lease is
        // revoked: its next write acquires a new lease, and BeginWrite removes the capabilities.
        write_lease::require_revoked(view, session, &inode)?;
    }
    match namespace {
        XattrNamespace::AccessAcl | XattrNamespace::DefaultAcl => {
            let acl = Acl::parse(value)?;
            view.check_growth_allowed()?;
            acl_change::set_acl(view, caller, &inode, namespace, acl)?;
        }
        XattrNamespace::Security | XattrNamespace::User | XattrNamespace::Trusted => {
            set_value(view, &inode, name, value, mode)?
        }
    }
    Ok(MetaReplyBody::Attr(view.inode(ino)?.attr()))
}

fn set_value(
    view: &mut OpView,
    inode: &Inode,
    name: &XattrName,
    value: &Bytes,
    mode: XattrMode,
) -> OpResult<()> {
    let key = RecordKey::xattr(inode.ino, name.as_bytes());
    let was_inline = xattr::inline_value(inode, name).is_some();
    let had_record = inode.xattrs > 0 && view.get::<XattrRecord>(&key)?.is_some();
    let existed = was_inline || had_record;
    match mode {
        XattrMode::Create if existed => return Err(FsError::Exists.into()),
        XattrMode::Replace if !existed => return Err(FsError::NoAttribute.into()),
        _ => {}
    }
    let is_inline = xattr::fits_inline(inode, name, value);
    let name_bytes = name.as_bytes().len() + 1;
    if !existed && xattr::listxattr_len(inode) + name_bytes > XATTR_LIST_MAX {
        return Err(FsError::NoSpace.into());
    }
    view.check_growth_allowed()?;
    if is_inline && had_record {
        view.remove(key.clone());
    }
    if !is_inline {
        view.put(key, &XattrRecord(value.clone()));
    }
    let now = view.now();
    view.change(inode.ino, |inode| {
        inode.touch_ctime(now);
        inode.security.retain(|(other, _)| other != name);
        if is_inline {
            inode.security.push((name.clone(), value.clone()));
        }
        let (added, removed) = (u32::from(!is_inline), u32::from(had_record));
        inode.xattrs = inode.xattrs + added - removed;
        let name_bytes = name_bytes as u32;
        inode.xattr_names = inode.xattr_names + name_bytes * added - name_bytes * removed;
    })
}

#[cfg(test)]
mod tests {
    use crate::RecordKind;
    use crate::testing::*;
    use bytes::Bytes;
    use gupfs_proto::meta::{MetaOp, XattrMode};
    use gupfs_proto::{Caller, FsError};

    #[test]
    fn values_are_stored_and_their_records_are_removed_with_the_file() {
        let mut server = TestServer::new(64);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        let large = vec![7; 64 << 10];
        for (name, value) in [
            ("user.a", &b""[..]),
            ("user.b", &large),
            ("trusted.c", b"3"),
            ("security.d", &large),
        ] {
            server.set_xattr(&root, file, name, value).unwrap();
            assert_eq!(server.get_xattr(&root, file, name).unwrap(), value);
        }
        assert_eq!(
            server.set_xattr(&root, file, "user.e", &vec![7; (64 << 10) + 1]),
            Err(FsError::ValueTooLarge)
        );
        assert_eq!(
            server.list_xattr(&root, file),
            ["security.d", "trusted.c", "user.a", "user.b"]
        );
        assert_eq!(
            server.list_xattr(&user(1000), file),
            ["security.d", "user.a", "user.b"]
        );
        assert_eq!(
            server.get_xattr(&user(1000), file, "trusted.c"),
            Err(FsError::NoAttribute)
        );
        // A short value again is stored in the inode.
        server.set_xattr(&root, file, "security.d", b"4").unwrap();
        assert_eq!(
            (
                server.count(RecordKind::Xattr),
                server.inode(file).security.len()
            ),
            (3, 1)
        );
        server.assert_clean();
        server.remove_xattr(&root, file, "security.d").unwrap();
        assert_eq!(
            server.remove_xattr(&root, file, "security.d"),
            Err(FsError::NoAttribute)
        );
        server.unlink(&root, ROOT, "f").unwrap();
        server.forget(file);
        assert_eq!(server.count(RecordKind::Xattr), 0);
        server.assert_clean();
    }

    #[test]
    fn xattr_create_and_replace_check_existence() {
        let mut server = TestServer::new(1);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        for name in ["user.a", "security.a"] {
            let mut set = |mode| {
                let op = MetaOp::SetXattr {
                    ino: file,
                    name: xattr(name),
                    value: Bytes::from_static(b"1"),
                    mode,
                };
                attr(server.request(&root, &op)).map(|_| ())
            };
            assert_eq!(set(XattrMode::Replace), Err(FsError::NoAttribute));
            assert_eq!(set(XattrMode::Create), Ok(()));
            assert_eq!(set(XattrMode::Create), Err(FsError::Exists));
            assert_eq!(set(XattrMode::Replace), Ok(()));
        }
    }

    #[test]
    fn the_total_length_of_xattr_names_is_bounded_so_that_they_can_be_listed() {
        let mut server = TestServer::new(1);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        let name = |i: usize| format!("user.{i:0>250}");
        let full = (0..1000)
            .find(|i| server.set_xattr(&root, file, &name(*i), b"") == Err(FsError::NoSpace));
        assert_eq!(full, Some(255));
        let bytes: usize = server
            .list_xattr(&root, file)
            .iter()
            .map(|name| name.len() + 1)
            .sum();
        assert!(bytes <= 64 << 10);
        server.set_xattr(&root, file, &name(3), b"again").unwrap();
        server.assert_clean();
    }

    #[test]
    fn each_xattr_namespace_has_its_own_permissions() {
        let mut server = TestServer::new(1);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        let link = entry(server.request(
            &root,
            &MetaOp::Symlink {
                dir: ROOT,
                name: name("l"),
                target: b"f".to_vec(),
            },
        ))
        .unwrap()
        .ino;
        let tmp = server.mkdir(&root, ROOT, "tmp", 0o1777).unwrap().ino;
        let mut set =
            |caller: &Caller, ino, name| server.set_xattr(caller, ino, name, b"1").map(|_| ());
        assert_eq!(set(&user(1000), file, "user.a"), Err(FsError::Denied));
        assert_eq!(
            set(&user(1000), file, "trusted.a"),
            Err(FsError::NotPermitted)
        );
        assert_eq!(
            set(&user(1000), file, "security.a"),
            Err(FsError::NotPermitted)
        );
        assert_eq!(set(&root, link, "user.a"), Err(FsError::NotPermitted));
        assert_eq!(set(&root, link, "trusted.a"), Ok(()));
        assert_eq!(set(&user(1000), tmp, "user.a"), Err(FsError::NotPermitted));
        assert_eq!(set(&root, file, "os2.a"), Err(FsError::NotSupported));
        assert_eq!(set(&root, file, "system.other"), Err(FsError::NotSupported));
        assert_eq!(set(&root, file, "user."), Err(FsError::Invalid));
        assert_eq!(
            server.get_xattr(&root, link, "user.a"),
            Err(FsError::NoAttribute)
        );
    }
}
