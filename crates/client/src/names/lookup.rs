//! Lookups and attributes. Every returned entry adds one lookup to its inode until `Client::forget`.

use super::Namespace;
use crate::inodes::{AttrVersion, OverlaidAttr};
use crate::limits::GROWTH_TRIES;
use crate::metrics::Counters;
use crate::reply;
use gupfs_proto::meta::{AccessMode, MetaOp, MetaReplyBody};
use gupfs_proto::{Attr, Caller, FsError, InodeId, Name};

impl Namespace {
    /// The inode of a name. Adds one lookup.
    pub async fn lookup(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
    ) -> Result<Attr, FsError> {
        let op = MetaOp::Lookup {
            dir,
            name: name.clone(),
        };
        self.request_entry(caller, op).await
    }

    /// The directory above a directory. Adds one lookup.
    pub async fn lookup_parent(&self, caller: &Caller, dir: InodeId) -> Result<Attr, FsError> {
        self.request_entry(caller, MetaOp::LookupParent { dir })
            .await
    }

    /// stat(2).
    pub async fn getattr(&self, caller: &Caller, ino: InodeId) -> Result<Attr, FsError> {
        tracing::trace!(target: "walk", file = file!(), "getattr");
        let file = self.inodes.get(ino);
        let mut _no_writes = None;
        for tries in 1.. {
            if tries == GROWTH_TRIES
                && let Some(file) = &file
            {
                // Its own writes move the end of the file again and again.
                _no_writes = Some(file.range_locks.whole().await);
            }
            let attr_version = self.inodes.attr_version();
            let reply = self.mds.call(caller, MetaOp::GetAttr { ino }).await?;
            let attr = reply::entry("getattr", reply)?;
            if let Some(attr) = self.overlay_attr(attr_version, attr).await? {
                return Ok(attr);
            }
            Counters::add(&self.counters.asked_again, 1);
        }
        unreachable!("the loop does not end by itself")
    }

    /// access(2), with the caller's credentials.
    pub async fn access(
        &self,
        caller: &Caller,
        ino: InodeId,
        want: AccessMode,
    ) -> Result<(), FsError> {
        reply::done(
            "access",
            self.mds.call(caller, MetaOp::Access { ino, want }).await?,
        )
    }

    pub async fn readlink(&self, caller: &Caller, ino: InodeId) -> Result<Vec<u8>, FsError> {
        match self.mds.call(caller, MetaOp::Readlink { ino }).await? {
            MetaReplyBody::LinkTarget(target) => {
                self.update_atime(ino).await;
                Ok(target)
            }
            _ => reply::unexpected("readlink"),
        }
    }

    /// Requests an entry and adds one lookup to its inode.
    pub(super) async fn request_entry(&self, caller: &Caller, op: MetaOp) -> Result<Attr, FsError> {
        let (attr_version, operation) = (self.inodes.attr_version(), op.name());
        let attr = reply::entry(operation, self.mds.call(caller, op).await?)?;
        let attr = self.current_attr(attr_version, attr).await?;
        // Last, and without an await after it: a dropped future has added no lookup.
        self.lookups.add(attr.ino);
        Ok(attr)
    }

    /// The attributes that stat(2) should return now.
    pub(super) async fn current_attr(
        &self,
        attr_version: AttrVersion,
        attr: Attr,
    ) -> Result<Attr, FsError> {
        match self.overlay_attr(attr_version, attr).await? {
            Some(attr) => Ok(attr),
            None => {
                Counters::add(&self.counters.asked_again, 1);
                self.getattr(&Caller::root(), attr.ino).await
            }
        }
    }

    /// None when the reply may be older than the file's current attributes.
    async fn overlay_attr(
        &self,
        attr_version: AttrVersion,
        attr: Attr,
    ) -> Result<Option<Attr>, FsError> {
        match self.inodes.overlay(attr_version, attr) {
            OverlaidAttr::MaybeStale => Ok(None),
            OverlaidAttr::LeaseEnding(file) => {
                file.wait_for_lease_end().await;
                Ok(None)
            }
            OverlaidAttr::Current(attr, None) => Ok(Some(attr)),
            OverlaidAttr::Current(mut attr, Some(file)) => {
                self.leases.fill_blocks(&file, &mut attr).await?;
                Ok(Some(attr))
            }
        }
    }
}
