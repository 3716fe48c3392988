//! Attributes of inodes.

use std::time::Duration;

use crate::wire::{AttrFlags, Cursor, FromWire, Malformed, Put};

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

/// Attributes, and how long the kernel may cache them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttrReply {
    pub attr: InodeAttr,
    pub ttl: Duration,
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
