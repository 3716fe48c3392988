//! stat(2), and the changes of attributes: chmod, chown, truncate, utimensat.

use super::inode_ref::InodeRef;
use super::state::Needed;
use super::walk::WalkMode;
use super::{Kernel, Quirk};
use gupfs_fuse::{
    Errno, FileHandle, FileSystem, FuseTimestamp, GetattrFlags, InitFlags, InodeAttr, LockOwner,
    Result, SetattrValid, op,
};
use tokio::time::Instant;

/// The owner of all locks: the model has one program.
pub const OWNER: LockOwner = LockOwner(1);

/// The kinds of a mode.
const KIND: u32 = 0o170_000;

/// A SETATTR that changes nothing.
fn no_change() -> op::Setattr {
    op::Setattr {
        valid: SetattrValid::empty(),
        raw_fh: FileHandle(0),
        raw_size: 0,
        raw_lock_owner: LockOwner(0),
        raw_atime: FuseTimestamp::default(),
        raw_mtime: FuseTimestamp::default(),
        raw_ctime: FuseTimestamp::default(),
        raw_mode: 0,
        raw_uid: 0,
        raw_gid: 0,
    }
}

/// The changes of attributes that programs request.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Mode(u32),
    Owner {
        uid: u32,
        gid: u32,
    },
    Size(u64),
    Times {
        atime: FuseTimestamp,
        mtime: FuseTimestamp,
    },
    TimesNow,
}

impl Change {
    /// `mode`: the inode's. `fh`: the open file of ftruncate(2).
    fn request(self, mode: u32, fh: Option<FileHandle>) -> op::Setattr {
        let mut request = no_change();
        match self {
            Change::Mode(permissions) => {
                request.valid = SetattrValid::MODE;
                request.raw_mode = mode & KIND | permissions & !KIND;
            }
            Change::Owner { uid, gid } => {
                request.valid = SetattrValid::UID | SetattrValid::GID;
                (request.raw_uid, request.raw_gid) = (uid, gid);
            }
            Change::Size(size) => {
                request.valid = SetattrValid::SIZE | SetattrValid::LOCKOWNER;
                (request.raw_size, request.raw_lock_owner) = (size, OWNER);
            }
            Change::Times { atime, mtime } => {
                request.valid = SetattrValid::ATIME | SetattrValid::MTIME;
                (request.raw_atime, request.raw_mtime) = (atime, mtime);
            }
            Change::TimesNow => {
                request.valid = SetattrValid::ATIME
                    | SetattrValid::ATIME_NOW
                    | SetattrValid::MTIME
                    | SetattrValid::MTIME_NOW;
            }
        }
        if let Some(fh) = fh {
            request.valid |= SetattrValid::FH;
            request.raw_fh = fh;
        }
        request
    }
}

impl<F: FileSystem> Kernel<F> {
    /// stat(2), or lstat(2).
    pub(super) async fn stat(
        &self,
        start: &InodeRef,
        path: &[u8],
        mode: WalkMode,
    ) -> Result<InodeAttr> {
        let inode = self.walk(start, path, mode).await?;
        self.attributes(&inode, Needed::Stat, None).await
    }

    /// Returns the attributes, from a GETATTR if the cached ones have expired. A reply that is too old for the cache still
    /// reaches the program.
    pub(super) async fn attributes(
        &self,
        inode: &InodeRef,
        needed: Needed,
        fh: Option<FileHandle>,
    ) -> Result<InodeAttr> {
        let node = inode.node();
        {
            let state = self.state();
            let known = state.node(node)?;
            if known.attributes_valid_at(Instant::now(), needed)
                || self.has_quirk(Quirk::AttributesNeverExpire)
            {
                return Ok(known.attr);
            }
        }
        let request_version = self.request_version();
        if !self.has_quirk(Quirk::AclsSurviveAttributes) {
            self.state().node_mut(node)?.drop_acl();
        }
        let flags = match fh {
            Some(_) => GetattrFlags::FH,
            None => GetattrFlags::empty(),
        };
        let reply = self.fs.getattr(self.call(node), op::Getattr { flags, fh });
        let found = self.wait_reply(reply).await?;
        let request_version = super::RequestVersion {
            evictions: None,
            ..request_version
        };
        let effect = self
            .state()
            .apply_attributes(node, found.attr, found.ttl, request_version);
        self.apply_page_effect(node, effect).await;
        if self.flags.contains(InitFlags::WRITEBACK_CACHE) {
            return Ok(self.state().node(node)?.attr);
        }
        Ok(found.attr)
    }

    pub(super) async fn change(&self, start: &InodeRef, path: &[u8], change: Change) -> Result<()> {
        let inode = self.walk(start, path, WalkMode::FOLLOW).await?;
        self.change_inode(&inode, change, None).await
    }

    /// SETATTR, under the inode's lock.
    pub(super) async fn change_inode(
        &self,
        inode: &InodeRef,
        change: Change,
        fh: Option<FileHandle>,
    ) -> Result<()> {
        let lock = inode.lock();
        let _alone = lock.write().await;
        let node = inode.node();
        let truncates = matches!(change, Change::Size(_));
        if truncates && inode.is_directory() {
            return Err(Errno::EISDIR);
        }
        let request_version = self.request_version();
        let mode = self.state().node(node)?.attr.mode;
        self.state().set_size_changes(node, truncates);
        let reply = self.fs.setattr(self.call(node), change.request(mode, fh));
        let reply = self.wait_reply(reply).await;
        self.state().set_size_changes(node, false);
        let changed = match reply {
            Err(Errno::EINTR) => {
                self.state().expire_attributes(node);
                return Err(Errno::EINTR);
            }
            other => other?,
        };
        let effect = {
            let mut state = self.state();
            let effect =
                state.apply_setattr(node, changed.attr, changed.ttl, request_version, truncates)?;
            if self.has_quirk(Quirk::SetattrRepliesNotCached) {
                state.expire_attributes(node);
            }
            effect
        };
        self.apply_page_effect(node, effect).await;
        Ok(())
    }
}
