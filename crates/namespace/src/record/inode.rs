//! `I ino`: everything about an inode except its names.

use super::{Record, RecordDecodeError, V1, decode_body, encode_body};
use crate::acl::Acl;
use bytes::Bytes;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::layout::DefaultLayout;
use gupfs_proto::meta::{OpenInfo, XattrName};
use gupfs_proto::{
    Attr, FileKind, FileMode, FsError, InodeId, Layout, ProjectId, Timestamp, VolumeId,
};
use serde::{Deserialize, Serialize};

/// Version 1.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Inode {
    /// Part of the key, not of the value.
    #[serde(skip, default = "no_inode")]
    pub ino: InodeId,
    pub kind: FileKind,
    pub mode: FileMode,
    pub uid: u32,
    pub gid: u32,
    pub project: ProjectId,
    pub volume: VolumeId,
    /// Number of entries that refer to it: for a directory 0 or 1 (stat(2) returns `Attr::nlink`).
    pub names: u32,
    pub rdev: u32,
    pub size: u64,
    /// Space that its objects occupy, in units of 512 bytes.
    pub blocks: u64,
    pub atime: Timestamp,
    pub mtime: Timestamp,
    pub ctime: Timestamp,
    pub btime: Timestamp,
    pub flags: InodeFlags,
    /// Position of the first name; further names have back links. None once the first name was removed while others remain.
    pub parent: Option<DentryPosition>,
    /// Snapshot sequence of the volume at creation.
    pub birth_snapshot: u64,
    /// +1 with every change.
    pub change: u64,
    /// +1 whenever the metadata server changes its bytes or learns of a change.
    pub data_version: u64,
    /// Number of its `O` records.
    pub orphan_records: u32,
    /// Number of its `X` records: most inodes have none, and then the server does not scan for them.
    pub xattrs: u32,
    /// Bytes of the names of these `X` records, each with its NUL.
    pub xattr_names: u32,
    /// POSIX access ACL, if the mode alone does not express it.
    pub acl: Option<Acl>,
    /// Short `security.*` attributes: the kernel reads them at every exec.
    pub security: Vec<(XattrName, Bytes)>,
    pub body: InodeBody,
}

fn no_inode() -> InodeId {
    InodeId(0)
}

/// The position of an entry: its directory and the hash of its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DentryPosition {
    pub dir: InodeId,
    pub hash: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum InodeBody {
    File(FileBody),
    Directory(DirectoryBody),
    Symlink(Vec<u8>),
    /// Fifo, socket, device.
    Special,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FileBody {
    pub layout: Layout,
    /// The file's bytes (up to trailing zeros) while it has no layout, and until `SpillInline` when it has one.
    pub inline: Bytes,
    /// Next generation of a component, and next number of a `PurgeId`.
    pub next_generation: u32,
    pub truncating: Option<UnfinishedTruncate>,
    /// Number of its `M` records (write leases).
    pub write_leases: u32,
    /// The default layout for its next layout, if it has its own.
    pub default_layout: Option<DefaultLayout>,
    /// Created without a name by O_TMPFILE: link(2) may give it one.
    pub linkable: bool,
}

/// Objects still hold bytes beyond `to`; no session reads or writes the file before they are truncated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnfinishedTruncate {
    pub to: u64,
    pub number: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DirectoryBody {
    pub entries: u64,
    pub subdirs: u32,
    /// Key of the hash of its names; never sent to clients.
    pub salt: u64,
    pub default_layout: Option<DirectoryDefaultLayout>,
    pub default_acl: Option<Acl>,
    /// Number of parts it is split into; 0: not split.
    pub parts: u16,
    /// Usage of the tree below it; None: not counted.
    pub subtree: Option<SubtreeUsage>,
}

impl DirectoryBody {
    /// The default layout of new files in the directory, if it has one.
    pub(crate) fn layout_of_new_files(&self) -> Option<DefaultLayout> {
        let default_layout = self.default_layout.as_ref();
        default_layout.map(|dir_layout| dir_layout.layout.clone())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SubtreeUsage {
    pub bytes: u64,
    pub files: u64,
    pub directories: u64,
}

/// A directory's default layout for new files: its own, or copied from its parent at creation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DirectoryDefaultLayout {
    pub layout: DefaultLayout,
    pub is_own: bool,
}

impl Record for Inode {
    fn encode(&self) -> Bytes {
        encode_body(V1, self)
    }

    fn decode(value: &Bytes) -> Result<Inode, RecordDecodeError> {
        decode_body(V1, value)
    }
}

/// Size of a directory with few entries in stat(2): programs do not expect 0.
const DIRECTORY_SIZE: u64 = 4096;
/// A directory's size in stat(2) grows by `DIRECTORY_SIZE` for this many entries.
const DIRECTORY_STEP: u64 = 64;

impl Inode {
    /// A new inode that root owns, without a name.
    pub(crate) fn new(
        ino: InodeId,
        kind: FileKind,
        mode: FileMode,
        body: InodeBody,
        now: Timestamp,
    ) -> Inode {
        Inode {
            ino,
            kind,
            mode,
            uid: 0,
            gid: 0,
            project: ProjectId(0),
            volume: VolumeId(0),
            names: 0,
            rdev: 0,
            size: 0,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            flags: InodeFlags::empty(),
            parent: None,
            birth_snapshot: 0,
            change: 1,
            data_version: 0,
            orphan_records: 0,
            xattrs: 0,
            xattr_names: 0,
            acl: None,
            security: Vec::new(),
            body,
        }
    }

    pub fn attr(&self) -> Attr {
        Attr {
            ino: self.ino,
            kind: self.kind,
            mode: self.mode,
            nlink: self.nlink(),
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            size: self.stat_size(),
            blocks: self.stat_blocks(),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
            change: self.change,
            flags: self.flags.difference(InodeFlags::COMPUTED) | self.xattr_flags(),
            project: self.project,
            volume: self.volume,
        }
    }

    /// What the attributes say of ACLs and extended attributes; the record has no such flags.
    fn xattr_flags(&self) -> InodeFlags {
        let has_default_acl = self.directory().is_ok_and(|dir| dir.default_acl.is_some());
        if self.acl.is_some() {
            InodeFlags::HAS_ACL
        } else if has_default_acl || self.xattrs > 0 || !self.security.is_empty() {
            InodeFlags::empty()
        } else {
            InodeFlags::NO_XATTRS
        }
    }

    /// The reply to an open or truncate. If a truncate of the objects is not finished, the reply has the size after it: the
    /// driver sends the reply when the truncate is done. An inode that is not a regular file has neither layout nor inline
    /// bytes.
    pub(crate) fn open_info(&self, created: bool) -> OpenInfo {
        let (layout, inline) = match self.file() {
            Ok(file) if file.layout.is_empty() || !file.inline.is_empty() => {
                (file.layout.clone(), Some(file.inline.clone()))
            }
            Ok(file) => (file.layout.clone(), None),
            Err(_) => Default::default(),
        };
        let mut attr = self.attr();
        if let Ok(file) = self.file()
            && let Some(truncate) = file.truncating
        {
            attr.size = truncate.to;
        }
        OpenInfo {
            attr,
            layout,
            inline,
            created,
            capability: None, // the driver adds it
        }
    }

    /// A directory's links are its name, its "." and the ".." of each subdirectory; a removed directory has none.
    fn nlink(&self) -> u32 {
        match &self.body {
            InodeBody::Directory(dir) if self.names > 0 => dir.subdirs.saturating_add(2),
            _ => self.names,
        }
    }

    fn stat_size(&self) -> u64 {
        match &self.body {
            InodeBody::Directory(dir) => {
                DIRECTORY_SIZE * dir.entries.div_ceil(DIRECTORY_STEP).max(1)
            }
            InodeBody::Symlink(target) => target.len() as u64,
            InodeBody::File(_) | InodeBody::Special => self.size,
        }
    }

    /// Inline bytes count as space: archivers treat a file without blocks as one hole and do not read it.
    fn stat_blocks(&self) -> u64 {
        match &self.body {
            InodeBody::File(file) => self.blocks.max(file.inline.len().div_ceil(512) as u64),
            InodeBody::Directory(_) | InodeBody::Symlink(_) | InodeBody::Special => self.blocks,
        }
    }

    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// The ctime of a change at `now`: never before the last ctime, whatever the clock returns.
    pub(crate) fn next_ctime(&self, now: Timestamp) -> Timestamp {
        now.max(self.ctime)
    }

    /// Updates ctime: the status changed.
    pub(crate) fn touch_ctime(&mut self, now: Timestamp) {
        self.ctime = self.next_ctime(now);
    }

    /// Updates mtime and ctime: the contents changed.
    pub(crate) fn touch_mtime(&mut self, now: Timestamp) {
        self.touch_ctime(now);
        self.mtime = self.ctime;
    }
}

impl Inode {
    /// # Errors
    /// `NotDirectory`.
    pub fn directory(&self) -> Result<&DirectoryBody, FsError> {
        match &self.body {
            InodeBody::Directory(dir) => Ok(dir),
            InodeBody::File(_) | InodeBody::Symlink(_) | InodeBody::Special => {
                Err(FsError::NotDirectory)
            }
        }
    }

    pub(crate) fn directory_mut(&mut self) -> Result<&mut DirectoryBody, FsError> {
        match &mut self.body {
            InodeBody::Directory(dir) => Ok(dir),
            InodeBody::File(_) | InodeBody::Symlink(_) | InodeBody::Special => {
                Err(FsError::NotDirectory)
            }
        }
    }

    /// # Errors
    /// `IsDirectory`, or `Invalid` for symbolic links and special files.
    pub fn file(&self) -> Result<&FileBody, FsError> {
        match &self.body {
            InodeBody::File(file) => Ok(file),
            InodeBody::Directory(_) => Err(FsError::IsDirectory),
            InodeBody::Symlink(_) | InodeBody::Special => Err(FsError::Invalid),
        }
    }

    pub(crate) fn file_mut(&mut self) -> Result<&mut FileBody, FsError> {
        match &mut self.body {
            InodeBody::File(file) => Ok(file),
            InodeBody::Directory(_) => Err(FsError::IsDirectory),
            InodeBody::Symlink(_) | InodeBody::Special => Err(FsError::Invalid),
        }
    }
}
