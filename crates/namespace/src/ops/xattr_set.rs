use crate::acl::Acl;
use crate::held;
use crate::key::Key;
use crate::ops;
use crate::record::{Inode, Xattr};
use crate::step::Outcome;
use crate::view::View;
use crate::xattr::{self, Namespace};
use bytes::Bytes;
use gupfs_proto::limits::{XATTR_LIST_MAX, XATTR_VALUE_MAX};
use gupfs_proto::meta::{Answer, XattrHow, XattrName};
use gupfs_proto::{InodeId, Mode, Refusal};

/// setxattr(2): the value is there whole or not at all; ctime is updated. Access lists are attributes too: an access list
/// sets the mode's bits with it, and is dropped if they say the same.
pub(crate) fn set_xattr(
    view: &mut View,
    ino: InodeId,
    name: &XattrName,
    value: &Bytes,
    how: XattrHow,
) -> Outcome<Answer> {
    if value.len() > XATTR_VALUE_MAX {
        return Err(Refusal::ValueTooLarge.into());
    }
    let inode = view.inode(ino)?;
    let namespace = xattr::namespace(name)?;
    xattr::may_write(&inode, view.ctx.caller, namespace)?;
    if name.as_bytes() == XattrName::CAPABILITY {
        // Its next write takes them away, and it must know that there are some.
        held::must_be_given_back(view, &inode)?;
    }
    match namespace {
        Namespace::AccessAcl | Namespace::DefaultAcl => {
            let acl = Acl::parse(value)?;
            view.must_have_room()?;
            set_acl(view, &inode, namespace, acl)?;
        }
        Namespace::Security | Namespace::User | Namespace::Trusted => {
            set_value(view, &inode, name, value, how)?
        }
    }
    Ok(Answer::Attr(view.inode(ino)?.attr()))
}

fn set_value(
    view: &mut View,
    inode: &Inode,
    name: &XattrName,
    value: &Bytes,
    how: XattrHow,
) -> Outcome<()> {
    let key = Key::xattr(inode.ino, name.as_bytes());
    let was_inside = xattr::inside(inode, name).is_some();
    let was_outside = inode.xattrs > 0 && view.get::<Xattr>(&key)?.is_some();
    let was = was_inside || was_outside;
    match how {
        XattrHow::Create if was => return Err(Refusal::Exists.into()),
        XattrHow::Replace if !was => return Err(Refusal::NoAttribute.into()),
        _ => {}
    }
    let fits_inside = xattr::fits_inside(inode, name, value);
    let name_bytes = name.as_bytes().len() + 1;
    if !was && xattr::list_bytes(inode) + name_bytes > XATTR_LIST_MAX {
        return Err(Refusal::NoSpace.into());
    }
    view.must_have_room()?;
    if fits_inside && was_outside {
        view.remove(key.clone());
    }
    if !fits_inside {
        view.put(key, &Xattr(value.clone()));
    }
    let now = view.ctx.now;
    view.change(inode.ino, |inode| {
        inode.touch(now);
        inode.security.retain(|(other, _)| other != name);
        if fits_inside {
            inode.security.push((name.clone(), value.clone()));
        }
        let (outside, before) = (!fits_inside, was_outside);
        inode.xattrs = inode.xattrs + u32::from(outside) - u32::from(before);
        inode.xattr_names = inode.xattr_names + name_bytes as u32 * u32::from(outside)
            - name_bytes as u32 * u32::from(before);
    })
}

/// Sets or takes away a list. Without an access list the mode stays as the list left it.
pub(crate) fn set_acl(
    view: &mut View,
    inode: &Inode,
    which: Namespace,
    acl: Option<Acl>,
) -> Outcome<()> {
    let caller = view.ctx.caller;
    let now = view.ctx.now;
    if which == Namespace::DefaultAcl {
        return match (inode.directory(), acl) {
            (Ok(dir), acl) if dir.default_acl == acl => Ok(()),
            (Ok(_), acl) => view.change_dir(inode.ino, |inode, dir| {
                inode.touch(now);
                dir.default_acl = acl;
            }),
            (Err(_), None) => Ok(()),
            // Linux says EACCES, not EINVAL.
            (Err(_), Some(_)) => Err(Refusal::Denied.into()),
        };
    }
    if inode.acl.is_none() && acl.is_none() {
        return Ok(());
    }
    view.change(inode.ino, |inode| {
        inode.touch(now);
        if let Some(acl) = &acl {
            let mode = Mode(inode.mode.0 & !0o777 | acl.mode_bits());
            inode.acl = None;
            ops::setattr::set_mode(inode, mode, caller);
        }
        inode.acl = acl.filter(|acl| !acl.is_minimal());
    })
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::acl::Acl;
    use crate::testing::*;
    use bytes::Bytes;
    use gupfs_proto::meta::{Access, Op, SetAttr, XattrHow};
    use gupfs_proto::{Caller, Mode, Refusal};

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
    fn values_are_found_again_and_their_records_go_with_the_file() {
        let mut server = Server::new(64);
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
            Err(Refusal::ValueTooLarge)
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
            Err(Refusal::NoAttribute)
        );
        // Short again: into the inode.
        server.set_xattr(&root, file, "security.d", b"4").unwrap();
        assert_eq!(
            (server.count(Kind::Xattr), server.inode(file).security.len()),
            (3, 1)
        );
        server.assert_clean();
        server.remove_xattr(&root, file, "security.d").unwrap();
        assert_eq!(
            server.remove_xattr(&root, file, "security.d"),
            Err(Refusal::NoAttribute)
        );
        server.unlink(&root, ROOT, "f").unwrap();
        server.forget(file);
        assert_eq!(server.count(Kind::Xattr), 0);
        server.assert_clean();
    }

    #[test]
    fn create_and_replace_say_what_was_there() {
        let mut server = Server::new(1);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        for name in ["user.a", "security.a"] {
            let mut set = |how| {
                let op = Op::SetXattr {
                    ino: file,
                    name: xattr(name),
                    value: Bytes::from_static(b"1"),
                    how,
                };
                attr(server.ask(&root, &op)).map(|_| ())
            };
            assert_eq!(set(XattrHow::Replace), Err(Refusal::NoAttribute));
            assert_eq!(set(XattrHow::Create), Ok(()));
            assert_eq!(set(XattrHow::Create), Err(Refusal::Exists));
            assert_eq!(set(XattrHow::Replace), Ok(()));
        }
    }

    #[test]
    fn names_are_bounded_in_sum_so_that_they_can_be_listed() {
        let mut server = Server::new(1);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        let name = |i: usize| format!("user.{i:0>250}");
        let full = (0..1000)
            .find(|i| server.set_xattr(&root, file, &name(*i), b"") == Err(Refusal::NoSpace));
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
    fn each_namespace_has_its_masters() {
        let mut server = Server::new(1);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        let link = entry(server.ask(
            &root,
            &Op::Symlink {
                dir: ROOT,
                name: name("l"),
                target: b"f".to_vec(),
            },
        ))
        .unwrap()
        .ino;
        let tmp = server.mkdir(&root, ROOT, "tmp", 0o1777).unwrap().ino;
        let mut set = |who: &Caller, ino, name| server.set_xattr(who, ino, name, b"1").map(|_| ());
        assert_eq!(set(&user(1000), file, "user.a"), Err(Refusal::Denied));
        assert_eq!(
            set(&user(1000), file, "trusted.a"),
            Err(Refusal::NotPermitted)
        );
        assert_eq!(
            set(&user(1000), file, "security.a"),
            Err(Refusal::NotPermitted)
        );
        assert_eq!(set(&root, link, "user.a"), Err(Refusal::NotPermitted));
        assert_eq!(set(&root, link, "trusted.a"), Ok(()));
        assert_eq!(set(&user(1000), tmp, "user.a"), Err(Refusal::NotPermitted));
        assert_eq!(set(&root, file, "os2.a"), Err(Refusal::NotSupported));
        assert_eq!(set(&root, file, "system.other"), Err(Refusal::NotSupported));
        assert_eq!(set(&root, file, "user."), Err(Refusal::Invalid));
        assert_eq!(
            server.get_xattr(&root, link, "user.a"),
            Err(Refusal::NoAttribute)
        );
    }

    #[test]
    fn an_access_list_decides_and_the_mode_shows_its_mask() {
        let mut server = Server::new(2);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o600).unwrap().ino;
        let both = Access::READ | Access::WRITE;
        assert_eq!(
            server.open(&user(1000), file, both).map(|_| ()),
            Err(Refusal::Denied)
        );
        let set = server
            .set_xattr(&root, file, ACCESS, &list().to_bytes())
            .unwrap();
        assert_eq!(
            (set.mode, server.list_xattr(&root, file)),
            (Mode(0o770), vec![ACCESS.to_string()])
        );
        server.open(&user(1000), file, both).unwrap();
        assert_eq!(
            server.get_xattr(&user(5), file, ACCESS).unwrap(),
            list().to_bytes()
        );
        assert_eq!(
            server.set_xattr(&user(1000), file, ACCESS, &list().to_bytes()),
            Err(Refusal::NotPermitted)
        );
        // chmod moves the mask: the named user is bound by it.
        let masked = SetAttr {
            mode: Some(0o640),
            ..SetAttr::default()
        };
        server.setattr(&root, file, masked).unwrap();
        assert_eq!(
            server.open(&user(1000), file, Access::WRITE).map(|_| ()),
            Err(Refusal::Denied)
        );
        server.open(&user(1000), file, Access::READ).unwrap();
        // A list that says what the mode says is none, but sets the mode.
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
            Mode(0o644)
        );
        assert_eq!(
            server.get_xattr(&root, file, ACCESS),
            Err(Refusal::NoAttribute)
        );
        server
            .set_xattr(&root, file, ACCESS, &list().to_bytes())
            .unwrap();
        assert_eq!(
            server.remove_xattr(&root, file, ACCESS).unwrap().mode,
            Mode(0o770)
        );
        assert_eq!(
            server.open(&user(1000), file, Access::READ).map(|_| ()),
            Err(Refusal::Denied)
        );
        assert_eq!(
            server.set_xattr(&root, file, ACCESS, b"nonsense"),
            Err(Refusal::NotSupported)
        );
        assert_eq!(
            server.set_xattr(&root, file, DEFAULT, &list().to_bytes()),
            Err(Refusal::Denied)
        );
        server.assert_clean();
    }

    #[test]
    fn a_default_list_is_inherited_in_place_of_umask() {
        let mut server = Server::new(2);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o777).unwrap().ino;
        server
            .set_xattr(&root, dir, DEFAULT, &list().to_bytes())
            .unwrap();
        let make = gupfs_proto::meta::Make {
            mode: 0o666,
            umask: 0o077,
        };
        let op = Op::Mknod {
            dir,
            name: name("f"),
            kind: gupfs_proto::FileKind::Regular,
            rdev: 0,
            make,
        };
        let file = entry(server.ask(&root, &op)).unwrap();
        assert_eq!(file.mode, Mode(0o660));
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
            .open(&user(1000), file.ino, Access::READ | Access::WRITE)
            .unwrap();
        let below = server.mkdir(&root, dir, "e", 0o755).unwrap();
        assert_eq!(
            (below.mode, server.directory(below.ino).default_acl),
            (Mode(0o750), Some(list()))
        );
        let symlink = Op::Symlink {
            dir,
            name: name("l"),
            target: b"f".to_vec(),
        };
        assert_eq!(
            entry(server.ask(&root, &symlink)).unwrap().mode,
            Mode(0o777)
        );
        server.remove_xattr(&root, dir, DEFAULT).unwrap();
        assert_eq!(
            server.create(&root, dir, "g", 0o666).unwrap().mode,
            Mode(0o666)
        );
        assert_eq!(server.count(Kind::Xattr), 0);
    }
}
