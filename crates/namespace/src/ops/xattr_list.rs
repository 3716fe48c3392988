use crate::acl;
use crate::driver::OpResult;
use crate::key::{KeyRange, ParsedKey, RecordKind};
use crate::view::ReadView;
use gupfs_proto::meta::{MetaReplyBody, XattrName};
use gupfs_proto::{Caller, InodeId};

/// listxattr(2): returns every name, in no particular order; `trusted.*` for root only.
pub(crate) fn list_xattr(
    view: &mut ReadView,
    caller: &Caller,
    ino: InodeId,
) -> OpResult<MetaReplyBody> {
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
        let shows_trusted = caller.is_root();
        for (key, _) in view.scan(
            KeyRange::of_inode(ino, RecordKind::Xattr),
            inode.xattrs as usize,
        )? {
            if let Some(ParsedKey::Xattr { name, .. }) = key.parse()
                && (shows_trusted || !name.starts_with(b"trusted."))
            {
                names.push(XattrName::new(&name)?);
            }
        }
    }
    Ok(MetaReplyBody::XattrNames(names))
}
