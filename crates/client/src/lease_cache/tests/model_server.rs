//! The true state of a few names and inodes, what each operation does to it, and which leases the client under test has.

use super::{attr, name};
use bytes::Bytes;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::lease::{GrantNumber, LeaseGrant, LeaseKey, LeaseReply, LeaseRevocation};
use gupfs_proto::meta::*;
use gupfs_proto::{Attr, FileKind, FileMode, FsError, InodeId, Layout, Name, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

pub type Outcome = Result<MetaReplyBody, FsError>;

pub const DIRS: [InodeId; 2] = [InodeId(1), InodeId(2)];
pub const NAMES: u64 = 5;

pub fn xattr() -> XattrName {
    XattrName::new(b"security.label").unwrap()
}

pub fn nth_name(number: u64) -> Name {
    name(&format!("n{number}"))
}

fn number_of(name: &Name) -> u64 {
    u64::from(name.as_bytes()[1] - b'0')
}

/// The first two names have one hash.
fn hash(name: &Name) -> u64 {
    7 + number_of(name).max(1)
}

fn cookie(name: &Name) -> u64 {
    hash(name) << 8 | u64::from(number_of(name) == 1)
}

#[derive(Clone)]
struct Inode {
    attr: Attr,
    label: Option<Bytes>,
    bytes: Bytes,
}

#[derive(Clone, Default)]
pub struct Truth {
    names: BTreeMap<(InodeId, Name), InodeId>,
    inodes: BTreeMap<InodeId, Inode>,
    newest: u64,
}

impl Truth {
    pub fn new() -> Truth {
        let mut truth = Truth::default();
        for dir in DIRS {
            truth.add(dir, FileKind::Directory);
        }
        truth.newest = 2;
        truth
    }

    fn add(&mut self, ino: InodeId, kind: FileKind) {
        let inode = Inode {
            attr: Attr {
                flags: InodeFlags::NO_XATTRS,
                ..attr(ino.0, kind, 1)
            },
            label: None,
            bytes: Bytes::new(),
        };
        self.inodes.insert(ino, inode);
    }

    pub fn files(&self) -> Vec<InodeId> {
        self.inodes.keys().copied().collect()
    }

    fn get(&mut self, ino: InodeId) -> Result<&mut Inode, FsError> {
        self.inodes.get_mut(&ino).ok_or(FsError::Stale)
    }

    fn target(&self, dir: InodeId, name: &Name) -> Result<InodeId, FsError> {
        let found = self.names.get(&(dir, name.clone()));
        found.copied().ok_or(FsError::NotFound)
    }

    fn set_name(&mut self, dir: InodeId, name: &Name, ino: Option<InodeId>) {
        let key = (dir, name.clone());
        match ino {
            Some(ino) => self.names.insert(key, ino),
            None => self.names.remove(&key),
        };
        self.touch(dir);
    }

    fn touch(&mut self, ino: InodeId) {
        self.inodes.get_mut(&ino).unwrap().attr.change += 1;
    }

    /// An inode without a name stays.
    fn unlink(&mut self, ino: InodeId) -> RemovedName {
        let attr = &mut self.inodes.get_mut(&ino).unwrap().attr;
        attr.nlink -= 1;
        attr.change += 1;
        RemovedName {
            victim: Some(ino),
            is_orphan: attr.nlink == 0,
            attr: None,
        }
    }

    pub fn execute(&mut self, op: &MetaOp) -> Outcome {
        match op {
            MetaOp::Lookup { dir, name } => {
                let ino = self.target(*dir, name)?;
                Ok(MetaReplyBody::Entry(self.get(ino)?.attr))
            }
            MetaOp::GetAttr { ino } => Ok(MetaReplyBody::Attr(self.get(*ino)?.attr)),
            MetaOp::GetXattr { ino, .. } => {
                let label = self.get(*ino)?.label.clone();
                Ok(MetaReplyBody::Xattr(label.ok_or(FsError::NoAttribute)?))
            }
            MetaOp::Readdir {
                dir,
                after,
                limit,
                plus,
            } => Ok(self.readdir(*dir, *after, *limit as usize, *plus)),
            MetaOp::Open { ino, .. } => {
                let inode = self.get(*ino)?;
                Ok(MetaReplyBody::Opened(OpenInfo {
                    attr: inode.attr,
                    layout: Layout::default(),
                    inline: (inode.attr.kind == FileKind::Regular).then(|| inode.bytes.clone()),
                    created: false,
                    capability: None,
                }))
            }
            MetaOp::Mknod { dir, name, .. } => {
                if self.target(*dir, name).is_ok() {
                    return Err(FsError::Exists);
                }
                self.newest += 1;
                let ino = InodeId(self.newest);
                self.add(ino, FileKind::Regular);
                self.set_name(*dir, name, Some(ino));
                Ok(MetaReplyBody::Entry(self.get(ino)?.attr))
            }
            MetaOp::Link { ino, dir, name } => {
                if self.target(*dir, name).is_ok() {
                    return Err(FsError::Exists);
                }
                let attr = &mut self.get(*ino)?.attr;
                if attr.nlink == 0 {
                    return Err(FsError::NotFound);
                }
                attr.nlink += 1;
                attr.change += 1;
                let attr = *attr;
                self.set_name(*dir, name, Some(*ino));
                Ok(MetaReplyBody::Entry(attr))
            }
            MetaOp::Unlink { dir, name } => {
                let ino = self.target(*dir, name)?;
                self.set_name(*dir, name, None);
                Ok(MetaReplyBody::Removed(self.unlink(ino)))
            }
            MetaOp::Rename {
                from,
                name,
                to,
                new_name,
                mode: RenameMode::Exchange,
            } => {
                let (ino, other) = (self.target(*from, name)?, self.target(*to, new_name)?);
                if ino == other {
                    return Ok(MetaReplyBody::Removed(RemovedName::default()));
                }
                self.set_name(*from, name, Some(other));
                self.set_name(*to, new_name, Some(ino));
                self.touch(ino);
                self.touch(other);
                Ok(MetaReplyBody::Removed(RemovedName {
                    attr: Some(self.get(ino)?.attr),
                    ..RemovedName::default()
                }))
            }
            MetaOp::Rename {
                from,
                name,
                to,
                new_name,
                ..
            } => {
                let ino = self.target(*from, name)?;
                let victim = self.target(*to, new_name).ok();
                if victim == Some(ino) {
                    return Ok(MetaReplyBody::Removed(RemovedName::default()));
                }
                self.set_name(*from, name, None);
                self.set_name(*to, new_name, Some(ino));
                let mut removed = victim.map(|ino| self.unlink(ino)).unwrap_or_default();
                self.touch(ino);
                removed.attr = Some(self.get(ino)?.attr);
                Ok(MetaReplyBody::Removed(removed))
            }
            MetaOp::SetAttr { ino, set } if set.is_atime_report() => {
                let attr = &mut self.get(*ino)?.attr;
                attr.atime.secs += 1;
                attr.change += 1;
                Ok(MetaReplyBody::Attr(*attr))
            }
            MetaOp::SetAttr { ino, set } => {
                let attr = &mut self.get(*ino)?.attr;
                attr.mode = FileMode::from_bits(set.mode.unwrap());
                attr.change += 1;
                Ok(MetaReplyBody::Attr(*attr))
            }
            MetaOp::SetXattr { ino, value, .. } => {
                let inode = self.get(*ino)?;
                inode.label = Some(value.clone());
                inode.attr.flags = InodeFlags::empty();
                inode.attr.change += 1;
                Ok(MetaReplyBody::Attr(inode.attr))
            }
            MetaOp::WriteInline { ino, data, .. } => {
                let inode = self.get(*ino)?;
                inode.bytes = data.clone();
                inode.attr.change += 1;
                Ok(MetaReplyBody::Attr(inode.attr))
            }
            _ => unreachable!(),
        }
    }

    fn readdir(&mut self, dir: InodeId, after: u64, limit: usize, plus: bool) -> MetaReplyBody {
        let in_dir = self.names.iter().filter(|((of, _), _)| *of == dir);
        let mut entries: Vec<DirEntry> = in_dir
            .map(|((_, name), ino)| DirEntry {
                name: name.clone(),
                ino: *ino,
                kind: FileKind::Regular,
                cookie: cookie(name),
                attr: plus.then(|| self.inodes[ino].attr),
            })
            .filter(|entry| entry.cookie > after)
            .collect();
        entries.sort_by_key(|entry| entry.cookie);
        let end = entries.len() <= limit;
        entries.truncate(limit);
        MetaReplyBody::Entries { entries, end }
    }

    /// The keys of leases that the change from `self` to `other` breaks.
    pub fn difference(&self, other: &Truth) -> BTreeSet<LeaseKey> {
        let mut keys = BTreeSet::new();
        for (dir, name) in self.names.keys().chain(other.names.keys()) {
            let key = (*dir, name.clone());
            if self.names.get(&key) != other.names.get(&key) {
                let hash = hash(name);
                keys.extend([LeaseKey::Name { dir: *dir, hash }, LeaseKey::Names(*dir)]);
            }
        }
        for (ino, new) in &other.inodes {
            let Some(old) = self.inodes.get(ino) else {
                continue;
            };
            if without_atime(old.attr) != without_atime(new.attr) || old.label != new.label {
                keys.insert(LeaseKey::Attributes(*ino));
            }
            if old.bytes != new.bytes {
                keys.insert(LeaseKey::Data(*ino));
            }
        }
        keys
    }
}

/// An access time changes without a revocation, and the change counter with it.
pub fn without_atime(mut attr: Attr) -> Attr {
    (attr.atime, attr.change) = (Timestamp::default(), 0);
    attr
}

/// A server with the client under test and another client.
pub struct ModelServer {
    pub truth: Truth,
    /// The leases of the client under test.
    held: BTreeSet<LeaseKey>,
    last_grant: u64,
    /// A change of the other client that waits for the answer to a revocation; its keys are closed to grants.
    waiting: Option<(MetaOp, BTreeSet<LeaseKey>)>,
}

impl ModelServer {
    pub fn new() -> ModelServer {
        ModelServer {
            truth: Truth::new(),
            held: BTreeSet::new(),
            last_grant: 0,
            waiting: None,
        }
    }

    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// The other client's change: made at once, or after the answer to this revocation.
    pub fn change_by_other(&mut self, op: MetaOp) -> Option<LeaseRevocation> {
        let mut after = self.truth.clone();
        let _ = after.execute(&op);
        let keys = self.truth.difference(&after);
        let broken: Vec<LeaseKey> = keys.intersection(&self.held).copied().collect();
        if broken.is_empty() {
            self.truth = after;
            return None;
        }
        self.waiting = Some((op, keys));
        Some(LeaseRevocation {
            upto: GrantNumber(self.last_grant),
            keys: broken,
        })
    }

    /// The server is restarted: no client has a lease. It makes the change of the other client that waited.
    pub fn restart(&mut self) {
        self.held.clear();
        if let Some((op, _)) = self.waiting.take() {
            let _ = self.truth.execute(&op);
        }
    }

    /// The client has answered; perhaps it has got other leases meanwhile.
    pub fn revoked(&mut self, revocation: &LeaseRevocation) -> Option<LeaseRevocation> {
        for key in &revocation.keys {
            self.held.remove(key);
        }
        let (op, _) = self.waiting.take()?;
        self.change_by_other(op)
    }

    /// Executes a request of the client under test. `grants` decides which leases it gets, of those that are possible.
    pub fn execute(
        &mut self,
        op: &MetaOp,
        mut grants: impl FnMut() -> bool,
    ) -> (Outcome, LeaseReply) {
        let before = self.truth.clone();
        let outcome = self.truth.execute(op);
        if outcome.is_err() {
            self.truth = before.clone();
        }
        let mut reply = LeaseReply::default();
        for key in keys_of(op, &outcome) {
            let closed = (self.waiting.as_ref()).is_some_and(|(_, keys)| keys.contains(&key));
            if !closed && grants() {
                self.last_grant += 1;
                let number = GrantNumber(self.last_grant);
                reply.grants.push(LeaseGrant { key, number });
                self.held.insert(key);
            }
        }
        // What the reply cannot tell is not leased any more.
        for key in before.difference(&self.truth) {
            let LeaseKey::Attributes(ino) = key else {
                continue;
            };
            let told = reply.grants.iter().any(|grant| grant.key == key);
            if told || !self.held.contains(&key) {
                continue;
            }
            match grants() {
                true => reply.changed.push(self.truth.inodes[&ino].attr),
                false => {
                    self.held.remove(&key);
                }
            }
        }
        (outcome, reply)
    }
}

/// Leases on what an outcome says.
fn keys_of(op: &MetaOp, outcome: &Outcome) -> Vec<LeaseKey> {
    let named = |dir: InodeId, name: &Name| LeaseKey::Name {
        dir,
        hash: hash(name),
    };
    let mut keys = Vec::new();
    match (op, outcome) {
        (MetaOp::Lookup { dir, name }, Ok(_) | Err(FsError::NotFound))
        | (
            MetaOp::Mknod { dir, name, .. }
            | MetaOp::Link { dir, name, .. }
            | MetaOp::Unlink { dir, name },
            Ok(_),
        ) => keys.push(named(*dir, name)),
        (
            MetaOp::Rename {
                from,
                name,
                to,
                new_name,
                ..
            },
            Ok(_),
        ) => keys.extend([named(*from, name), named(*to, new_name)]),
        (MetaOp::GetXattr { ino, .. }, Ok(_) | Err(FsError::NoAttribute)) => {
            keys.push(LeaseKey::Attributes(*ino));
        }
        (MetaOp::Open { ino, .. }, Ok(_)) => keys.push(LeaseKey::Data(*ino)),
        (MetaOp::Readdir { dir, .. }, Ok(MetaReplyBody::Entries { entries, .. })) => {
            keys.push(LeaseKey::Names(*dir));
            for entry in entries {
                keys.push(named(*dir, &entry.name));
                keys.extend(entry.attr.map(|attr| LeaseKey::Attributes(attr.ino)));
            }
        }
        _ => {}
    }
    let told = match outcome {
        Ok(MetaReplyBody::Entry(attr) | MetaReplyBody::Attr(attr)) => Some(attr.ino),
        Ok(MetaReplyBody::Opened(opened)) => Some(opened.attr.ino),
        Ok(MetaReplyBody::Removed(removed)) => removed.attr.map(|attr| attr.ino),
        _ => None,
    };
    keys.extend(told.map(LeaseKey::Attributes));
    keys
}
