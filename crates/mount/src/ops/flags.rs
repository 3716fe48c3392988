//! ioctl(2): the inode flags that chattr(1) sets and lsattr(1) shows.
//!
//! Linux decodes FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR itself, refuses programs without CAP_LINUX_IMMUTABLE, and sends one of
//! four commands with the credentials of root or the owner. Every other command returns ENOTTY.

use super::OpResult;
use crate::convert::inode;
use crate::credentials::as_caller;
use crate::filesystem::GupfsFileSystem;
use gupfs_fuse::{Call, Errno, IoctlReply, op};
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::{Attr, FsError};

/// `_IOR('f', 1, long)`, and so on: despite `long` they read or write an int.
const GETFLAGS: u32 = 0x8008_6601;
const SETFLAGS: u32 = 0x4008_6602;
const FSGETXATTR: u32 = 0x801c_581f;
const FSSETXATTR: u32 = 0x401c_5820;

/// FS_IMMUTABLE_FL, FS_APPEND_FL.
const FLAGS: [(u32, InodeFlags); 2] = [
    (0x10, InodeFlags::IMMUTABLE),
    (0x20, InodeFlags::APPEND_ONLY),
];

/// FS_XFLAG_IMMUTABLE, FS_XFLAG_APPEND.
const XFLAGS: [(u32, InodeFlags); 2] = [
    (0x8, InodeFlags::IMMUTABLE),
    (0x10, InodeFlags::APPEND_ONLY),
];

/// `struct fsxattr`: flags, extent size, extents, project, extent size of copies, padding.
const FSXATTR: usize = 28;

pub async fn ioctl(fs: &GupfsFileSystem, call: Call, op: op::Ioctl) -> OpResult<IoctlReply> {
    match op.cmd {
        GETFLAGS => {
            let of = attributes(fs, &call).await?;
            let flags = to_bits(of.flags, &FLAGS);
            Ok(ioctl_reply(flags.to_ne_bytes().to_vec(), op.out_size))
        }
        FSGETXATTR => {
            let of = attributes(fs, &call).await?;
            let mut all = vec![0; FSXATTR];
            all[0..4].copy_from_slice(&to_bits(of.flags, &XFLAGS).to_ne_bytes());
            all[12..16].copy_from_slice(&of.project.0.to_ne_bytes());
            Ok(ioctl_reply(all, op.out_size))
        }
        SETFLAGS => {
            fs.check_writable()?;
            let flags = from_bits(u32_at(&op.data, 0)?, &FLAGS)?;
            set(fs, &call, flags).await
        }
        FSSETXATTR => {
            fs.check_writable()?;
            let flags = from_bits(u32_at(&op.data, 0)?, &XFLAGS)?;
            let of = attributes(fs, &call).await?;
            let (extents, project, copies) = (
                u32_at(&op.data, 4)?,
                u32_at(&op.data, 12)?,
                u32_at(&op.data, 16)?,
            );
            if extents != 0 || copies != 0 || project != of.project.0 {
                return Err(FsError::NotSupported);
            }
            set(fs, &call, flags).await
        }
        _ => Ok(IoctlReply {
            result: -Errno::ENOTTY.raw(),
            ..IoctlReply::default()
        }),
    }
}

async fn attributes(fs: &GupfsFileSystem, call: &Call) -> OpResult<Attr> {
    as_caller(fs, call, async |caller| {
        fs.client.getattr(&caller, inode(call.node)).await
    })
    .await
}

async fn set(fs: &GupfsFileSystem, call: &Call, flags: InodeFlags) -> OpResult<IoctlReply> {
    as_caller(fs, call, async |caller| {
        fs.client.set_flags(&caller, inode(call.node), flags).await
    })
    .await?;
    fs.invalidate_attributes(inode(call.node));
    Ok(IoctlReply::default())
}

fn to_bits(flags: InodeFlags, table: &[(u32, InodeFlags)]) -> u32 {
    let set = table.iter().filter(|(_, flag)| flags.contains(*flag));
    set.fold(0, |bits, (bit, _)| bits | bit)
}

/// # Errors
/// `NotSupported` for every flag that gupfs does not have.
fn from_bits(bits: u32, table: &[(u32, InodeFlags)]) -> OpResult<InodeFlags> {
    let known = table.iter().fold(0, |all, (bit, _)| all | bit);
    if bits & !known != 0 {
        return Err(FsError::NotSupported);
    }
    let set = table.iter().filter(|(bit, _)| bits & bit != 0);
    Ok(set.fold(InodeFlags::empty(), |flags, (_, flag)| flags | *flag))
}

fn u32_at(data: &[u8], at: usize) -> OpResult<u32> {
    let bytes = data.get(at..at + 4).ok_or(FsError::Invalid)?;
    Ok(u32::from_ne_bytes(
        bytes.try_into().map_err(|_| FsError::Invalid)?,
    ))
}

fn ioctl_reply(mut data: Vec<u8>, room: u32) -> IoctlReply {
    data.truncate(room as usize);
    IoctlReply {
        data,
        ..IoctlReply::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_round_trip_and_unknown_flags_are_refused() {
        for table in [&FLAGS, &XFLAGS] {
            for flags in [
                InodeFlags::empty(),
                InodeFlags::IMMUTABLE,
                InodeFlags::APPEND_ONLY,
                InodeFlags::SETTABLE,
            ] {
                assert_eq!(from_bits(to_bits(flags, table), table), Ok(flags));
            }
            assert_eq!(from_bits(0x40, table), Err(FsError::NotSupported));
        }
        assert_eq!(u32_at(&[1, 0, 0, 0, 2], 0), Ok(1));
        assert_eq!(u32_at(&[1, 0, 0, 0, 2], 4), Err(FsError::Invalid));
    }
}
