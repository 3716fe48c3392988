use crate::acl;
use crate::key::Key;
use crate::record::Xattr;
use crate::step::Outcome;
use crate::view::View;
use crate::xattr::{self, Namespace};
use bytes::Bytes;
use gupfs_proto::meta::{Answer, XattrName};
use gupfs_proto::{InodeId, Refusal};

/// getxattr(2): the value; `user.*` needs read permission on the file, `trusted.*` does not exist for who is not root.
pub(crate) fn get_xattr(view: &mut View, ino: InodeId, name: &XattrName) -> Outcome<Answer> {
    let inode = view.inode(ino)?;
    let namespace = xattr::namespace(name)?;
    xattr::may_read(&inode, view.ctx.caller, namespace)?;
    let value = match namespace {
        Namespace::AccessAcl => inode.acl.as_ref().map(acl::Acl::to_bytes).map(Bytes::from),
        Namespace::DefaultAcl => match inode.directory() {
            Ok(dir) => dir
                .default_acl
                .as_ref()
                .map(acl::Acl::to_bytes)
                .map(Bytes::from),
            Err(_) => None,
        },
        Namespace::Security | Namespace::User | Namespace::Trusted => {
            match xattr::inside(&inode, name) {
                Some(value) => Some(value.clone()),
                None if inode.xattrs == 0 => None,
                None => view
                    .get::<Xattr>(&Key::xattr(ino, name.as_bytes()))?
                    .map(|Xattr(value)| value),
            }
        }
    };
    Ok(Answer::Xattr(value.ok_or(Refusal::NoAttribute)?))
}
