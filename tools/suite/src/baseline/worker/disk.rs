//! A disk without a file system's cache: sequential streams with O_DIRECT.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::super::orders;
use super::{joined, wanted};
use crate::amount::MB;
use crate::device;
use crate::memory::Buffer;
use crate::results::Way;
use crate::space;
use crate::trouble::{Doing, Outcome, Trouble};
use crate::words::{Origin, Pen};

pub struct Disk {
    file: File,
    path: PathBuf,
    record: u64,
    /// Records that are worked on.
    records: u64,
}

impl Disk {
    /// What is read later was written by this run, unless only reading was allowed.
    pub fn open(asked: &orders::Disk) -> Outcome<Disk> {
        let path = &asked.path;
        let kind = std::fs::metadata(path).doing("use", path)?.file_type();
        let file = if kind.is_block_device() {
            open_device(asked)?
        } else if kind.is_dir() {
            if asked.read_only {
                return Err(Trouble::asked(format!(
                    "{} is a directory: its disk cannot be read without writing a file first; give the device, or leave \
                     --read-only out",
                    path.display()
                )));
            }
            space::check(path, asked.size)?;
            open_nameless(path)?
        } else {
            return Err(Trouble::asked(format!(
                "{} is neither a block device nor a directory",
                path.display()
            )));
        };
        let disk = Disk {
            file,
            path: path.clone(),
            record: asked.record,
            records: asked.size / asked.record,
        };
        if !asked.read_only {
            disk.fill()?;
        }
        Ok(disk)
    }

    fn fill(&self) -> Outcome<()> {
        let mut pen = self.pen(0);
        for record in 0..self.records {
            wanted()?;
            let offset = record * self.record;
            self.write(&mut pen, offset)?;
        }
        self.file.sync_data().doing("sync", &self.path)
    }

    fn pen(&self, stream: u64) -> Pen {
        let origin = Origin {
            file: 0,
            writer: stream,
            pass: 0,
        };
        Pen::new(
            u64::from(std::process::id()),
            origin,
            self.record as usize,
            false,
        )
    }

    fn write(&self, pen: &mut Pen, offset: u64) -> Outcome<()> {
        let bytes = pen.record(offset, self.record as usize);
        self.file
            .write_all_at(bytes, offset)
            .doing("write to", &self.path)
    }

    /// One of so many streams, over its part of the disk again and again.
    fn stream(&self, stream: u64, asked: &orders::Stream) -> Outcome<(u64, f64)> {
        let streams = u64::from(asked.streams);
        let first = self.records * stream / streams;
        let part = (self.records * (stream + 1) / streams - first).max(1);
        let mut pen = self.pen(stream);
        let mut buffer = Buffer::zeroed(self.record as usize);
        let begun = Instant::now();
        let until = begun + Duration::from_secs_f64(asked.seconds);
        let mut done = 0;
        while Instant::now() < until {
            wanted()?;
            let offset = (first + done % part) * self.record;
            match asked.way {
                Way::Write => self.write(&mut pen, offset)?,
                Way::Read => self
                    .file
                    .read_exact_at(&mut buffer, offset)
                    .doing("read", &self.path)?,
            }
            done += 1;
        }
        if asked.way == Way::Write {
            self.file.sync_data().doing("sync", &self.path)?;
        }
        Ok((done * self.record, begun.elapsed().as_secs_f64()))
    }
}

fn open_device(asked: &orders::Disk) -> Outcome<File> {
    let path = &asked.path;
    let (size, block) = device::size_and_block(path)?;
    if asked.size > size {
        return Err(Trouble::asked(format!(
            "{} has {} MB; choose a smaller --disk-size",
            path.display(),
            size >> 20
        )));
    }
    if !asked.record.is_multiple_of(block) {
        return Err(Trouble::asked(format!(
            "{} has blocks of {block} bytes: --disk-record must be a multiple of it",
            path.display()
        )));
    }
    if !asked.i_know && !asked.read_only {
        device::check_free(path)?;
    }
    OpenOptions::new()
        .read(true)
        .write(!asked.read_only)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .doing("open", path)
}

/// A file that is gone when it is closed, however this process ends.
fn open_nameless(dir: &Path) -> Outcome<File> {
    let path = dir.join(format!("gupfs_baseline_{}", std::process::id()));
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(libc::O_DIRECT)
        .open(&path);
    let file = match opened {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {
            // The name is there although it could not be opened.
            let _ = std::fs::remove_file(&path);
            return Err(Trouble::asked(format!(
                "the file system of {} does not take O_DIRECT, so it would be the cache that is measured; give the disk's \
                 device, or a directory on a local disk",
                dir.display()
            )));
        }
        opened => opened.doing("make a file in", dir)?,
    };
    std::fs::remove_file(&path).doing("remove", &path)?;
    Ok(file)
}

/// MB/s of each of the disks asked for, all at once.
pub fn stream(disks: &[Disk], asked: &orders::Stream) -> Outcome<Vec<f64>> {
    let chosen = asked.disks.iter().map(|disk| {
        let disk = disks.get(*disk);
        disk.ok_or_else(|| Trouble::met("there is no such disk"))
    });
    let chosen = chosen.collect::<Outcome<Vec<_>>>()?;
    let moved = std::thread::scope(|scope| {
        let threads = chosen
            .iter()
            .flat_map(|disk| (0..u64::from(asked.streams)).map(move |stream| (disk, stream)));
        let threads = threads.map(|(disk, stream)| scope.spawn(move || disk.stream(stream, asked)));
        joined(threads.collect())
    })?;
    let of_disk = |streams: &[(u64, f64)]| {
        let bytes: u64 = streams.iter().map(|(bytes, _)| bytes).sum();
        let longest = streams.iter().map(|(_, time)| *time).fold(0.0, f64::max);
        bytes as f64 / MB / longest
    };
    Ok(moved
        .chunks(usize::from(asked.streams))
        .map(of_disk)
        .collect())
}
