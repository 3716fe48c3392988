//! `I ino`: everything about a file but its names.

use super::{Record, Undecodable, V1, decode_body, encode_body};
use crate::acl::Acl;
use bytes::Bytes;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::layout::LayoutRule;
use gupfs_proto::meta::XattrName;
use gupfs_proto::{Attr, FileKind, InodeId, Layout, Mode, ProjectId, Refusal, Timestamp, VolumeId};
use serde::{Deserialize, Serialize};

/// Version 1.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Inode {
    /// Stands in the key.
    #[serde(skip, default = "no_inode")]
    pub ino: InodeId,
    pub kind: FileKind,
    pub mode: Mode,
    pub uid: u32,
    pub gid: u32,
    pub project: ProjectId,
    pub volume: VolumeId,
    /// Names that refer to it: for a directory 0 or 1 (what stat shows is `Attr::nlink`).
    pub names: u32,
    pub rdev: u32,
    pub size: u64,
    /// Space of its objects, in units of 512 bytes.
    pub blocks: u64,
    pub atime: Timestamp,
    pub mtime: Timestamp,
    pub ctime: Timestamp,
    pub btime: Timestamp,
    pub flags: InodeFlags,
    /// The first name's place; further ones are back links. None once that name is gone while others remain.
    pub parent: Option<Link>,
    /// Snapshot sequence of the volume when it was made.
    pub born: u64,
    /// +1 at every change.
    pub change: u64,
    /// +1 when its bytes change through the metadata server.
    pub data_version: u64,
    /// `O` records of it.
    pub holders: u32,
    /// `X` records of it: most inodes have none, and then nobody looks.
    pub xattrs: u32,
    /// Their names' bytes, each with its NUL.
    pub xattr_names: u32,
    /// POSIX access ACL, when it says more than the mode.
    pub acl: Option<Acl>,
    /// Short `security.*` attributes: the kernel asks for them at every exec.
    pub security: Vec<(XattrName, Bytes)>,
    pub body: Body,
}

fn no_inode() -> InodeId {
    InodeId(0)
}

/// A name's place, without the name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Link {
    pub dir: InodeId,
    pub hash: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Body {
    File(File),
    Directory(Directory),
    Symlink(Vec<u8>),
    /// Fifo, socket, device.
    Special,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct File {
    pub layout: Layout,
    /// The file's first bytes while it has no layout, and until `Spilled` when it has one.
    pub inline: Bytes,
    /// Next generation of a component, and next number of a purge.
    pub next_generation: u32,
    pub cutting: Option<Cutting>,
    /// `M` records of it.
    pub writers: u32,
    /// How it is to be laid out, if it says so itself.
    pub rule: Option<LayoutRule>,
    /// Made without a name by O_TMPFILE: it may be given one.
    pub linkable: bool,
}

/// Objects still hold bytes beyond `to`; nobody reads or writes before they are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cutting {
    pub to: u64,
    pub number: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Directory {
    pub entries: u64,
    pub subdirs: u32,
    /// Key of the hash of its names; never sent out.
    pub salt: u64,
    pub rule: Option<Ruled>,
    pub default_acl: Option<Acl>,
    /// Parts it is split into; 0 is not split.
    pub parts: u16,
    /// Numbers of all below it; None while nobody keeps them.
    pub subtree: Option<Subtree>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Subtree {
    pub bytes: u64,
    pub files: u64,
    pub directories: u64,
}

/// A directory's rule for the files below: its own, or copied from its parent when it was made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ruled {
    pub rule: LayoutRule,
    pub own: bool,
}

impl Record for Inode {
    fn encode(&self) -> Bytes {
        encode_body(V1, self)
    }

    fn decode(value: &Bytes) -> Result<Inode, Undecodable> {
        decode_body(V1, value)
    }
}

/// What a directory of few entries occupies in stat(2): programs expect no zero.
const DIRECTORY_SIZE: u64 = 4096;
/// Names in one such step.
const DIRECTORY_STEP: u64 = 64;

impl Inode {
    pub fn attr(&self) -> Attr {
        Attr {
            ino: self.ino,
            kind: self.kind,
            mode: self.mode,
            nlink: self.nlink(),
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            size: self.shown_size(),
            blocks: self.shown_blocks(),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
            change: self.change,
            flags: if self.acl.is_some() {
                self.flags | InodeFlags::HAS_ACL
            } else {
                self.flags
            },
            project: self.project,
            volume: self.volume,
        }
    }

    /// A directory is linked by its name, its "." and each ".." below; a removed one by nothing.
    fn nlink(&self) -> u32 {
        match &self.body {
            Body::Directory(dir) if self.names > 0 => dir.subdirs.saturating_add(2),
            _ => self.names,
        }
    }

    fn shown_size(&self) -> u64 {
        match &self.body {
            Body::Directory(dir) => DIRECTORY_SIZE * dir.entries.div_ceil(DIRECTORY_STEP).max(1),
            Body::Symlink(target) => target.len() as u64,
            Body::File(_) | Body::Special => self.size,
        }
    }

    /// Inline bytes count as space: archivers take a file without blocks for one hole and do not read it.
    fn shown_blocks(&self) -> u64 {
        match &self.body {
            Body::File(file) => self.blocks.max(file.inline.len().div_ceil(512) as u64),
            Body::Directory(_) | Body::Symlink(_) | Body::Special => self.blocks,
        }
    }

    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// Time of a change now: never before the last one, whatever the clock says.
    pub(crate) fn stamp(&self, now: Timestamp) -> Timestamp {
        now.max(self.ctime)
    }

    /// The status changed.
    pub(crate) fn touch(&mut self, now: Timestamp) {
        self.ctime = self.stamp(now);
    }

    /// The contents changed, which is a change of status too.
    pub(crate) fn touch_contents(&mut self, now: Timestamp) {
        self.touch(now);
        self.mtime = self.ctime;
    }
}

impl Inode {
    /// # Errors
    /// `NotDirectory`.
    pub fn directory(&self) -> Result<&Directory, Refusal> {
        match &self.body {
            Body::Directory(dir) => Ok(dir),
            Body::File(_) | Body::Symlink(_) | Body::Special => Err(Refusal::NotDirectory),
        }
    }

    pub(crate) fn directory_mut(&mut self) -> Result<&mut Directory, Refusal> {
        match &mut self.body {
            Body::Directory(dir) => Ok(dir),
            Body::File(_) | Body::Symlink(_) | Body::Special => Err(Refusal::NotDirectory),
        }
    }

    /// # Errors
    /// `IsDirectory`, or `Invalid` for what has no bytes.
    pub fn file(&self) -> Result<&File, Refusal> {
        match &self.body {
            Body::File(file) => Ok(file),
            Body::Directory(_) => Err(Refusal::IsDirectory),
            Body::Symlink(_) | Body::Special => Err(Refusal::Invalid),
        }
    }

    pub(crate) fn file_mut(&mut self) -> Result<&mut File, Refusal> {
        match &mut self.body {
            Body::File(file) => Ok(file),
            Body::Directory(_) => Err(Refusal::IsDirectory),
            Body::Symlink(_) | Body::Special => Err(Refusal::Invalid),
        }
    }
}
