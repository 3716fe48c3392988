//! Operations on names.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat, fstat, linkat, lstat, mkdir, open,
    readlink, readlinkat, rename, renameat_with, rmdir, symlink, unlink,
};
use rustix::io::{Errno, pread, pwrite};

use super::{RoundDirectory, SysResult, sys};
use crate::history::{Answer, Kind, Rename, tag};
use crate::subject::{self, Subject};

/// Bytes of a published file: more than an inline file, less than a page.
const PUBLISHED: u64 = 2048;

const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const DIR_MODE: Mode = Mode::from_raw_mode(0o755);

impl RoundDirectory {
    fn slot(&self, subject: Subject, slot: u8) -> PathBuf {
        self.path(subject).join(subject::slot_path(slot))
    }

    pub(super) fn create(&self, subject: Subject, at: u8, exclusive: bool) -> SysResult {
        if let Some(answer) = self.held_create(subject, at)? {
            return Ok(answer);
        }
        let mut flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        flags.set(OFlags::EXCL, exclusive);
        let fd = open(self.slot(subject, at), flags, FILE_MODE)?;
        file(&fd, 0)
    }

    pub(super) fn get(&self, subject: Subject, at: u8) -> SysResult {
        // O_NONBLOCK: whatever is there must not make us wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = open(self.slot(subject, at), flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&fd)?.st_mode) == FileType::Directory {
            return Err(Errno::ISDIR);
        }
        let mut bytes = vec![0; PUBLISHED as usize + 8];
        let count = pread(&fd, &mut bytes, 0)?;
        let tag = match &*tag::read(&bytes[..count], 0) {
            [] => 0,
            // No worker writes zeros.
            [(PUBLISHED, writer)] if *writer != 0 => *writer,
            _ => tag::BAD,
        };
        file(&fd, tag)
    }

    pub(super) fn look(&self, subject: Subject, at: u8) -> SysResult {
        match self.held_look(subject, at)? {
            Some(answer) => Ok(answer),
            None => Ok(seen(&lstat(self.slot(subject, at))?)),
        }
    }

    pub(super) fn list(&self, subject: Subject, directory: u8) -> SysResult {
        let path = self.path(subject).join(["x", "y"][usize::from(directory)]);
        let mut slots = 0;
        let mut stranger = false;
        let entries = std::fs::read_dir(path).map_err(|error| errno_of(&error))?;
        for entry in entries {
            let name = entry.map_err(|error| errno_of(&error))?.file_name();
            match subject::listed(directory).find(|(_, known)| name == known.as_str()) {
                Some((slot, _)) => slots |= 1 << slot,
                // The name under which an NFS client keeps an open file that was removed.
                None if name.as_encoded_bytes().starts_with(b".nfs") => {}
                None => stranger = true,
            }
        }
        Ok(Answer::Listed { slots, stranger })
    }

    pub(super) fn unlink(&self, subject: Subject, at: u8) -> SysResult {
        if let Some(answer) = self.held_unlink(subject, at)? {
            return Ok(answer);
        }
        unlink(self.slot(subject, at))?;
        Ok(Answer::Done)
    }

    pub(super) fn rename(&self, subject: Subject, from: u8, to: u8, how: Rename) -> SysResult {
        let (from, to) = (self.slot(subject, from), self.slot(subject, to));
        match how {
            Rename::Over => rename(from, to)?,
            Rename::NoReplace => renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?,
            Rename::Exchange => renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE)?,
        }
        Ok(Answer::Done)
    }

    /// First a hold on the file, then the name: what Linux does inside of link(2), with a look at what it found.
    pub(super) fn link(&self, subject: Subject, from: u8, to: u8) -> SysResult {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = open(self.slot(subject, from), flags, Mode::empty())?;
        let stat = fstat(&fd)?;
        let tag = match kind(&stat) {
            Kind::Symlink => target(readlinkat(&fd, "", Vec::new())?.as_bytes()),
            _ => 0,
        };
        let itself = Path::new("/proc/self/fd").join(fd.as_raw_fd().to_string());
        let linked = linkat(
            CWD,
            itself,
            CWD,
            self.slot(subject, to),
            AtFlags::SYMLINK_FOLLOW,
        );
        Ok(Answer::Linked {
            kind: kind(&stat),
            inode: stat.st_ino,
            tag,
            errno: linked.err().map_or(0, Errno::raw_os_error),
        })
    }

    pub(super) fn symlink(&self, subject: Subject, at: u8, tag: u64) -> SysResult {
        symlink(format!("to-{tag:x}"), self.slot(subject, at))?;
        Ok(Answer::Done)
    }

    pub(super) fn read_link(&self, subject: Subject, at: u8) -> SysResult {
        let text = readlink(self.slot(subject, at), Vec::new())?;
        Ok(Answer::Target {
            tag: target(text.as_bytes()),
        })
    }

    pub(super) fn make_dir(&self, subject: Subject, at: u8) -> SysResult {
        mkdir(self.slot(subject, at), DIR_MODE)?;
        Ok(Answer::Done)
    }

    pub(super) fn remove_dir(&self, subject: Subject, at: u8) -> SysResult {
        rmdir(self.slot(subject, at))?;
        Ok(Answer::Done)
    }

    pub(super) fn write_unpublished(&mut self, number: u32, tag: u64) -> SysResult<()> {
        let path = self.unpublished_path(number);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let fd = open(&path, flags, FILE_MODE)?;
        let bytes = tag::fill(tag, 0, PUBLISHED);
        if pwrite(&fd, &bytes, 0)? != bytes.len() {
            return Err(Errno::IO);
        }
        self.unpublished = Some((path, file(&fd, tag)?));
        Ok(())
    }

    pub(super) fn publish(&mut self, subject: Subject, at: u8) -> SysResult {
        let Some((path, file)) = self.unpublished.take() else {
            return Err(Errno::NOENT);
        };
        if let Err(errno) = rename(&path, self.slot(subject, at)) {
            // It may be there still, or not: no other worker looks at it.
            let _ = unlink(&path);
            return Err(errno);
        }
        Ok(file)
    }
}

pub(super) fn file(fd: &OwnedFd, tag: u64) -> SysResult {
    Ok(Answer::File {
        inode: fstat(fd)?.st_ino,
        generation: sys::generation(fd),
        tag,
    })
}

pub(super) fn seen(stat: &Stat) -> Answer {
    Answer::Seen {
        kind: kind(stat),
        inode: stat.st_ino,
        links: stat.st_nlink,
    }
}

fn kind(stat: &Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Dir,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::File,
    }
}

fn target(text: &[u8]) -> u64 {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| u64::from_str_radix(text.strip_prefix("to-")?, 16).ok())
        .unwrap_or(tag::BAD)
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
