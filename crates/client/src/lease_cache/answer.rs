//! Answers from leased values, as the server would give them. What this client does not know for certain, it leaves to the server.

use super::inode::{LeasedInode, XattrReaders};
use super::order::CacheKey;
use super::table::LeasedValues;
use gupfs_proto::limits::READDIR_ENTRIES_MAX;
use gupfs_proto::meta::{AccessMode, DirEntry, MetaOp, MetaReplyBody, OpenInfo, OpenMode};
use gupfs_proto::{Attr, Caller, FileKind, FsError, InodeId, Layout, Name};

/// Whether leases can answer operations of this kind.
pub fn is_answerable(op: &MetaOp) -> bool {
    match op {
        MetaOp::Lookup { .. }
        | MetaOp::LookupParent { .. }
        | MetaOp::GetAttr { .. }
        | MetaOp::Access { .. }
        | MetaOp::Readlink { .. }
        | MetaOp::Readdir { .. }
        | MetaOp::GetXattr { .. }
        | MetaOp::ListXattr { .. } => true,
        MetaOp::Open { open, .. } => {
            let only_reads = open.is_reopen() || open.access == AccessMode::READ;
            only_reads && !open.truncate && !open.kill_privileges
        }
        _ => false,
    }
}

impl LeasedValues {
    /// The server's reply to the operation, if leases tell it. `caller` as the server sees it. `is_open`: this session can prove that it has
    /// the operation's subject open for reading.
    pub fn answer(
        &mut self,
        caller: &Caller,
        op: &MetaOp,
        is_open: bool,
    ) -> Option<Result<MetaReplyBody, FsError>> {
        let found = match op {
            MetaOp::Lookup { dir, name } => return self.lookup(caller, *dir, name),
            MetaOp::LookupParent { dir } => {
                self.check(*dir, caller, AccessMode::EXECUTE, is_open)?;
                MetaReplyBody::Entry(self.parent(*dir)?)
            }
            MetaOp::GetAttr { ino } => MetaReplyBody::Attr(self.attr(*ino)?),
            MetaOp::Access { ino, want } => {
                self.check(*ino, caller, *want, false)?;
                MetaReplyBody::Done
            }
            MetaOp::Readlink { ino } => {
                MetaReplyBody::LinkTarget(self.inode(*ino)?.link_target.clone()?)
            }
            MetaOp::GetXattr { ino, name } => {
                match XattrReaders::of(name) {
                    XattrReaders::Everybody => {}
                    XattrReaders::FileReaders => {
                        self.check(*ino, caller, AccessMode::READ, false)?
                    }
                    XattrReaders::Unknown => return None,
                }
                match self.inode(*ino)?.xattr(name)? {
                    Some(value) => MetaReplyBody::Xattr(value.clone()),
                    None => return Some(Err(FsError::NoAttribute)),
                }
            }
            MetaOp::ListXattr { ino } => {
                MetaReplyBody::XattrNames(self.inode(*ino)?.xattr_names(caller.is_root())?)
            }
            MetaOp::Readdir {
                dir,
                after,
                limit,
                plus,
            } => {
                self.check(*dir, caller, AccessMode::READ, is_open)?;
                self.page(*dir, *after, *limit, *plus)?
            }
            MetaOp::Open { ino, open } if is_answerable(op) => {
                MetaReplyBody::Opened(self.open(caller, *ino, *open, is_open)?)
            }
            _ => return None,
        };
        Some(Ok(found))
    }

    /// All that a lease on attributes covers; None also while a change of this client is under way that may change more than times and
    /// counts.
    fn inode(&mut self, ino: InodeId) -> Option<&LeasedInode> {
        match self.order.is_blocked(&CacheKey::Attributes(ino)) {
            true => None,
            false => self.inodes.get(&ino),
        }
    }

    fn attr(&mut self, ino: InodeId) -> Option<Attr> {
        match self.order.is_blocked(&CacheKey::Times(ino)) {
            true => None,
            false => self.inode(ino).map(|inode| inode.attr),
        }
    }

    /// Some if the caller has this access for certain.
    fn check(
        &mut self,
        ino: InodeId,
        caller: &Caller,
        want: AccessMode,
        is_open: bool,
    ) -> Option<()> {
        if is_open {
            return Some(());
        }
        let check = self
            .inode(ino)?
            .with_protection(|protection| protection.check(caller, want));
        check?.ok()
    }

    fn lookup(
        &mut self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
    ) -> Option<Result<MetaReplyBody, FsError>> {
        if self.inode(dir)?.attr.kind != FileKind::Directory {
            return None;
        }
        self.check(dir, caller, AccessMode::EXECUTE, false)?;
        match self.target(dir, name)? {
            Some(ino) => Some(Ok(MetaReplyBody::Entry(self.attr(ino)?))),
            None => Some(Err(FsError::NotFound)),
        }
    }

    fn target(&mut self, dir: InodeId, name: &Name) -> Option<Option<InodeId>> {
        if self.order.is_name_blocked(dir, name) {
            return None;
        }
        if let Some(target) = self.names.use_target(dir, name) {
            return Some(target);
        }
        // Changes of this client that are under way are of other names.
        self.listings.get(&dir)?.target(name)
    }

    fn parent(&mut self, dir: InodeId) -> Option<Attr> {
        if dir == InodeId::ROOT {
            return self.attr(dir);
        }
        let (parent, name) = self.names.name_of_directory(dir)?.clone();
        match self.order.is_name_blocked(parent, &name) {
            true => None,
            false => self.attr(parent),
        }
    }

    /// With attributes only if those of every entry are known.
    fn page(&mut self, dir: InodeId, after: u64, limit: u32, plus: bool) -> Option<MetaReplyBody> {
        if self.order.is_blocked(&CacheKey::Names(dir)) {
            return None;
        }
        let limit = (limit as usize).clamp(1, READDIR_ENTRIES_MAX);
        let (page, end) = self.listings.get(&dir)?.page(after, limit)?;
        let mut entries: Vec<DirEntry> = page.to_vec();
        if plus {
            for entry in &mut entries {
                entry.attr = Some(self.attr(entry.ino)?);
            }
        }
        Some(MetaReplyBody::Entries { entries, end })
    }

    /// An open for reading, or a reopen of what is open here.
    fn open(
        &mut self,
        caller: &Caller,
        ino: InodeId,
        open: OpenMode,
        is_open: bool,
    ) -> Option<OpenInfo> {
        let attr = self.attr(ino)?;
        // Who may open a file without a name, the server knows.
        if attr.nlink == 0 {
            return None;
        }
        let is_reopen = open.is_reopen();
        self.check(ino, caller, AccessMode::READ, is_reopen && is_open)?;
        let (layout, inline, capability) = match attr.kind {
            FileKind::Directory if !is_reopen => {
                let given = self.inode(ino)?.open_dir.clone()?;
                (Layout::default(), None, given)
            }
            FileKind::Regular if !self.order.is_blocked(&CacheKey::Data(ino)) => {
                let data = self.data.get(&ino)?;
                let given = match is_reopen {
                    true => data.open.clone().flatten(),
                    false => data.open.clone()?,
                };
                (data.layout.clone(), data.inline.clone(), given)
            }
            _ => return None,
        };
        Some(OpenInfo {
            attr,
            layout,
            inline,
            created: false,
            capability,
        })
    }
}
