//! Data and attributes of one node.

use gupfs_fuse::op::{Fallocate, Lseek, SetTime, Setattr, Setxattr, Write};
use gupfs_fuse::{Errno, FuseTimestamp, Result, WriteFlags};

use super::state::{Node, NodeKind, now};

/// Largest file size: files are in memory.
const SIZE_MAX: u64 = 1 << 30;

fn bytes(node: &Node) -> Result<&Vec<u8>> {
    match &node.kind {
        NodeKind::File(bytes) => Ok(bytes),
        NodeKind::Directory(_) => Err(Errno::EISDIR),
        NodeKind::Symlink(_) => Err(Errno::EINVAL),
    }
}

fn bytes_mut(node: &mut Node) -> Result<&mut Vec<u8>> {
    match &mut node.kind {
        NodeKind::File(bytes) => Ok(bytes),
        NodeKind::Directory(_) => Err(Errno::EISDIR),
        NodeKind::Symlink(_) => Err(Errno::EINVAL),
    }
}

pub fn read(node: &Node, offset: u64, size: usize) -> Result<&[u8]> {
    let bytes = bytes(node)?;
    let start = usize::try_from(offset)
        .unwrap_or(usize::MAX)
        .min(bytes.len());
    let end = start.saturating_add(size).min(bytes.len());
    Ok(&bytes[start..end])
}

pub fn write(node: &mut Node, op: &Write) -> Result<u32> {
    let append =
        op.open_flags as i32 & libc::O_APPEND != 0 && !op.flags.contains(WriteFlags::CACHE);
    let offset = if append {
        bytes(node)?.len() as u64
    } else {
        op.offset
    };
    store(node, offset, &op.data)?;
    if op.flags.contains(WriteFlags::KILL_SUIDGID) {
        kill_suidgid(node);
    }
    Ok(op.data.len() as u32)
}

pub fn store(node: &mut Node, offset: u64, data: &[u8]) -> Result<()> {
    let end = offset
        .checked_add(data.len() as u64)
        .filter(|end| *end <= SIZE_MAX)
        .ok_or(Errno::EFBIG)?;
    let bytes = bytes_mut(node)?;
    if bytes.len() < end as usize {
        bytes.resize(end as usize, 0);
    }
    bytes[offset as usize..end as usize].copy_from_slice(data);
    node.touch();
    Ok(())
}

pub fn truncate(node: &mut Node, size: u64, kill: bool) -> Result<()> {
    if size > SIZE_MAX {
        return Err(Errno::EFBIG);
    }
    bytes_mut(node)?.resize(size as usize, 0);
    node.touch();
    if kill {
        kill_suidgid(node);
    }
    Ok(())
}

/// Clears setuid and setgid. A setgid bit without group execute means mandatory locking, and stays.
fn kill_suidgid(node: &mut Node) {
    node.attr.mode &= !libc::S_ISUID;
    if node.attr.mode & libc::S_IXGRP != 0 {
        node.attr.mode &= !libc::S_ISGID;
    }
}

pub fn set_attributes(node: &mut Node, op: &Setattr) -> Result<()> {
    if let Some(size) = op.size() {
        truncate(node, size, op.kill_suidgid())?;
    }
    if let Some(mode) = op.mode() {
        node.attr.mode = node.attr.mode & libc::S_IFMT | mode & 0o7777;
    }
    node.attr.uid = op.uid().unwrap_or(node.attr.uid);
    node.attr.gid = op.gid().unwrap_or(node.attr.gid);
    let time = |set: Option<SetTime>, old: FuseTimestamp| match set {
        Some(SetTime::Now) => now(),
        Some(SetTime::At(time)) => time,
        None => old,
    };
    node.attr.atime = time(op.atime(), node.attr.atime);
    node.attr.mtime = time(op.mtime(), node.attr.mtime);
    node.attr.ctime = op.ctime().unwrap_or_else(now);
    Ok(())
}

pub fn set_xattr(node: &mut Node, op: Setxattr) -> Result<()> {
    let known = node.xattrs.contains_key(op.name.as_bytes());
    match op.flags as i32 {
        libc::XATTR_CREATE if known => return Err(Errno::EEXIST),
        libc::XATTR_REPLACE if !known => return Err(Errno::ENODATA),
        _ => {}
    }
    node.xattrs.insert(op.name.into_boxed(), op.value);
    node.attr.ctime = now();
    Ok(())
}

pub fn allocate(node: &mut Node, op: &Fallocate) -> Result<()> {
    let end = op
        .offset
        .checked_add(op.length)
        .filter(|end| *end <= SIZE_MAX)
        .ok_or(Errno::EFBIG)? as usize;
    let bytes = bytes_mut(node)?;
    let keep = op.mode & libc::FALLOC_FL_KEEP_SIZE as u32 != 0;
    match op.mode as i32 & !libc::FALLOC_FL_KEEP_SIZE {
        0 => {}
        libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE => {
            let (start, stop) = ((op.offset as usize).min(bytes.len()), end.min(bytes.len()));
            bytes[start..stop].fill(0);
        }
        _ => return Err(Errno::EOPNOTSUPP),
    }
    if !keep && bytes.len() < end {
        bytes.resize(end, 0);
    }
    node.touch();
    Ok(())
}

/// Files have no holes except after their end.
pub fn seek(node: &Node, op: &Lseek) -> Result<u64> {
    let size = bytes(node)?.len() as u64;
    if op.offset >= size {
        return Err(Errno::ENXIO);
    }
    match op.whence as i32 {
        libc::SEEK_DATA => Ok(op.offset),
        libc::SEEK_HOLE => Ok(size),
        _ => Err(Errno::EINVAL),
    }
}
