//! What the session must know of an operation before it sends it. Pure.

use gupfs_proto::InodeId;
use gupfs_proto::lock::LockRequest;
use gupfs_proto::meta::MetaOp;

/// Whether a new session may send the request: it depends on no lease and no open file, and its caller holds no lock of a file.
pub fn can_use_new_session(op: &MetaOp) -> bool {
    match op {
        MetaOp::Lookup { .. }
        | MetaOp::LookupParent { .. }
        | MetaOp::GetAttr { .. }
        | MetaOp::Access { .. }
        | MetaOp::Readlink { .. }
        | MetaOp::Readdir { .. }
        | MetaOp::GetXattr { .. }
        | MetaOp::ListXattr { .. }
        | MetaOp::StatFs
        | MetaOp::GetDefaultLayout { .. }
        | MetaOp::Create { .. }
        | MetaOp::Mkdir { .. }
        | MetaOp::Mknod { .. }
        | MetaOp::Symlink { .. }
        | MetaOp::TmpFile { .. }
        | MetaOp::OpenTmpFile { .. }
        | MetaOp::Link { .. }
        | MetaOp::Unlink { .. }
        | MetaOp::Rmdir { .. }
        | MetaOp::Rename { .. } => true,
        // Opens without access rights and opens with truncation run under a file's lock.
        MetaOp::Open { open, .. } => !open.access.is_empty() && !open.truncate,
        _ => false,
    }
}

/// Whether the request reports this client's own state to the server: leases, moved inline data, forgotten orphans.
pub fn reports_own_state(op: &MetaOp) -> bool {
    matches!(
        op,
        MetaOp::EndWrite { .. }
            | MetaOp::SpillInline { .. }
            | MetaOp::Forget { .. }
            | MetaOp::CloseSession
    )
}

/// The inode that a request is about; the directory for requests about names.
pub fn inode_of(op: &MetaOp) -> Option<InodeId> {
    match op {
        MetaOp::Lookup { dir, .. }
        | MetaOp::LookupParent { dir }
        | MetaOp::Readdir { dir, .. }
        | MetaOp::Create { dir, .. }
        | MetaOp::Mkdir { dir, .. }
        | MetaOp::Mknod { dir, .. }
        | MetaOp::Symlink { dir, .. }
        | MetaOp::TmpFile { dir, .. }
        | MetaOp::OpenTmpFile { dir, .. }
        | MetaOp::Link { dir, .. }
        | MetaOp::Unlink { dir, .. }
        | MetaOp::Rmdir { dir, .. }
        | MetaOp::Rename { from: dir, .. } => Some(*dir),
        MetaOp::GetAttr { ino }
        | MetaOp::Access { ino, .. }
        | MetaOp::Readlink { ino }
        | MetaOp::GetXattr { ino, .. }
        | MetaOp::ListXattr { ino }
        | MetaOp::GetDefaultLayout { ino }
        | MetaOp::SetAttr { ino, .. }
        | MetaOp::SetXattr { ino, .. }
        | MetaOp::RemoveXattr { ino, .. }
        | MetaOp::SetDefaultLayout { ino, .. }
        | MetaOp::Open { ino, .. }
        | MetaOp::Truncate { ino, .. }
        | MetaOp::WriteInline { ino, .. }
        | MetaOp::BeginWrite { ino, .. }
        | MetaOp::SpillInline { ino, .. }
        | MetaOp::EndWrite { ino, .. }
        | MetaOp::KillPrivileges { ino }
        | MetaOp::SetFlags { ino, .. }
        | MetaOp::IssueCapability { ino, .. } => Some(*ino),
        MetaOp::Lock(LockRequest::Acquire { lock, .. } | LockRequest::Test { lock }) => {
            Some(lock.holder.ino)
        }
        MetaOp::Lock(LockRequest::Release { holder, .. }) => Some(holder.ino),
        MetaOp::StatFs
        | MetaOp::OpenSession { .. }
        | MetaOp::CloseSession
        | MetaOp::Forget { .. }
        | MetaOp::Sync { .. }
        | MetaOp::Renew
        | MetaOp::Replay { .. }
        | MetaOp::WithOpenCapability { .. }
        | MetaOp::Lock(LockRequest::Cancel { .. }) => None,
    }
}
