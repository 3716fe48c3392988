//! What handlers answer with.

use std::time::Duration;

use bytes::Bytes;

use crate::buffer::Scratch;
use crate::wire::{AttrFlags, Cursor, FromWire, Malformed, OpenedFlags, Put};
use crate::{Handle, NodeId};

/// Seconds since 1970, negative before, and nanoseconds below 10⁹ after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    pub seconds: i64,
    pub nanos: u32,
}

/// The attributes of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attr {
    pub ino: u64,
    pub size: u64,
    /// Of 512 bytes.
    pub blocks: u64,
    pub atime: Timestamp,
    pub mtime: Timestamp,
    pub ctime: Timestamp,
    /// Kind and permissions.
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    /// Of a device, in the kernel's 32-bit form.
    pub rdev: u32,
    /// What programs should read and write at once.
    pub blksize: u32,
    pub flags: AttrFlags,
}

impl Attr {
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

/// Attributes and how long the kernel may believe them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    pub attr: Attr,
    pub ttl: Duration,
}

/// A name's node and its attributes. The kernel counts one lookup for it, until FORGET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub node: NodeId,
    /// With the node id never the same for two inodes of a mount.
    pub generation: u64,
    /// How long the kernel may believe the name.
    pub name_ttl: Duration,
    pub attr: Attr,
    /// How long the kernel may believe the attributes.
    pub attr_ttl: Duration,
}

impl Entry {
    pub(crate) const WIRE: usize = 40 + Attr::WIRE;

    /// "There is no such name", believed for `ttl`. To have it not remembered, answer ENOENT.
    pub fn absent(ttl: Duration) -> Entry {
        Entry {
            node: NodeId::NONE,
            generation: 0,
            name_ttl: ttl,
            attr: Attr::default(),
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

impl FromWire for Attr {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Attr, Malformed> {
        let mut attr = Attr {
            ino: body.u64("ino")?,
            size: body.u64("size")?,
            blocks: body.u64("blocks")?,
            ..Attr::default()
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

impl FromWire for Entry {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Entry, Malformed> {
        let node = NodeId(body.u64("node")?);
        let generation = body.u64("generation")?;
        let (name, attr) = (body.u64("name seconds")?, body.u64("attr seconds")?);
        let name_ttl = Duration::new(name, body.u32("name nanoseconds")?);
        let attr_ttl = Duration::new(attr, body.u32("attr nanoseconds")?);
        Ok(Entry {
            node,
            generation,
            name_ttl,
            attr_ttl,
            attr: Attr::from_wire(body)?,
        })
    }
}

/// An open file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Opened {
    pub fh: Handle,
    pub flags: OpenedFlags,
}

/// A new file, opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    pub entry: Entry,
    pub opened: Opened,
}

/// The file system as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statfs {
    pub blocks: u64,
    pub blocks_free: u64,
    /// For those who are not root.
    pub blocks_available: u64,
    pub files: u64,
    pub files_free: u64,
    /// What programs should read and write at once.
    pub block_size: u32,
    pub name_max: u32,
    /// The unit of the block counts.
    pub fragment_size: u32,
}

/// Attributes as statx(2) gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statx {
    /// STATX_…: which fields are filled.
    pub mask: u32,
    /// Device numbers and kind as in `Attr`; `rdev` is split here.
    pub attr: Attr,
    /// STATX_ATTR_…
    pub attributes: u64,
    /// Which bits of `attributes` the file system knows.
    pub attributes_mask: u64,
    /// When it was created.
    pub btime: Timestamp,
}

/// Attributes as statx(2) gives them, and how long the kernel may believe them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statxed {
    pub statx: Statx,
    pub ttl: Duration,
}

impl Statx {
    pub(crate) fn put(&self, out: &mut impl Put) {
        let Attr {
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
        // Kind and permissions fit into 16 bits.
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

/// The answer to GETXATTR and LISTXATTR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Xattr {
    /// To a request with size 0: the room needed.
    Size(u32),
    /// The value, or the names each ended by a zero.
    Value(Vec<u8>),
}

impl Xattr {
    /// What the protocol wants for `value` when the program has room for `asked` bytes: its length if that is 0,
    /// ERANGE if it is too small.
    pub fn fit(value: Vec<u8>, asked: u32) -> crate::Result<Xattr> {
        if asked == 0 {
            u32::try_from(value.len())
                .map(Xattr::Size)
                .map_err(|_| crate::Errno::E2BIG)
        } else if value.len() > asked as usize {
            Err(crate::Errno::ERANGE)
        } else {
            Ok(Xattr::Value(value))
        }
    }
}

/// The answer to IOCTL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ioctled {
    /// What ioctl(2) returns.
    pub result: i32,
    pub data: Vec<u8>,
}

/// Bytes for the kernel, from wherever they are; they are not copied before the kernel copies them.
#[derive(Debug, Default)]
pub struct Data(pub(crate) Pieces);

#[derive(Debug, Default)]
pub(crate) enum Pieces {
    #[default]
    None,
    Static(&'static [u8]),
    Vec(Vec<u8>),
    Bytes(Bytes),
    Scratch(Scratch),
    Many(Vec<Bytes>),
}

impl Data {
    pub fn len(&self) -> usize {
        match &self.0 {
            Pieces::None => 0,
            Pieces::Static(bytes) => bytes.len(),
            Pieces::Vec(bytes) => bytes.len(),
            Pieces::Bytes(bytes) => bytes.len(),
            Pieces::Scratch(bytes) => bytes.len(),
            Pieces::Many(pieces) => pieces.iter().map(Bytes::len).sum(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Data {
        Data(Pieces::Vec(bytes))
    }
}

impl From<Bytes> for Data {
    fn from(bytes: Bytes) -> Data {
        Data(Pieces::Bytes(bytes))
    }
}

impl From<Vec<Bytes>> for Data {
    fn from(pieces: Vec<Bytes>) -> Data {
        Data(Pieces::Many(pieces))
    }
}

impl From<Scratch> for Data {
    fn from(scratch: Scratch) -> Data {
        Data(Pieces::Scratch(scratch))
    }
}

impl From<&'static [u8]> for Data {
    fn from(bytes: &'static [u8]) -> Data {
        Data(Pieces::Static(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_length_the_kernel_expects() {
        let mut out = Vec::new();
        Attr::default().put(&mut out);
        assert_eq!(out.len(), 88);
        out.clear();
        Entry::absent(Duration::from_secs(1)).put(&mut out);
        assert_eq!(out.len(), 128);
        out.clear();
        Statx::default().put(&mut out);
        assert_eq!(out.len(), 256);
    }

    #[test]
    fn attributes_lie_where_the_kernel_reads_them() {
        let attr = Attr {
            ino: 1,
            size: 2,
            blocks: 3,
            atime: Timestamp {
                seconds: -4,
                nanos: 7,
            },
            mtime: Timestamp {
                seconds: 5,
                nanos: 8,
            },
            ctime: Timestamp {
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
            attr: Attr {
                rdev,
                ..Attr::default()
            },
            ..Statx::default()
        }
        .put(&mut out);
        assert_eq!(out[128..132], 0x103u32.to_ne_bytes());
        assert_eq!(out[132..136], 0x34512u32.to_ne_bytes());
    }

    #[test]
    fn an_xattr_says_its_size_when_asked_with_no_room() {
        assert_eq!(Xattr::fit(vec![1, 2, 3], 0), Ok(Xattr::Size(3)));
        assert_eq!(Xattr::fit(vec![1, 2, 3], 2), Err(crate::Errno::ERANGE));
        assert_eq!(
            Xattr::fit(vec![1, 2, 3], 3),
            Ok(Xattr::Value(vec![1, 2, 3]))
        );
    }
}
