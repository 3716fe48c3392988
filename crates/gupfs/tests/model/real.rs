//! The operations as system calls.

use crate::model::{NOWHERE, Outcome, Seen};
use crate::op::{How, Op, Path, SLOTS};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

pub struct Real {
    dir: PathBuf,
    open: [Option<OwnedFd>; SLOTS],
}

const ATTRIBUTE: &str = "user.model";

impl Real {
    pub fn new(dir: &std::path::Path) -> Real {
        Real {
            dir: dir.to_owned(),
            open: Default::default(),
        }
    }

    pub fn close_all(&mut self) {
        self.open = Default::default();
    }

    pub fn apply(&mut self, op: &Op) -> Outcome {
        self.call(op).map_err(|errno| errno.raw_os_error())
    }

    fn at(&self, path: &Path) -> PathBuf {
        path.0
            .iter()
            .fold(self.dir.clone(), |dir, name| dir.join(name))
    }

    fn file(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::open(self.at(path), flags | OFlags::CLOEXEC, Mode::empty())
    }

    fn call(&mut self, op: &Op) -> Result<Seen, Errno> {
        match op {
            Op::Create { path, exclusive } => {
                let exclusive = if *exclusive {
                    OFlags::EXCL
                } else {
                    OFlags::NOFOLLOW
                };
                let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | exclusive;
                rustix::fs::open(self.at(path), flags, Mode::from_raw_mode(0o644))
                    .map(|_| Seen::Done)
            }
            Op::Mkdir(path) => {
                rustix::fs::mkdir(self.at(path), Mode::from_raw_mode(0o755)).map(|()| Seen::Done)
            }
            Op::Symlink { to } => rustix::fs::symlink(NOWHERE, self.at(to)).map(|()| Seen::Done),
            Op::Rmdir(path) => rustix::fs::rmdir(self.at(path)).map(|()| Seen::Done),
            Op::Unlink(path) => rustix::fs::unlink(self.at(path)).map(|()| Seen::Done),
            Op::Rename { from, to, how } => {
                let flags = match how {
                    How::Replace => RenameFlags::empty(),
                    How::NoReplace => RenameFlags::NOREPLACE,
                    How::Exchange => RenameFlags::EXCHANGE,
                };
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    self.at(from),
                    rustix::fs::CWD,
                    self.at(to),
                    flags,
                )
                .map(|()| Seen::Done)
            }
            Op::Link { of, to } => rustix::fs::link(self.at(of), self.at(to)).map(|()| Seen::Done),
            Op::Write {
                path,
                at,
                len,
                fill,
            } => write(&self.file(path, OFlags::RDWR)?, *at, *len, *fill),
            Op::Append { path, len, fill } => {
                let file = self.file(path, OFlags::RDWR | OFlags::APPEND)?;
                write_whole(*len, *fill, |rest, _| rustix::io::write(&file, rest))
            }
            Op::Truncate { path, to } => {
                let file = self.file(path, OFlags::RDWR)?;
                rustix::fs::ftruncate(&file, *to).map(|()| Seen::Done)
            }
            Op::Punch { path, at, len } => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&self.file(path, OFlags::RDWR)?, flags, *at, *len)
                    .map(|()| Seen::Done)
            }
            Op::Allocate { path, at, len } => rustix::fs::fallocate(
                &self.file(path, OFlags::RDWR)?,
                FallocateFlags::empty(),
                *at,
                *len,
            )
            .map(|()| Seen::Done),
            Op::Copy { from, to, at, len } => {
                let (from, to) = (self.file(from, OFlags::RDWR)?, self.file(to, OFlags::RDWR)?);
                let (mut read_at, mut write_at, mut done) = (0, *at, 0);
                while done < *len {
                    match rustix::fs::copy_file_range(
                        &from,
                        Some(&mut read_at),
                        &to,
                        Some(&mut write_at),
                        *len - done,
                    )? {
                        0 => break,
                        copied => done += copied,
                    }
                }
                Ok(Seen::Count(done))
            }
            Op::Read { path, at, len } => {
                // A separate descriptor, so that the page cache is used.
                self.file(path, OFlags::RDWR)?;
                read(&self.file(path, OFlags::RDONLY)?, *at, *len)
            }
            Op::Stat(path) => {
                rustix::fs::statat(rustix::fs::CWD, self.at(path), AtFlags::SYMLINK_NOFOLLOW)
                    .map(|stat| seen(&stat))
            }
            Op::List(path) => list(&self.file(path, OFlags::RDONLY | OFlags::DIRECTORY)?),
            Op::Chmod { path, mode } => {
                rustix::fs::chmod(self.at(path), Mode::from_raw_mode(*mode)).map(|()| Seen::Done)
            }
            Op::SetAttribute { path, value } => {
                rustix::fs::setxattr(self.at(path), ATTRIBUTE, &[*value], XattrFlags::empty())
                    .map(|()| Seen::Done)
            }
            Op::GetAttribute(path) => {
                let mut value = [0u8; 8];
                let length = rustix::fs::getxattr(self.at(path), ATTRIBUTE, &mut value)?;
                Ok(Seen::Bytes(value[..length].to_vec()))
            }
            Op::RemoveAttribute(path) => {
                rustix::fs::removexattr(self.at(path), ATTRIBUTE).map(|()| Seen::Done)
            }
            Op::Open { slot, path } => {
                self.open[*slot] = None;
                self.open[*slot] = Some(self.file(path, OFlags::RDWR)?);
                Ok(Seen::Done)
            }
            Op::WriteOpen {
                slot,
                at,
                len,
                fill,
            } => write(self.slot(*slot)?, *at, *len, *fill),
            Op::ReadOpen { slot, at, len } => read(self.slot(*slot)?, *at, *len),
            Op::StatOpen { slot } => rustix::fs::fstat(self.slot(*slot)?).map(|stat| seen(&stat)),
            Op::Close { slot } => self.open[*slot]
                .take()
                .map(|_| Seen::Done)
                .ok_or(Errno::BADF),
            Op::Sync(path) => {
                rustix::fs::fsync(&self.file(path, OFlags::RDONLY)?).map(|()| Seen::Done)
            }
            Op::Restart => Ok(Seen::Done),
        }
    }

    fn slot(&self, slot: usize) -> Result<&OwnedFd, Errno> {
        self.open[slot].as_ref().ok_or(Errno::BADF)
    }
}

fn write(file: &OwnedFd, at: u64, len: usize, fill: u8) -> Result<Seen, Errno> {
    write_whole(len, fill, |rest, done| {
        rustix::io::pwrite(file, rest, at + done as u64)
    })
}

/// The kernel may take a long write in parts.
fn write_whole(
    len: usize,
    fill: u8,
    call: impl Fn(&[u8], usize) -> Result<usize, Errno>,
) -> Result<Seen, Errno> {
    let bytes = vec![fill; len];
    let mut done = 0;
    while done < len {
        done += call(&bytes[done..], done)?;
    }
    Ok(Seen::Count(done))
}

fn read(file: &OwnedFd, at: u64, len: usize) -> Result<Seen, Errno> {
    let mut bytes = vec![0; len];
    let mut done = 0;
    while done < len {
        match rustix::io::pread(file, &mut bytes[done..], at + done as u64)? {
            0 => break,
            read => done += read,
        }
    }
    bytes.truncate(done);
    Ok(Seen::Bytes(bytes))
}

fn kind(type_bits: rustix::fs::FileType) -> char {
    match type_bits {
        rustix::fs::FileType::Directory => 'd',
        rustix::fs::FileType::Symlink => 'l',
        rustix::fs::FileType::RegularFile => 'f',
        _ => '?',
    }
}

fn seen(stat: &rustix::fs::Stat) -> Seen {
    let kind = kind(rustix::fs::FileType::from_raw_mode(stat.st_mode));
    let size = (kind != 'd').then_some(stat.st_size as u64);
    Seen::Stat {
        kind,
        size,
        nlink: Some(stat.st_nlink),
        mode: stat.st_mode & 0o7777,
    }
}

fn list(dir: &OwnedFd) -> Result<Seen, Errno> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push((name, kind(entry.file_type())));
        }
    }
    names.sort();
    Ok(Seen::Names(names))
}
