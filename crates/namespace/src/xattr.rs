//! Extended attributes: the permissions of each namespace, and whether a value is stored in the inode or in its own record.

use crate::acl;
use crate::permission;
use crate::record::Inode;
use bytes::Bytes;
use gupfs_proto::meta::{AccessMode, XattrName};
use gupfs_proto::{Caller, FileKind, FileMode, FsError};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum XattrNamespace {
    User,
    Trusted,
    Security,
    AccessAcl,
    DefaultAcl,
}

/// Values of `security.*` up to this size are stored in the inode: a label or a file's capabilities, which the kernel reads at
/// exec.
const INLINE_VALUE_MAX: usize = 256;
/// At most this many attributes are stored in the inode, so that its record stays small.
const INLINE_COUNT_MAX: usize = 4;

/// # Errors
/// `NotSupported` for namespaces that Linux does not have; `Invalid` for a namespace without a name.
pub(crate) fn namespace_of(name: &XattrName) -> Result<XattrNamespace, FsError> {
    let bytes = name.as_bytes();
    match bytes {
        acl::ACCESS => return Ok(XattrNamespace::AccessAcl),
        acl::DEFAULT => return Ok(XattrNamespace::DefaultAcl),
        _ => {}
    }
    let prefixes: [(&[u8], XattrNamespace); 3] = [
        (b"user.", XattrNamespace::User),
        (b"trusted.", XattrNamespace::Trusted),
        (b"security.", XattrNamespace::Security),
    ];
    let found = prefixes
        .into_iter()
        .find(|(prefix, _)| bytes.starts_with(prefix));
    match found {
        Some((prefix, _)) if bytes.len() == prefix.len() => Err(FsError::Invalid),
        Some((_, namespace)) => Ok(namespace),
        None => Err(FsError::NotSupported),
    }
}

/// Whether the caller may read attributes of this namespace. Attributes that it may not see do not exist for it (`NoAttribute`).
pub(crate) fn check_read(
    inode: &Inode,
    caller: &Caller,
    namespace: XattrNamespace,
) -> Result<(), FsError> {
    match namespace {
        XattrNamespace::User if !supports_user_xattrs(inode) => Err(FsError::NoAttribute),
        XattrNamespace::User => permission::check_access(inode, caller, AccessMode::READ),
        XattrNamespace::Trusted if !caller.is_root() => Err(FsError::NoAttribute),
        XattrNamespace::AccessAcl | XattrNamespace::DefaultAcl => check_supports_acl(inode),
        XattrNamespace::Trusted | XattrNamespace::Security => Ok(()),
    }
}

pub(crate) fn check_write(
    inode: &Inode,
    caller: &Caller,
    namespace: XattrNamespace,
) -> Result<(), FsError> {
    if permission::is_immutable_or_append_only(inode) {
        return Err(FsError::NotPermitted);
    }
    match namespace {
        XattrNamespace::User => {
            // In a sticky directory such as /tmp, where all users may write, only the owner sets attributes of the directory
            // itself.
            let shared = inode.is_dir()
                && inode.mode.has(FileMode::STICKY)
                && !permission::is_owner_or_root(inode, caller);
            if shared || !supports_user_xattrs(inode) {
                return Err(FsError::NotPermitted);
            }
            permission::check_access(inode, caller, AccessMode::WRITE)
        }
        XattrNamespace::Trusted | XattrNamespace::Security if !caller.is_root() => {
            Err(FsError::NotPermitted)
        }
        XattrNamespace::Trusted | XattrNamespace::Security => Ok(()),
        XattrNamespace::AccessAcl | XattrNamespace::DefaultAcl => {
            check_supports_acl(inode)?;
            if permission::is_owner_or_root(inode, caller) {
                Ok(())
            } else {
                Err(FsError::NotPermitted)
            }
        }
    }
}

/// Regular files and directories support them: the permission bits of symbolic links and special files do not limit who writes
/// (xattr(7)).
fn supports_user_xattrs(inode: &Inode) -> bool {
    matches!(inode.kind, FileKind::Regular | FileKind::Directory)
}

fn check_supports_acl(inode: &Inode) -> Result<(), FsError> {
    if inode.kind == FileKind::Symlink {
        Err(FsError::NotSupported)
    } else {
        Ok(())
    }
}

/// The value, if it is stored in the inode.
pub(crate) fn inline_value<'a>(inode: &'a Inode, name: &XattrName) -> Option<&'a Bytes> {
    inode
        .security
        .iter()
        .find(|(other, _)| other == name)
        .map(|(_, value)| value)
}

/// Whether the value will be stored in the inode.
pub(crate) fn fits_inline(inode: &Inode, name: &XattrName, value: &Bytes) -> bool {
    let others = inode
        .security
        .iter()
        .filter(|(other, _)| other != name)
        .count();
    name.as_bytes().starts_with(b"security.")
        && value.len() <= INLINE_VALUE_MAX
        && others < INLINE_COUNT_MAX
}

/// The largest result of listxattr(2) in bytes: every name with its NUL.
pub(crate) fn listxattr_len(inode: &Inode) -> usize {
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
