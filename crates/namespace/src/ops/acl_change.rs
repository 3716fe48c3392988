//! Setting and removing ACLs, which are extended attributes to programs.

use crate::acl::Acl;
use crate::driver::OpResult;
use crate::permission;
use crate::record::Inode;
use crate::view::OpView;
use crate::xattr::XattrNamespace;
use gupfs_proto::{Caller, FileMode, FsError};

/// Sets or removes an ACL. When an access ACL is removed, the mode does not change.
pub(crate) fn set_acl(
    view: &mut OpView,
    caller: &Caller,
    inode: &Inode,
    which: XattrNamespace,
    acl: Option<Acl>,
) -> OpResult<()> {
    let now = view.now();
    if which == XattrNamespace::DefaultAcl {
        return match (inode.directory(), acl) {
            (Ok(dir), acl) if dir.default_acl == acl => Ok(()),
            (Ok(_), acl) => view.change_dir(inode.ino, |inode, dir| {
                inode.touch_ctime(now);
                dir.default_acl = acl;
            }),
            (Err(_), None) => Ok(()),
            // As in Linux: EACCES, not EINVAL.
            (Err(_), Some(_)) => Err(FsError::Denied.into()),
        };
    }
    if inode.acl.is_none() && acl.is_none() {
        return Ok(());
    }
    view.change(inode.ino, |inode| {
        inode.touch_ctime(now);
        if let Some(acl) = &acl {
            let mode = FileMode(inode.mode.0 & !0o777 | acl.mode_bits());
            inode.acl = None;
            permission::set_mode(inode, mode, caller);
        }
        inode.acl = acl.filter(|acl| !acl.is_minimal());
    })
}

#[cfg(test)]
mod tests {
    use crate::RecordKind;
    use crate::acl::Acl;
    use crate::testing::*;
    use gupfs_proto::meta::{AccessMode, MetaOp, SetAttr};
    use gupfs_proto::{Caller, FileMode, FsError};

    const ACCESS: &str = "system.posix_acl_access";
    const DEFAULT: &str = "system.posix_acl_default";

    fn list() -> Acl {
        Acl {
            owner: 7,
            users: vec![(1000, 6)],
            group: 5,
            groups: vec![],
            mask: Some(7),
            other: 0,
        }
    }

    #[test]
    fn an_access_acl_decides_and_the_mode_shows_its_mask() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o600).unwrap().ino;
        let both = AccessMode::READ | AccessMode::WRITE;
        assert_eq!(
            server.open(&user(1000), file, both).map(|_| ()),
            Err(FsError::Denied)
        );
        let set = server
            .set_xattr(&root, file, ACCESS, &list().to_bytes())
            .unwrap();
        assert_eq!(
            (set.mode, server.list_xattr(&root, file)),
            (FileMode(0o770), vec![ACCESS.to_string()])
        );
        server.open(&user(1000), file, both).unwrap();
        assert_eq!(
            server.get_xattr(&user(5), file, ACCESS).unwrap(),
            list().to_bytes()
        );
        assert_eq!(
            server.set_xattr(&user(1000), file, ACCESS, &list().to_bytes()),
            Err(FsError::NotPermitted)
        );
        // chmod(2) changes the mask, which limits the named user.
        let masked = SetAttr {
            mode: Some(0o640),
            ..SetAttr::default()
        };
        server.setattr(&root, file, masked).unwrap();
        assert_eq!(
            server
                .open(&user(1000), file, AccessMode::WRITE)
                .map(|_| ()),
            Err(FsError::Denied)
        );
        server.open(&user(1000), file, AccessMode::READ).unwrap();
        server.assert_clean();
    }

    #[test]
    fn an_acl_is_stored_only_if_the_mode_alone_does_not_express_it() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o600).unwrap().ino;
        server
            .set_xattr(&root, file, ACCESS, &list().to_bytes())
            .unwrap();
        // It sets the mode.
        let plain = Acl {
            owner: 6,
            users: vec![],
            group: 4,
            groups: vec![],
            mask: None,
            other: 4,
        };
        assert_eq!(
            server
                .set_xattr(&root, file, ACCESS, &plain.to_bytes())
                .unwrap()
                .mode,
            FileMode(0o644)
        );
        assert_eq!(
            server.get_xattr(&root, file, ACCESS),
            Err(FsError::NoAttribute)
        );
        server
            .set_xattr(&root, file, ACCESS, &list().to_bytes())
            .unwrap();
        assert_eq!(
            server.remove_xattr(&root, file, ACCESS).unwrap().mode,
            FileMode(0o770)
        );
        assert_eq!(
            server.open(&user(1000), file, AccessMode::READ).map(|_| ()),
            Err(FsError::Denied)
        );
        assert_eq!(
            server.set_xattr(&root, file, ACCESS, b"nonsense"),
            Err(FsError::NotSupported)
        );
        assert_eq!(
            server.set_xattr(&root, file, DEFAULT, &list().to_bytes()),
            Err(FsError::Denied)
        );
        server.assert_clean();
    }

    #[test]
    fn a_default_acl_is_inherited_in_place_of_umask() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o777).unwrap().ino;
        server
            .set_xattr(&root, dir, DEFAULT, &list().to_bytes())
            .unwrap();
        let make = gupfs_proto::meta::CreateMode {
            mode: 0o666,
            umask: 0o077,
        };
        let op = MetaOp::Mknod {
            dir,
            name: name("f"),
            kind: gupfs_proto::FileKind::Regular,
            rdev: 0,
            create_mode: make,
        };
        let file = entry(server.request(&root, &op)).unwrap();
        assert_eq!(file.mode, FileMode(0o660));
        let inherited = Acl {
            owner: 6,
            mask: Some(6),
            ..list()
        };
        assert_eq!(
            server.get_xattr(&root, file.ino, ACCESS).unwrap(),
            inherited.to_bytes()
        );
        server
            .open(&user(1000), file.ino, AccessMode::READ | AccessMode::WRITE)
            .unwrap();
        let below = server.mkdir(&root, dir, "e", 0o755).unwrap();
        assert_eq!(
            (below.mode, server.directory(below.ino).default_acl),
            (FileMode(0o750), Some(list()))
        );
        let symlink = MetaOp::Symlink {
            dir,
            name: name("l"),
            target: b"f".to_vec(),
        };
        assert_eq!(
            entry(server.request(&root, &symlink)).unwrap().mode,
            FileMode(0o777)
        );
        server.remove_xattr(&root, dir, DEFAULT).unwrap();
        assert_eq!(
            server.create(&root, dir, "g", 0o666).unwrap().mode,
            FileMode(0o666)
        );
        assert_eq!(server.count(RecordKind::Xattr), 0);
    }
}
