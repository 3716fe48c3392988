//! What a reply with leases fills into the cache.

mod names;

use super::inode::{LeasedData, LeasedInode, XattrReaders};
use super::order::{Affected, CacheKey, SentAt};
use super::table::{ChangeId, LeasedValues};
use crate::lease_number::LeaseNumber;
use gupfs_proto::lease::{LeaseGrant, LeaseKey};
use gupfs_proto::meta::{
    AccessMode, MetaOp, MetaReplyBody, OpenInfo, OpenMode, RemovedName, RenameMode,
};
use gupfs_proto::{Attr, FileKind, FsError, InodeId};
use std::collections::BTreeSet;

/// A reply to a request, with the leases that came with it.
pub struct LeasedReply<'a> {
    pub op: &'a MetaOp,
    /// The caller sees `trusted.*` attributes.
    pub sees_trusted: bool,
    pub sent: SentAt,
    /// The change that the request makes.
    pub change: Option<ChangeId>,
    pub outcome: &'a Result<MetaReplyBody, FsError>,
    pub grants: &'a [LeaseGrant],
    pub changed: &'a [Attr],
}

impl LeasedValues {
    /// Fills what the reply says and grants. Ends the change, if the request made one: what its reply does not tell is dropped.
    pub fn fill(&mut self, reply: &LeasedReply<'_>) {
        tracing::trace!(target: "walk", file = file!(), "fill");
        let mut filling = Filling {
            own: self.affected_by_change(reply.change),
            sent: reply.sent,
            grants: reply.grants.iter().map(|grant| grant.key).collect(),
            kept: Vec::new(),
            xattr_change: XattrChange::of(reply.op),
            values: self,
        };
        filling.fill_attributes(reply.outcome);
        filling.fill_by_operation(reply);
        for attr in reply.changed {
            filling.update(attr);
        }
        filling.drop_doubtful_inodes(reply);
        let kept = filling.kept;
        if let Some(change) = reply.change {
            self.end_change(change, &kept);
        }
    }
}

/// What an operation may do to the extended attributes of an inode that it changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum XattrChange {
    Nothing,
    /// It changes or removes some, and adds none.
    NoneAdded,
    Any,
}

impl XattrChange {
    fn of(op: &MetaOp) -> XattrChange {
        match op {
            MetaOp::SetAttr { set, .. } if set.is_atime_report() => XattrChange::Nothing,
            MetaOp::SetAttr { .. }
            | MetaOp::RemoveXattr { .. }
            | MetaOp::SetFlags { .. }
            | MetaOp::Truncate { .. }
            | MetaOp::WriteInline { .. }
            | MetaOp::BeginWrite { .. }
            | MetaOp::BeginWriteAt { .. }
            | MetaOp::DowngradeWrite { .. }
            | MetaOp::UpgradeWrite { .. }
            | MetaOp::MarkStale { .. }
            | MetaOp::SpillInline { .. }
            | MetaOp::EndWrite { .. }
            | MetaOp::ReportWrites { .. }
            | MetaOp::KillPrivileges { .. }
            | MetaOp::Open { .. }
            | MetaOp::Create { .. }
            | MetaOp::CreateForWriting { .. }
            | MetaOp::Link { .. }
            | MetaOp::Unlink { .. }
            | MetaOp::Rename { .. } => XattrChange::NoneAdded,
            _ => XattrChange::Any,
        }
    }
}

struct Filling<'a> {
    values: &'a mut LeasedValues,
    /// What the change of this request affects.
    own: Affected,
    sent: SentAt,
    grants: BTreeSet<LeaseKey>,
    /// What of `own` the reply has told.
    kept: Vec<CacheKey>,
    xattr_change: XattrChange,
}

impl Filling<'_> {
    fn may_fill(&self, key: &CacheKey) -> bool {
        self.values.order.may_fill(key, self.sent, &self.own)
    }

    fn fill_attributes(&mut self, outcome: &Result<MetaReplyBody, FsError>) {
        match outcome {
            Ok(MetaReplyBody::Entry(attr) | MetaReplyBody::Attr(attr)) => self.fill_attr(attr),
            Ok(MetaReplyBody::Opened(opened) | MetaReplyBody::WriteBegun { opened, .. }) => {
                self.fill_attr(&opened.attr);
            }
            Ok(MetaReplyBody::Removed(RemovedName {
                attr: Some(attr), ..
            })) => self.fill_attr(attr),
            Ok(MetaReplyBody::Entries { entries, .. }) => {
                let attrs = entries.iter().filter_map(|entry| entry.attr.as_ref());
                attrs.for_each(|attr| self.fill_attr(attr));
            }
            _ => {}
        }
    }

    fn fill_attr(&mut self, attr: &Attr) {
        let ino = attr.ino;
        if self.grants.contains(&LeaseKey::Attributes(ino)) {
            if self.update(attr) {
                return;
            }
            let keys = [CacheKey::Attributes(ino), CacheKey::Times(ino)];
            if keys.iter().all(|key| self.may_fill(key)) {
                self.values.inodes.insert(ino, LeasedInode::new(*attr), 1);
                self.kept.extend(keys);
            }
            return;
        }
        // The program sees this: an older value must not follow.
        let known = self.values.inodes.peek(&ino);
        if known.is_some_and(|known| known.attr.change < attr.change) {
            self.values.inodes.remove(&ino);
        }
    }

    /// Updates a value that has been leased without a break since before this change or read; of two, the one with the higher `change` is the
    /// newer. False if there is none.
    fn update(&mut self, attr: &Attr) -> bool {
        let key = CacheKey::Attributes(attr.ino);
        let Some(known) = self.values.inodes.peek(&attr.ino) else {
            return false;
        };
        let is_newer = known.attr.change <= attr.change;
        // Whatever came first: a report of an access time may have raised `change` since.
        let xattr_change = match self.own.keys.contains(&key) {
            true => self.xattr_change,
            false => XattrChange::Nothing,
        };
        if is_newer || xattr_change != XattrChange::Nothing {
            self.values.inodes.update(&attr.ino, |inode| {
                if is_newer {
                    inode.attr = *attr;
                }
                match xattr_change {
                    XattrChange::Nothing => {}
                    XattrChange::NoneAdded => inode.forget_present_xattrs(),
                    XattrChange::Any => inode.forget_xattrs(),
                }
                inode.weight()
            });
        }
        self.kept.extend([key, CacheKey::Times(attr.ino)]);
        true
    }

    fn fill_by_operation(&mut self, reply: &LeasedReply<'_>) {
        match (reply.op, reply.outcome) {
            (MetaOp::Lookup { dir, name }, Err(FsError::NotFound)) => {
                self.fill_name(*dir, name, None);
            }
            (
                MetaOp::Lookup { dir, name }
                | MetaOp::Link { dir, name, .. }
                | MetaOp::Symlink { dir, name, .. },
                Ok(MetaReplyBody::Entry(attr)),
            ) => self.fill_name(*dir, name, Some(attr)),
            (MetaOp::Mknod { dir, name, .. }, Ok(MetaReplyBody::Entry(attr))) => {
                self.fill_name(*dir, name, Some(attr));
                self.add(attr.ino, LeasedInode::set_new);
            }
            (MetaOp::Mkdir { dir, name, .. }, Ok(MetaReplyBody::Entry(attr))) => {
                self.fill_name(*dir, name, Some(attr));
                self.fill_new_directory(attr.ino);
            }
            (
                MetaOp::Create { dir, name, .. } | MetaOp::CreateForWriting { dir, name, .. },
                Ok(MetaReplyBody::Opened(opened) | MetaReplyBody::WriteBegun { opened, .. }),
            ) => {
                self.fill_name(*dir, name, Some(&opened.attr));
                if opened.created {
                    self.add(opened.attr.ino, LeasedInode::set_new);
                }
            }
            (MetaOp::OpenTmpFile { .. }, Ok(MetaReplyBody::Opened(opened))) => {
                self.add(opened.attr.ino, LeasedInode::set_new);
            }
            (MetaOp::Unlink { dir, name } | MetaOp::Rmdir { dir, name }, Ok(_)) => {
                self.fill_name(*dir, name, None);
            }
            (
                MetaOp::Rename {
                    from,
                    name,
                    to,
                    new_name,
                    mode: RenameMode::Replace | RenameMode::NoReplace,
                },
                Ok(MetaReplyBody::Removed(RemovedName {
                    // Without them the two names referred to one inode, and both stay.
                    attr: Some(attr),
                    ..
                })),
            ) => {
                self.fill_moved_name((*from, name), (*to, new_name), attr.ino);
                self.fill_name(*from, name, None);
                self.fill_name(*to, new_name, Some(attr));
            }
            (MetaOp::Readdir { dir, after, .. }, Ok(MetaReplyBody::Entries { entries, end })) => {
                self.fill_names(*dir, entries);
                self.fill_listing(*dir, *after, entries, *end);
            }
            (MetaOp::Open { ino, open }, Ok(MetaReplyBody::Opened(opened))) if !open.truncate => {
                self.fill_opened(*ino, *open, opened);
            }
            (MetaOp::BeginRead { ino }, Ok(MetaReplyBody::Opened(opened))) => {
                self.fill_opened(*ino, OpenMode::REOPEN, opened);
            }
            (MetaOp::Readlink { ino }, Ok(MetaReplyBody::LinkTarget(target))) => {
                self.add(*ino, |inode| inode.link_target = Some(target.clone()));
            }
            (MetaOp::GetXattr { ino, name }, outcome)
                if XattrReaders::of(name) != XattrReaders::Unknown =>
            {
                let value = match outcome {
                    Ok(MetaReplyBody::Xattr(value)) => Some(value.clone()),
                    Err(FsError::NoAttribute) => None,
                    _ => return,
                };
                self.add(*ino, |inode| inode.put_xattr(name, value));
            }
            (MetaOp::ListXattr { ino }, Ok(MetaReplyBody::XattrNames(names))) => {
                let seen_by = usize::from(reply.sees_trusted);
                self.add(*ino, |inode| {
                    inode.xattr_names[seen_by] = Some(names.clone());
                });
            }
            _ => {}
        }
    }

    /// Adds something that the lease on the attributes covers.
    fn add(&mut self, ino: InodeId, add: impl FnOnce(&mut LeasedInode)) {
        let granted = self.grants.contains(&LeaseKey::Attributes(ino));
        if !granted || !self.may_fill(&CacheKey::Attributes(ino)) {
            return;
        }
        self.values.inodes.update(&ino, |inode| {
            add(inode);
            inode.limited_weight()
        });
    }

    fn fill_opened(&mut self, ino: InodeId, open: OpenMode, opened: &OpenInfo) {
        // A later open gets the same capability if it has the same rights.
        let is_for_reading = open.access == AccessMode::READ;
        let given = is_for_reading.then(|| opened.capability.clone());
        match opened.attr.kind {
            FileKind::Directory if is_for_reading => self.add(ino, |inode| inode.open_dir = given),
            FileKind::Regular => self.fill_data(ino, opened, given),
            _ => {}
        }
    }

    fn fill_data(
        &mut self,
        ino: InodeId,
        opened: &OpenInfo,
        given: Option<Option<gupfs_proto::capability::Capability>>,
    ) {
        let key = CacheKey::Data(ino);
        let known = self.values.data.remove(&ino);
        let is_same =
            |known: &LeasedData| known.layout == opened.layout && known.inline == opened.inline;
        let known = known.filter(is_same);
        let granted = self.grants.contains(&LeaseKey::Data(ino)) && self.may_fill(&key);
        if granted || known.is_some() {
            let number = known.as_ref().map(|known| known.number);
            let data = LeasedData {
                number: number.unwrap_or_else(LeaseNumber::next),
                layout: opened.layout.clone(),
                inline: opened.inline.clone(),
                open: given.or_else(|| known.and_then(|known| known.open)),
            };
            let weight = data.weight();
            self.values.data.insert(ino, data, weight);
        }
    }

    /// Inodes that the change may have changed, and of which its reply does not say how they are now.
    fn drop_doubtful_inodes(&mut self, reply: &LeasedReply<'_>) {
        match reply.outcome {
            Ok(MetaReplyBody::Removed(removed)) => {
                let moved = removed.attr.map(|attr| attr.ino);
                for ino in removed.victim.iter().chain(&moved) {
                    self.doubt_attributes(*ino);
                }
                if let Some(victim) = removed.victim {
                    self.doubt_data(victim);
                }
                // Only the leases tell which inode an exchange has moved the other way; the reply to a repeated request has none.
                if self.own.any_inode && is_exchange(reply.op) && reply.changed.is_empty() {
                    self.values.drop_all_inodes();
                }
            }
            Ok(MetaReplyBody::Opened(opened)) if truncates(reply.op) => {
                self.doubt_attributes(opened.attr.ino);
                self.doubt_data(opened.attr.ino);
                self.values.inodes.update(&opened.attr.ino, |inode| {
                    inode.forget_present_xattrs();
                    inode.weight()
                });
            }
            Err(error) if self.own.any_inode && !changes_nothing(error) => {
                self.values.drop_all_inodes();
            }
            _ => {}
        }
    }

    /// The change has changed this inode; perhaps this client knows that only from the reply.
    fn doubt_attributes(&mut self, ino: InodeId) {
        let key = CacheKey::Attributes(ino);
        if !self.kept.contains(&key) {
            self.values.inodes.remove(&ino);
        }
        self.values.order.void(key);
    }

    fn doubt_data(&mut self, ino: InodeId) {
        self.values.data.remove(&ino);
        self.values.order.void(CacheKey::Data(ino));
    }
}

fn is_exchange(op: &MetaOp) -> bool {
    let MetaOp::Rename { mode, .. } = op else {
        return false;
    };
    *mode == RenameMode::Exchange
}

fn truncates(op: &MetaOp) -> bool {
    matches!(op, MetaOp::Create { open, .. } | MetaOp::CreateForWriting { open, .. } | MetaOp::Open { open, .. } if open.truncate)
}

/// Whether a server that refuses an operation for this reason has changed nothing.
fn changes_nothing(error: &FsError) -> bool {
    matches!(
        error,
        FsError::NotFound
            | FsError::Exists
            | FsError::NotDirectory
            | FsError::IsDirectory
            | FsError::NotEmpty
            | FsError::Denied
            | FsError::NotPermitted
            | FsError::IntoItself
            | FsError::Busy
            | FsError::ReadOnly
    )
}
