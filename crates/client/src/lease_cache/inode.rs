//! What a lease on an inode's attributes lets this client say: the attributes, and what was read of the rest so far.

use crate::lease_number::LeaseNumber;
use bytes::Bytes;
use gupfs_namespace::{Acl, Protection};
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::capability::Capability;
use gupfs_proto::meta::XattrName;
use gupfs_proto::{Attr, FileKind, Layout};
use std::collections::BTreeMap;

/// Most weight of an inode: with more, what was read of it besides its attributes is forgotten. So no program can displace
/// everything else with the attributes of one file, and an inode's weight is soon counted.
const WEIGHT_MAX: usize = 512;

/// Most extended attributes of one inode that are remembered, present or absent.
const XATTRS_MAX: usize = 64;

/// One unit of weight is this many bytes of values.
const BYTES_PER_WEIGHT: usize = 256;

const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

pub struct LeasedInode {
    pub attr: Attr,
    pub link_target: Option<Vec<u8>>,
    /// None: it has no such attribute.
    xattrs: BTreeMap<XattrName, Option<Bytes>>,
    /// Names of extended attributes: as others see them, and as root sees them.
    pub xattr_names: [Option<Vec<XattrName>>; 2],
    /// A directory that was opened for reading in this session: its capability, if the server issues any.
    pub open_dir: Option<Option<Capability>>,
}

impl LeasedInode {
    pub fn new(attr: Attr) -> LeasedInode {
        LeasedInode {
            attr,
            link_target: None,
            xattrs: BTreeMap::new(),
            xattr_names: [None, None],
            open_dir: None,
        }
    }

    /// The weight in the cache.
    pub fn weight(&self) -> usize {
        let values = self.xattrs.values().flatten().map(Bytes::len);
        let names = self.xattr_names.iter().flatten().flatten();
        let bytes = values.sum::<usize>()
            + names.map(|name| name.as_bytes().len()).sum::<usize>()
            + self.xattrs.len() * 64
            + self.link_target.as_ref().map_or(0, Vec::len);
        1 + bytes / BYTES_PER_WEIGHT
    }

    /// What an access check needs, to which it is passed. None: it needs an ACL that is not known here.
    pub fn with_protection<R>(&self, check: impl FnOnce(Protection<'_>) -> R) -> Option<R> {
        let acl = match self.attr.flags.contains(InodeFlags::HAS_ACL) {
            true => Some(self.access_acl()?),
            false => None,
        };
        Some(check(Protection {
            kind: self.attr.kind,
            mode: self.attr.mode,
            uid: self.attr.uid,
            gid: self.attr.gid,
            flags: self.attr.flags,
            acl: acl.as_ref(),
        }))
    }

    fn access_acl(&self) -> Option<Acl> {
        let name = XattrName::new(ACCESS_ACL).ok()?;
        let value = self.xattrs.get(&name)?.as_ref()?;
        Acl::parse(value).ok()?
    }

    /// The value of an extended attribute. The outer None: not known.
    pub fn xattr(&self, name: &XattrName) -> Option<&Option<Bytes>> {
        if self.has_no_xattrs() {
            return Some(&None);
        }
        let known = self.xattrs.get(name);
        // Root sees all names.
        let all = self.xattr_names[1].as_ref();
        let is_absent = || all.is_some_and(|names| !names.contains(name));
        known.or_else(|| is_absent().then_some(&None))
    }

    /// The names of the extended attributes, as root sees them or as others do. None: not known.
    pub fn xattr_names(&self, by_root: bool) -> Option<Vec<XattrName>> {
        match self.has_no_xattrs() {
            true => Some(Vec::new()),
            false => self.xattr_names[usize::from(by_root)].clone(),
        }
    }

    /// For certain. Other kinds of inodes have errors of their own for some names, which the server knows.
    fn has_no_xattrs(&self) -> bool {
        let may_have_all = matches!(self.attr.kind, FileKind::Regular | FileKind::Directory);
        may_have_all && self.attr.flags.contains(InodeFlags::NO_XATTRS)
    }

    /// It is a new inode that may have an ACL, and no directory: without an ACL it has no extended attribute.
    pub fn set_new(&mut self) {
        if !self.attr.flags.contains(InodeFlags::HAS_ACL) {
            self.xattr_names = [Some(Vec::new()), Some(Vec::new())];
        }
    }

    /// They may have changed.
    pub fn forget_xattrs(&mut self) {
        self.xattrs.clear();
        self.xattr_names = [None, None];
    }

    /// Those that exist may have changed, and may be gone: a change of mode changes the ACL, one of owner or contents removes
    /// security.capability. None was added.
    pub fn forget_present_xattrs(&mut self) {
        self.xattrs.retain(|_, value| value.is_none());
        for names in &mut self.xattr_names {
            names.take_if(|names| !names.is_empty());
        }
    }

    pub fn put_xattr(&mut self, name: &XattrName, value: Option<Bytes>) {
        if self.xattrs.len() >= XATTRS_MAX {
            self.xattrs.clear();
        }
        self.xattrs.insert(name.clone(), value);
    }

    /// Forgets what is too much, and returns the weight.
    pub fn limited_weight(&mut self) -> usize {
        if self.weight() > WEIGHT_MAX {
            self.forget_xattrs();
        }
        self.weight()
    }
}

/// Who sees an extended attribute with this name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XattrReaders {
    Everybody,
    /// Those who may read the file.
    FileReaders,
    /// This client leaves the answer to the server.
    Unknown,
}

impl XattrReaders {
    pub fn of(name: &XattrName) -> XattrReaders {
        match name.as_bytes() {
            ACCESS_ACL | DEFAULT_ACL => XattrReaders::Everybody,
            name if name.starts_with(b"security.") => XattrReaders::Everybody,
            name if name.starts_with(b"user.") => XattrReaders::FileReaders,
            _ => XattrReaders::Unknown,
        }
    }
}

/// What a lease on a file's data lets this client say: the reply to an open for reading, but its attributes.
pub struct LeasedData {
    pub number: LeaseNumber,
    pub layout: Layout,
    pub inline: Option<Bytes>,
    /// Once a program has opened it for reading in this session: the open's capability, if the server issues any.
    pub open: Option<Option<Capability>>,
}

impl LeasedData {
    pub fn weight(&self) -> usize {
        let targets: usize = (self.layout.components.iter())
            .map(|component| component.targets.len())
            .sum();
        let bytes = targets * 32 + self.inline.as_ref().map_or(0, Bytes::len);
        1 + bytes / BYTES_PER_WEIGHT
    }
}
