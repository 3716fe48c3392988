use crate::key::Key;
use crate::ops::xattr_set::set_acl;
use crate::record::Xattr;
use crate::step::Outcome;
use crate::view::View;
use crate::xattr::{self, Namespace};
use gupfs_proto::meta::{Answer, XattrName};
use gupfs_proto::{InodeId, Refusal};

/// removexattr(2): the attribute is gone; ctime is updated. Taking away an access list that is not there succeeds.
pub(crate) fn remove_xattr(view: &mut View, ino: InodeId, name: &XattrName) -> Outcome<Answer> {
    let inode = view.inode(ino)?;
    let namespace = xattr::namespace(name)?;
    xattr::may_write(&inode, view.ctx.caller, namespace)?;
    let now = view.ctx.now;
    match namespace {
        Namespace::AccessAcl | Namespace::DefaultAcl => set_acl(view, &inode, namespace, None)?,
        Namespace::Security | Namespace::User | Namespace::Trusted
            if xattr::inside(&inode, name).is_some() =>
        {
            view.change(ino, |inode| {
                inode.touch(now);
                inode.security.retain(|(other, _)| other != name);
            })?;
        }
        Namespace::Security | Namespace::User | Namespace::Trusted => {
            let key = Key::xattr(ino, name.as_bytes());
            if inode.xattrs == 0 || view.get::<Xattr>(&key)?.is_none() {
                return Err(Refusal::NoAttribute.into());
            }
            view.remove(key);
            view.change(ino, |inode| {
                inode.touch(now);
                inode.xattrs -= 1;
                inode.xattr_names -= name.as_bytes().len() as u32 + 1;
            })?;
        }
    }
    Ok(Answer::Attr(view.inode(ino)?.attr()))
}
