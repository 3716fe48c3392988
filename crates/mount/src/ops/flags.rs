//! ioctl(2): the flags of a file that chattr(1) sets and lsattr(1) shows.
//!
//! Linux takes FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR apart itself, refuses programs without CAP_LINUX_IMMUTABLE, and asks us
//! with one of four commands, as root's request or the owner's. Every other command is ENOTTY.

use super::Outcome;
use crate::callers::asking;
use crate::convert::inode;
use crate::kernel::Kernel;
use gupfs_fuse::{Call, Errno, Ioctled, op};
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::{Attr, Refusal};

/// `_IOR('f', 1, long)`, and so on: what they read or write is an int all the same.
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

/// `struct fsxattr`: flags, extent size, extents, project, extent size of copies, and room.
const FSXATTR: usize = 28;

pub async fn ioctl(kernel: &Kernel, call: Call, op: op::Ioctl) -> Outcome<Ioctled> {
    match op.cmd {
        GETFLAGS => {
            let of = attributes(kernel, &call).await?;
            let flags = show(of.flags, &FLAGS);
            Ok(told(flags.to_ne_bytes().to_vec(), op.out_size))
        }
        FSGETXATTR => {
            let of = attributes(kernel, &call).await?;
            let mut all = vec![0; FSXATTR];
            all[0..4].copy_from_slice(&show(of.flags, &XFLAGS).to_ne_bytes());
            all[12..16].copy_from_slice(&of.project.0.to_ne_bytes());
            Ok(told(all, op.out_size))
        }
        SETFLAGS => {
            kernel.must_be_writable()?;
            let flags = read(word(&op.data, 0)?, &FLAGS)?;
            set(kernel, &call, flags).await
        }
        FSSETXATTR => {
            kernel.must_be_writable()?;
            let flags = read(word(&op.data, 0)?, &XFLAGS)?;
            let of = attributes(kernel, &call).await?;
            let (extents, project, copies) =
                (word(&op.data, 4)?, word(&op.data, 12)?, word(&op.data, 16)?);
            if extents != 0 || copies != 0 || project != of.project.0 {
                return Err(Refusal::NotSupported);
            }
            set(kernel, &call, flags).await
        }
        _ => Ok(Ioctled {
            result: -Errno::ENOTTY.raw(),
            ..Ioctled::default()
        }),
    }
}

async fn attributes(kernel: &Kernel, call: &Call) -> Outcome<Attr> {
    asking(kernel, call, async |who| {
        kernel.client.getattr(&who, inode(call.node)).await
    })
    .await
}

async fn set(kernel: &Kernel, call: &Call, flags: InodeFlags) -> Outcome<Ioctled> {
    asking(kernel, call, async |who| {
        kernel.client.set_flags(&who, inode(call.node), flags).await
    })
    .await?;
    kernel.forget_attributes(inode(call.node));
    Ok(Ioctled::default())
}

fn show(flags: InodeFlags, table: &[(u32, InodeFlags)]) -> u32 {
    let set = table.iter().filter(|(_, flag)| flags.contains(*flag));
    set.fold(0, |bits, (bit, _)| bits | bit)
}

/// # Errors
/// `NotSupported` for every flag that no file here has.
fn read(bits: u32, table: &[(u32, InodeFlags)]) -> Outcome<InodeFlags> {
    let known = table.iter().fold(0, |all, (bit, _)| all | bit);
    if bits & !known != 0 {
        return Err(Refusal::NotSupported);
    }
    let set = table.iter().filter(|(bit, _)| bits & bit != 0);
    Ok(set.fold(InodeFlags::empty(), |flags, (_, flag)| flags | *flag))
}

fn word(data: &[u8], at: usize) -> Outcome<u32> {
    let bytes = data.get(at..at + 4).ok_or(Refusal::Invalid)?;
    Ok(u32::from_ne_bytes(
        bytes.try_into().map_err(|_| Refusal::Invalid)?,
    ))
}

fn told(mut data: Vec<u8>, room: u32) -> Ioctled {
    data.truncate(room as usize);
    Ioctled {
        data,
        ..Ioctled::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_come_back_as_they_were_said_and_others_are_refused() {
        for table in [&FLAGS, &XFLAGS] {
            for flags in [
                InodeFlags::empty(),
                InodeFlags::IMMUTABLE,
                InodeFlags::APPEND_ONLY,
                InodeFlags::SETTABLE,
            ] {
                assert_eq!(read(show(flags, table), table), Ok(flags));
            }
            assert_eq!(read(0x40, table), Err(Refusal::NotSupported));
        }
        assert_eq!(word(&[1, 0, 0, 0, 2], 0), Ok(1));
        assert_eq!(word(&[1, 0, 0, 0, 2], 4), Err(Refusal::Invalid));
    }
}
