//! The values that handlers return.

use std::time::Duration;

use bytes::Bytes;

use crate::buffer::Scratch;
use crate::wire::{AttrFlags, Cursor, FromWire, Malformed, OpenReplyFlags, Put};
use crate::{FileHandle, NodeId};

/// Seconds since 1970, negative before, plus nanoseconds below 10⁹.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FuseTimestamp {
    pub seconds: i64,
    pub nanos: u32,
}

/// The attributes of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InodeAttr {
    pub ino: u64,
    pub size: u64,
    /// In units of 512 bytes.
    pub blocks: u64,
    pub atime: FuseTimestamp,
    pub mtime: FuseTimestamp,
    pub ctime: FuseTimestamp,
    /// File type and permission bits.
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    /// Device number, in the kernel's 32-bit form.
    pub rdev: u32,
    /// Preferred I/O size for programs.
    pub blksize: u32,
    pub flags: AttrFlags,
}

impl InodeAttr {
    pub(crate) const WIRE: usize = 88;

    pub(crate) fn put(&self, out: &mut impl Put) {
        out.put_u64(self.ino);
        out.put_u64(self.size);
        out.put_u64(self.blocks);
        for time in [self.atime, self.mtime, self.ctime] {
            out.put_i64(time.seconds);
        }
        for time in [self.atime, self.mtime, self.ctime] {
            out.put_u32(time.nanos);
        }
        out.put_u32(self.mode);
        out.put_u32(self.nlink);
        out.put_u32(self.uid);
        out.put_u32(self.gid);
        out.put_u32(self.rdev);
        out.put_u32(self.blksize);
        out.put_u32(self.flags.bits());
    }
}

/// Attributes, and how long the kernel may cache them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttrReply {
    pub attr: InodeAttr,
    pub ttl: Duration,
}

/// The node of a name and its attributes. The kernel counts one lookup reference to the node for each such reply, until FORGET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryReply {
    pub node: NodeId,
    /// The pair of node id and generation is unique over all inodes of a mount.
    pub generation: u64,
    /// How long the kernel may cache the dentry.
    pub name_ttl: Duration,
    pub attr: InodeAttr,
    /// How long the kernel may cache the attributes.
    pub attr_ttl: Duration,
}

impl EntryReply {
    pub(crate) const WIRE: usize = 40 + InodeAttr::WIRE;

    /// A negative dentry that the kernel caches for `ttl`. To have the kernel cache nothing, reply ENOENT.
    pub fn absent(ttl: Duration) -> EntryReply {
        EntryReply {
            node: NodeId::NONE,
            generation: 0,
            name_ttl: ttl,
            attr: InodeAttr::default(),
            attr_ttl: Duration::ZERO,
        }
    }

    pub(crate) fn put(&self, out: &mut impl Put) {
        out.put_u64(self.node.0);
        out.put_u64(self.generation);
        out.put_u64(self.name_ttl.as_secs());
        out.put_u64(self.attr_ttl.as_secs());
        out.put_u32(self.name_ttl.subsec_nanos());
        out.put_u32(self.attr_ttl.subsec_nanos());
        self.attr.put(out);
    }
}

impl FromWire for InodeAttr {
    fn from_wire(body: &mut Cursor<'_>) -> Result<InodeAttr, Malformed> {
        let mut attr = InodeAttr {
            ino: body.u64("ino")?,
            size: body.u64("size")?,
            blocks: body.u64("blocks")?,
            ..InodeAttr::default()
        };
        for time in [&mut attr.atime, &mut attr.mtime, &mut attr.ctime] {
            time.seconds = body.u64("seconds")? as i64;
        }
        for time in [&mut attr.atime, &mut attr.mtime, &mut attr.ctime] {
            time.nanos = body.u32("nanoseconds")?;
        }
        attr.mode = body.u32("mode")?;
        attr.nlink = body.u32("nlink")?;
        attr.uid = body.u32("uid")?;
        attr.gid = body.u32("gid")?;
        attr.rdev = body.u32("rdev")?;
        attr.blksize = body.u32("blksize")?;
        attr.flags = AttrFlags::from_bits_retain(body.u32("flags")?);
        Ok(attr)
    }
}

impl FromWire for EntryReply {
    fn from_wire(body: &mut Cursor<'_>) -> Result<EntryReply, Malformed> {
        let node = NodeId(body.u64("node")?);
        let generation = body.u64("generation")?;
        let (name, attr) = (body.u64("name seconds")?, body.u64("attr seconds")?);
        let name_ttl = Duration::new(name, body.u32("name nanoseconds")?);
        let attr_ttl = Duration::new(attr, body.u32("attr nanoseconds")?);
        Ok(EntryReply {
            node,
            generation,
            name_ttl,
            attr_ttl,
            attr: InodeAttr::from_wire(body)?,
        })
    }
}

/// The reply to OPEN and OPENDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenReply {
    pub fh: FileHandle,
    pub flags: OpenReplyFlags,
}

/// The reply to CREATE and TMPFILE: a new file, opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateReply {
    pub entry: EntryReply,
    pub opened: OpenReply,
}

/// The reply to STATFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatfsReply {
    pub blocks: u64,
    pub blocks_free: u64,
    /// Blocks available to users other than root.
    pub blocks_available: u64,
    pub files: u64,
    pub files_free: u64,
    /// Preferred I/O size for programs.
    pub block_size: u32,
    pub name_max: u32,
    /// The unit of the block counts.
    pub fragment_size: u32,
}

/// Attributes in the form of statx(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statx {
    /// STATX_…: which fields are valid.
    pub mask: u32,
    /// The remaining attributes; the wire form splits `rdev` into major and minor.
    pub attr: InodeAttr,
    /// STATX_ATTR_…
    pub attributes: u64,
    /// Which bits of `attributes` the file system knows.
    pub attributes_mask: u64,
    /// Time of creation.
    pub btime: FuseTimestamp,
}

/// Attributes in the form of statx(2), and how long the kernel may cache them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatxReply {
    pub statx: Statx,
    pub ttl: Duration,
}

impl Statx {
    pub(crate) fn put(&self, out: &mut impl Put) {
        let InodeAttr {
            ino,
            size,
            blocks,
            atime,
            mtime,
            ctime,
            mode,
            nlink,
            uid,
            gid,
            rdev,
            blksize,
            flags: _,
        } = self.attr;
        out.put_u32(self.mask);
        out.put_u32(blksize);
        out.put_u64(self.attributes);
        out.put_u32(nlink);
        out.put_u32(uid);
        out.put_u32(gid);
        // File type and permission bits fit into 16 bits.
        out.put_u16(mode as u16);
        out.put_u16(0);
        out.put_u64(ino);
        out.put_u64(size);
        out.put_u64(blocks);
        out.put_u64(self.attributes_mask);
        for time in [atime, self.btime, ctime, mtime] {
            out.put_i64(time.seconds);
            out.put_u32(time.nanos);
            out.put_u32(0);
        }
        // The kernel's 32-bit form: 12 bits of major number between 8 low and 12 high bits of the minor number.
        out.put_u32(rdev >> 8 & 0xfff);
        out.put_u32(rdev & 0xff | rdev >> 12 & 0xfff00);
        out.put_u32(0);
        out.put_u32(0);
        out.put_zeros(14 * 8);
    }
}

/// The reply to GETXATTR and LISTXATTR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XattrReply {
    /// Reply to a request with size 0: the needed buffer size.
    Size(u32),
    /// The value, or the names, each terminated by a zero byte.
    Value(Vec<u8>),
}

impl XattrReply {
    /// The reply for `value` when the program's buffer has `asked` bytes: the length of the value if `asked` is 0, ERANGE if
    /// the buffer is too small.
    pub fn fit(value: Vec<u8>, requested: u32) -> crate::Result<XattrReply> {
        if requested == 0 {
            u32::try_from(value.len())
                .map(XattrReply::Size)
                .map_err(|_| crate::Errno::E2BIG)
        } else if value.len() > requested as usize {
            Err(crate::Errno::ERANGE)
        } else {
            Ok(XattrReply::Value(value))
        }
    }
}

/// The reply to IOCTL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IoctlReply {
    /// Return value of ioctl(2).
    pub result: i32,
    pub data: Vec<u8>,
}

/// Data bytes of a reply, in the memory where the handler has them; this crate does not copy them before the kernel does.
#[derive(Debug, Default)]
pub struct ReplyData(pub(crate) DataSource);

#[derive(Debug, Default)]
pub(crate) enum DataSource {
    #[default]
    None,
    Static(&'static [u8]),
    Vec(Vec<u8>),
    Bytes(Bytes),
    Scratch(Scratch),
    Many(Vec<Bytes>),
}

impl ReplyData {
    pub fn len(&self) -> usize {
        match &self.0 {
            DataSource::None => 0,
            DataSource::Static(bytes) => bytes.len(),
            DataSource::Vec(bytes) => bytes.len(),
            DataSource::Bytes(bytes) => bytes.len(),
            DataSource::Scratch(bytes) => bytes.len(),
            DataSource::Many(pieces) => pieces.iter().map(Bytes::len).sum(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Vec<u8>> for ReplyData {
    fn from(bytes: Vec<u8>) -> ReplyData {
        ReplyData(DataSource::Vec(bytes))
    }
}

impl From<Bytes> for ReplyData {
    fn from(bytes: Bytes) -> ReplyData {
        ReplyData(DataSource::Bytes(bytes))
    }
}

impl From<Vec<Bytes>> for ReplyData {
    fn from(pieces: Vec<Bytes>) -> ReplyData {
        ReplyData(DataSource::Many(pieces))
    }
}

impl From<Scratch> for ReplyData {
    fn from(scratch: Scratch) -> ReplyData {
        ReplyData(DataSource::Scratch(scratch))
    }
}

impl From<&'static [u8]> for ReplyData {
    fn from(bytes: &'static [u8]) -> ReplyData {
        ReplyData(DataSource::Static(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_length_that_the_kernel_expects() {
        let mut out = Vec::new();
        InodeAttr::default().put(&mut out);
        assert_eq!(out.len(), 88);
        out.clear();
        EntryReply::absent(Duration::from_secs(1)).put(&mut out);
        assert_eq!(out.len(), 128);
        out.clear();
        Statx::default().put(&mut out);
        assert_eq!(out.len(), 256);
    }

    #[test]
    fn attributes_have_the_kernels_layout() {
        let attr = InodeAttr {
            ino: 1,
            size: 2,
            blocks: 3,
            atime: FuseTimestamp {
                seconds: -4,
                nanos: 7,
            },
            mtime: FuseTimestamp {
                seconds: 5,
                nanos: 8,
            },
            ctime: FuseTimestamp {
                seconds: 6,
                nanos: 9,
            },
            mode: 10,
            nlink: 11,
            uid: 12,
            gid: 13,
            rdev: 14,
            blksize: 15,
            flags: AttrFlags::DAX,
        };
        let mut out = Vec::new();
        attr.put(&mut out);
        let quads: Vec<i64> = out[..48]
            .chunks(8)
            .map(|word| i64::from_ne_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(quads, [1, 2, 3, -4, 5, 6]);
        let words: Vec<u32> = out[48..]
            .chunks(4)
            .map(|word| u32::from_ne_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(words, [7, 8, 9, 10, 11, 12, 13, 14, 15, 2]);
    }

    #[test]
    fn statx_splits_device_numbers() {
        let rdev = (0x12 & 0xff) | (0x103 << 8) | ((0x34512 & !0xff) << 12);
        let mut out = Vec::new();
        Statx {
            attr: InodeAttr {
                rdev,
                ..InodeAttr::default()
            },
            ..Statx::default()
        }
        .put(&mut out);
        assert_eq!(out[128..132], 0x103u32.to_ne_bytes());
        assert_eq!(out[132..136], 0x34512u32.to_ne_bytes());
    }

    #[test]
    fn an_xattr_reply_to_size_0_is_the_needed_size() {
        assert_eq!(XattrReply::fit(vec![1, 2, 3], 0), Ok(XattrReply::Size(3)));
        assert_eq!(XattrReply::fit(vec![1, 2, 3], 2), Err(crate::Errno::ERANGE));
        assert_eq!(
            XattrReply::fit(vec![1, 2, 3], 3),
            Ok(XattrReply::Value(vec![1, 2, 3]))
        );
    }
}
