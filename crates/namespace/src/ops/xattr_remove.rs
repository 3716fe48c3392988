use crate::driver::OpResult;
use crate::key::RecordKey;
use crate::ops::acl_change;
use crate::record::XattrRecord;
use crate::view::OpView;
use crate::xattr::{self, XattrNamespace};
use gupfs_proto::meta::{MetaReplyBody, XattrName};
use gupfs_proto::{Caller, FsError, InodeId};

/// removexattr(2): removes the attribute; ctime is updated. Removing an ACL that does not exist succeeds.
pub(crate) fn remove_xattr(
    view: &mut OpView,
    caller: &Caller,
    ino: InodeId,
    name: &XattrName,
) -> OpResult<MetaReplyBody> {
    let inode = view.inode(ino)?;
    let namespace = xattr::namespace_of(name)?;
    xattr::check_write(&inode, caller, namespace)?;
    let now = view.now();
    match namespace {
        XattrNamespace::AccessAcl | XattrNamespace::DefaultAcl => {
            acl_change::set_acl(view, caller, &inode, namespace, None)?
        }
        XattrNamespace::Security | XattrNamespace::User | XattrNamespace::Trusted
            if xattr::inline_value(&inode, name).is_some() =>
        {
            view.change(ino, |inode| {
                inode.touch_ctime(now);
                inode.security.retain(|(other, _)| other != name);
            })?;
        }
        XattrNamespace::Security | XattrNamespace::User | XattrNamespace::Trusted => {
            let key = RecordKey::xattr(ino, name.as_bytes());
            if inode.xattrs == 0 || view.get::<XattrRecord>(&key)?.is_none() {
                return Err(FsError::NoAttribute.into());
            }
            view.remove(key);
            view.change(ino, |inode| {
                inode.touch_ctime(now);
                inode.xattrs -= 1;
                inode.xattr_names -= name.as_bytes().len() as u32 + 1;
            })?;
        }
    }
    Ok(MetaReplyBody::Attr(view.inode(ino)?.attr()))
}
