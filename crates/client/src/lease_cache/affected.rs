//! What a change of this client may change. A wrong answer here lets this client show what it has changed itself, so the match is
//! exhaustive.

use super::order::{Affected, CacheKey};
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{InodeId, Name};

/// `target` tells which inode a name refers to, or that there is none; where it does not, any inode may be affected.
pub fn affected_by(
    op: &MetaOp,
    target: impl Fn(InodeId, &Name) -> Option<Option<InodeId>>,
) -> Affected {
    let mut affected = Affected::default();
    match op {
        MetaOp::Create {
            dir, name, open, ..
        }
        | MetaOp::CreateForWriting {
            dir, name, open, ..
        } => {
            affected.add_name(*dir, name);
            if open.truncate {
                affected.add_target(target(*dir, name));
            }
        }
        MetaOp::Mkdir { dir, name, .. }
        | MetaOp::Mknod { dir, name, .. }
        | MetaOp::Symlink { dir, name, .. } => affected.add_name(*dir, name),
        MetaOp::TmpFile { dir, .. } | MetaOp::OpenTmpFile { dir, .. } => {
            affected.add(CacheKey::Times(*dir));
        }
        MetaOp::Link { ino, dir, name } => {
            affected.add_name(*dir, name);
            affected.add_inode(*ino);
        }
        MetaOp::Unlink { dir, name } | MetaOp::Rmdir { dir, name } => {
            affected.add_name(*dir, name);
            affected.add_target(target(*dir, name));
        }
        MetaOp::Rename {
            from,
            name,
            to,
            new_name,
            ..
        } => {
            affected.add_name(*from, name);
            affected.add_target(target(*from, name));
            affected.add_name(*to, new_name);
            affected.add_target(target(*to, new_name));
        }
        MetaOp::SetAttr { ino, .. }
        | MetaOp::SetXattr { ino, .. }
        | MetaOp::RemoveXattr { ino, .. }
        | MetaOp::SetDefaultLayout { ino, .. }
        | MetaOp::SetFlags { ino, .. }
        | MetaOp::Truncate { ino, .. }
        | MetaOp::WriteInline { ino, .. }
        | MetaOp::BeginWrite { ino, .. }
        | MetaOp::BeginWriteAt { ino, .. }
        | MetaOp::DowngradeWrite { ino, .. }
        | MetaOp::UpgradeWrite { ino }
        | MetaOp::MarkStale { ino, .. }
        | MetaOp::SpillInline { ino, .. }
        | MetaOp::EndWrite { ino, .. }
        | MetaOp::ReportWrites { ino, .. }
        | MetaOp::KillPrivileges { ino } => affected.add_inode(*ino),
        MetaOp::Open { ino, open } => {
            if open.truncate || open.kill_privileges {
                affected.add_inode(*ino);
            }
        }
        MetaOp::Forget { inodes } => inodes.iter().for_each(|ino| affected.add_inode(*ino)),
        // The client wraps an operation only when it sends it.
        MetaOp::WithOpenCapability { .. } => affected.any_inode = true,
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
        | MetaOp::ConvertLayout { .. }
        | MetaOp::OpenSession { .. }
        | MetaOp::CloseSession
        | MetaOp::Sync { .. }
        | MetaOp::Renew
        | MetaOp::Replay { .. }
        | MetaOp::IssueCapability { .. }
        | MetaOp::Lock(_)
        | MetaOp::AcceptLeases
        | MetaOp::NameJobs { .. }
        | MetaOp::BeginRead { .. } => {}
    }
    affected
}

impl Affected {
    fn add(&mut self, key: CacheKey) {
        if !self.keys.contains(&key) {
            self.keys.push(key);
        }
    }

    fn add_inode(&mut self, ino: InodeId) {
        self.add(CacheKey::Attributes(ino));
        self.add(CacheKey::Data(ino));
    }

    /// A name is added to the directory, removed, or refers to another inode.
    fn add_name(&mut self, dir: InodeId, name: &Name) {
        self.add(CacheKey::Times(dir));
        self.add(CacheKey::Names(dir));
        self.add(CacheKey::Name(dir, name.clone()));
    }

    fn add_target(&mut self, target: Option<Option<InodeId>>) {
        match target {
            Some(Some(ino)) => self.add_inode(ino),
            // If the name is absent, the operation fails or replaces nothing.
            Some(None) => {}
            None => self.any_inode = true,
        }
    }
}
