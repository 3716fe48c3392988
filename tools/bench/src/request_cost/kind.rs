//! The kinds of requests.

use anyhow::{Context, Result};
use clap::ValueEnum;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum RequestKind {
    /// stat of a name that is not there.
    Lookup,
    /// fstat of a file whose attributes may not be kept.
    Getattr,
    /// A new empty file, opened and closed.
    Create,
    Unlink,
    Write4k,
    Read4k,
    Write1m,
    Read1m,
    /// Entries of a large directory, with attributes.
    List,
}

/// Files that the servers begin with, for `List`.
pub const FILES: usize = 100_000;

impl RequestKind {
    pub const ALL: [RequestKind; 9] = [
        RequestKind::Lookup,
        RequestKind::Getattr,
        RequestKind::Create,
        RequestKind::Unlink,
        RequestKind::Write4k,
        RequestKind::Read4k,
        RequestKind::Write1m,
        RequestKind::Read1m,
        RequestKind::List,
    ];

    pub fn name(self) -> &'static str {
        match self {
            RequestKind::Lookup => "lookup",
            RequestKind::Getattr => "getattr",
            RequestKind::Create => "create + release",
            RequestKind::Unlink => "unlink",
            RequestKind::Write4k => "write 4 KiB",
            RequestKind::Read4k => "read 4 KiB",
            RequestKind::Write1m => "write 1 MiB",
            RequestKind::Read1m => "read 1 MiB",
            RequestKind::List => "readdirplus, entries",
        }
    }
}

/// The requests that one program repeats.
pub struct RequestLoop {
    kind: RequestKind,
    dir: PathBuf,
    /// Makes names that no other program has.
    who: String,
    next: u64,
    file: Option<File>,
    buffer: Buffer,
    /// Made to be removed.
    names: Vec<PathBuf>,
}

/// Bytes that begin on a page: otherwise 1 MiB is two requests.
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    fn new(length: usize) -> Buffer {
        const PAGE: usize = 4096;
        let bytes = vec![1; length + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE);
        Buffer {
            bytes,
            start,
            length,
        }
    }

    fn get(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.length]
    }
}

/// Where writes and reads go: this much of the file, again and again.
const SPAN: u64 = 16 << 20;

/// Removals a program prepares for one turn; fewer are done if they are used up.
const REMOVALS: usize = 10_000;

impl RequestLoop {
    pub fn prepare(kind: RequestKind, dir: &Path, who: &str) -> Result<RequestLoop> {
        let mut work = RequestLoop {
            kind,
            dir: dir.to_owned(),
            who: who.to_owned(),
            next: 0,
            file: None,
            buffer: Buffer::new(match kind {
                RequestKind::Write4k | RequestKind::Read4k => 4 << 10,
                RequestKind::Write1m | RequestKind::Read1m => 1 << 20,
                _ => 0,
            }),
            names: Vec::new(),
        };
        match kind {
            RequestKind::Getattr => work.file = Some(work.open("asks")?),
            RequestKind::Write4k
            | RequestKind::Read4k
            | RequestKind::Write1m
            | RequestKind::Read1m => {
                let file = work.open("data")?;
                file.set_len(SPAN)?;
                work.file = Some(file);
            }
            RequestKind::Unlink => {
                for _ in 0..REMOVALS {
                    work.create()?;
                }
            }
            RequestKind::Lookup | RequestKind::Create | RequestKind::List => {}
        }
        Ok(work)
    }

    fn open(&self, prefix: &str) -> Result<File> {
        let path = self.dir.join(format!("{prefix}-{}", self.who));
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(libc_direct())
            .open(&path);
        opened.with_context(|| format!("cannot make '{}'", path.display()))
    }

    fn fresh(&mut self) -> PathBuf {
        self.next += 1;
        self.dir.join(format!("{}-{}", self.who, self.next))
    }

    fn create(&mut self) -> Result<()> {
        let path = self.fresh();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        drop(rustix::fs::open(&path, flags, Mode::from_raw_mode(0o644))?);
        self.names.push(path);
        Ok(())
    }

    /// Once; returns how many requests were answered, or None if there is nothing left to do.
    pub fn step(&mut self) -> Result<Option<u64>> {
        let offset = self.next * self.buffer.length as u64 % SPAN;
        match self.kind {
            RequestKind::Lookup => {
                let path = self.fresh();
                anyhow::ensure!(
                    fs::symlink_metadata(path).is_err(),
                    "a name that is not there is there"
                );
            }
            RequestKind::Getattr => {
                self.file()?.metadata()?;
            }
            RequestKind::Create => self.create()?,
            RequestKind::Unlink => match self.names.pop() {
                Some(path) => fs::remove_file(path)?,
                None => return Ok(None),
            },
            RequestKind::Write4k | RequestKind::Write1m => {
                self.next += 1;
                let file = self.file.take().context("no file")?;
                file.write_all_at(self.buffer.get(), offset)?;
                self.file = Some(file);
            }
            RequestKind::Read4k | RequestKind::Read1m => {
                self.next += 1;
                let file = self.file.take().context("no file")?;
                file.read_exact_at(self.buffer.get(), offset)?;
                self.file = Some(file);
            }
            RequestKind::List => return Ok(Some(fs::read_dir(&self.dir)?.count() as u64)),
        }
        Ok(Some(1))
    }

    fn file(&self) -> Result<&File> {
        self.file.as_ref().context("no file")
    }

    /// Removes what was made.
    pub fn end(self) {
        for name in &self.names {
            let _ = fs::remove_file(name);
        }
    }
}

/// Past the page cache, also where the server would allow it.
fn libc_direct() -> i32 {
    OFlags::DIRECT.bits() as i32
}
