use crate::acl;
use crate::driver::OpResult;
use crate::key::RecordKey;
use crate::record::XattrRecord;
use crate::view::ReadView;
use crate::xattr::{self, XattrNamespace};
use bytes::Bytes;
use gupfs_proto::meta::{MetaReplyBody, XattrName};
use gupfs_proto::{Caller, FsError, InodeId};

/// getxattr(2): returns the value; `user.*` needs read permission on the file, `trusted.*` exists only for root.
pub(crate) fn get_xattr(
    view: &mut ReadView,
    caller: &Caller,
    ino: InodeId,
    name: &XattrName,
) -> OpResult<MetaReplyBody> {
    let inode = view.inode(ino)?;
    let namespace = xattr::namespace_of(name)?;
    xattr::check_read(&inode, caller, namespace)?;
    let value = match namespace {
        XattrNamespace::AccessAcl => inode.acl.as_ref().map(acl::Acl::to_bytes).map(Bytes::from),
        XattrNamespace::DefaultAcl => match inode.directory() {
            Ok(dir) => dir
                .default_acl
                .as_ref()
                .map(acl::Acl::to_bytes)
                .map(Bytes::from),
            Err(_) => None,
        },
        XattrNamespace::Security | XattrNamespace::User | XattrNamespace::Trusted => {
            match xattr::inline_value(&inode, name) {
                Some(value) => Some(value.clone()),
                None if inode.xattrs == 0 => None,
                None => view
                    .get::<XattrRecord>(&RecordKey::xattr(ino, name.as_bytes()))?
                    .map(|XattrRecord(value)| value),
            }
        }
    };
    Ok(MetaReplyBody::Xattr(value.ok_or(FsError::NoAttribute)?))
}
