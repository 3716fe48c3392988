use crate::acl;
use crate::key::{KeyRange, Kind, Parsed};
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::InodeId;
use gupfs_proto::meta::{Answer, XattrName};

/// listxattr(2): every name, in no promised order; `trusted.*` for root only.
pub(crate) fn list_xattr(view: &mut View, ino: InodeId) -> Outcome<Answer> {
    let inode = view.inode(ino)?;
    let mut names = Vec::new();
    if inode.acl.is_some() {
        names.push(XattrName::new(acl::ACCESS)?);
    }
    if inode.directory().is_ok_and(|dir| dir.default_acl.is_some()) {
        names.push(XattrName::new(acl::DEFAULT)?);
    }
    names.extend(inode.security.iter().map(|(name, _)| name.clone()));
    if inode.xattrs > 0 {
        let shows_trusted = view.ctx.caller.is_root();
        for (key, _) in view.scan(KeyRange::of_inode(ino, Kind::Xattr), inode.xattrs as usize)? {
            if let Some(Parsed::Xattr { name, .. }) = key.parse()
                && (shows_trusted || !name.starts_with(b"trusted."))
            {
                names.push(XattrName::new(&name)?);
            }
        }
    }
    Ok(Answer::XattrNames(names))
}
