//! Extended attributes: who may read and write which namespace, and where a value lies.

use crate::acl;
use crate::may;
use crate::record::Inode;
use bytes::Bytes;
use gupfs_proto::meta::{Access, XattrName};
use gupfs_proto::{Caller, FileKind, Mode, Refusal};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Namespace {
    User,
    Trusted,
    Security,
    AccessAcl,
    DefaultAcl,
}

/// Values of `security.*` up to here lie in the inode: a label or a file's capabilities, which the kernel reads at exec.
const INSIDE_VALUE_MAX: usize = 256;
/// And so many of them, so that an inode record stays small.
const INSIDE_MAX: usize = 4;

/// # Errors
/// `NotSupported` for namespaces that Linux has not; `Invalid` for a namespace without a name.
pub(crate) fn namespace(name: &XattrName) -> Result<Namespace, Refusal> {
    let bytes = name.as_bytes();
    match bytes {
        acl::ACCESS => return Ok(Namespace::AccessAcl),
        acl::DEFAULT => return Ok(Namespace::DefaultAcl),
        _ => {}
    }
    let prefixes: [(&[u8], Namespace); 3] = [
        (b"user.", Namespace::User),
        (b"trusted.", Namespace::Trusted),
        (b"security.", Namespace::Security),
    ];
    let found = prefixes
        .into_iter()
        .find(|(prefix, _)| bytes.starts_with(prefix));
    match found {
        Some((prefix, _)) if bytes.len() == prefix.len() => Err(Refusal::Invalid),
        Some((_, namespace)) => Ok(namespace),
        None => Err(Refusal::NotSupported),
    }
}

/// Whether the caller may read attributes of this namespace. What he may not see does not exist for him.
pub(crate) fn may_read(
    inode: &Inode,
    caller: &Caller,
    namespace: Namespace,
) -> Result<(), Refusal> {
    match namespace {
        Namespace::User if !has_user_attributes(inode) => Err(Refusal::NoAttribute),
        Namespace::User => may::access(inode, caller, Access::READ),
        Namespace::Trusted if !caller.is_root() => Err(Refusal::NoAttribute),
        Namespace::AccessAcl | Namespace::DefaultAcl => has_lists(inode),
        Namespace::Trusted | Namespace::Security => Ok(()),
    }
}

pub(crate) fn may_write(
    inode: &Inode,
    caller: &Caller,
    namespace: Namespace,
) -> Result<(), Refusal> {
    if may::is_fixed(inode) {
        return Err(Refusal::NotPermitted);
    }
    match namespace {
        Namespace::User => {
            // In a directory like /tmp, where everybody may write, only the owner marks the directory itself.
            let shared =
                inode.is_dir() && inode.mode.has(Mode::STICKY) && !may::owns(inode, caller);
            if shared || !has_user_attributes(inode) {
                return Err(Refusal::NotPermitted);
            }
            may::access(inode, caller, Access::WRITE)
        }
        Namespace::Trusted | Namespace::Security if !caller.is_root() => Err(Refusal::NotPermitted),
        Namespace::Trusted | Namespace::Security => Ok(()),
        Namespace::AccessAcl | Namespace::DefaultAcl => {
            has_lists(inode)?;
            if may::owns(inode, caller) {
                Ok(())
            } else {
                Err(Refusal::NotPermitted)
            }
        }
    }
}

/// Symbolic links and devices can be written by anybody, so nobody's attributes are kept there.
fn has_user_attributes(inode: &Inode) -> bool {
    matches!(inode.kind, FileKind::Regular | FileKind::Directory)
}

fn has_lists(inode: &Inode) -> Result<(), Refusal> {
    if inode.kind == FileKind::Symlink {
        Err(Refusal::NotSupported)
    } else {
        Ok(())
    }
}

/// The value, if it lies in the inode.
pub(crate) fn inside<'a>(inode: &'a Inode, name: &XattrName) -> Option<&'a Bytes> {
    inode
        .security
        .iter()
        .find(|(other, _)| other == name)
        .map(|(_, value)| value)
}

/// Whether a value is to lie in the inode.
pub(crate) fn fits_inside(inode: &Inode, name: &XattrName, value: &Bytes) -> bool {
    let others = inode
        .security
        .iter()
        .filter(|(other, _)| other != name)
        .count();
    name.as_bytes().starts_with(b"security.")
        && value.len() <= INSIDE_VALUE_MAX
        && others < INSIDE_MAX
}

/// What listxattr(2) may have to return: every name with its NUL.
pub(crate) fn list_bytes(inode: &Inode) -> usize {
    let inside: usize = inode
        .security
        .iter()
        .map(|(name, _)| name.as_bytes().len() + 1)
        .sum();
    let lists = [acl::ACCESS, acl::DEFAULT]
        .iter()
        .map(|name| name.len() + 1)
        .sum::<usize>();
    inode.xattr_names as usize + inside + lists
}
