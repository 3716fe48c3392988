//! A disk without a file system's cache: sequential streams with O_DIRECT.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::super::orders;
use super::{joined, wanted};
use crate::device;
use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::memory::Buffer;
use crate::pattern::{Origin, PatternGenerator};
use crate::results::Direction;
use crate::size::MB;
use crate::space;

pub struct Disk {
    file: File,
    path: PathBuf,
    record: u64,
    /// Records that are worked on.
    records: u64,
}

impl Disk {
    /// Later reads find bytes that this run wrote, unless only reading was allowed.
    pub fn open(order: &orders::Disk) -> SuiteResult<Disk> {
        let path = &order.path;
        let kind = std::fs::metadata(path).doing("use", path)?.file_type();
        let file = if kind.is_block_device() {
            open_device(order)?
        } else if kind.is_dir() {
            if order.read_only {
                return Err(SuiteError::usage(format!(
                    "{} is a directory: its disk cannot be read without writing a file first; give the device, or leave \
                     --read-only out",
                    path.display()
                )));
            }
            space::check(path, order.size)?;
            open_nameless(path)?
        } else {
            return Err(SuiteError::usage(format!(
                "{} is neither a block device nor a directory",
                path.display()
            )));
        };
        let disk = Disk {
            file,
            path: path.clone(),
            record: order.record,
            records: order.size / order.record,
        };
        if !order.read_only {
            disk.fill()?;
        }
        Ok(disk)
    }

    fn fill(&self) -> SuiteResult<()> {
        let mut generator = self.generator(0);
        for record in 0..self.records {
            wanted()?;
            let offset = record * self.record;
            self.write(&mut generator, offset)?;
        }
        self.file.sync_data().doing("sync", &self.path)
    }

    fn generator(&self, stream: u64) -> PatternGenerator {
        let origin = Origin {
            file: 0,
            writer: stream,
            pass: 0,
        };
        PatternGenerator::new(
            u64::from(std::process::id()),
            origin,
            self.record as usize,
            false,
        )
    }

    fn write(&self, generator: &mut PatternGenerator, offset: u64) -> SuiteResult<()> {
        let bytes = generator.record(offset, self.record as usize);
        self.file
            .write_all_at(bytes, offset)
            .doing("write to", &self.path)
    }

    /// One of so many streams, over its part of the disk again and again.
    fn stream(&self, stream: u64, order: &orders::Stream) -> SuiteResult<(u64, f64)> {
        let streams = u64::from(order.streams);
        let first = self.records * stream / streams;
        let part = (self.records * (stream + 1) / streams - first).max(1);
        let mut generator = self.generator(stream);
        let mut buffer = Buffer::zeroed(self.record as usize);
        let begun = Instant::now();
        let until = begun + Duration::from_secs_f64(order.seconds);
        let mut done = 0;
        while Instant::now() < until {
            wanted()?;
            let offset = (first + done % part) * self.record;
            match order.way {
                Direction::Write => self.write(&mut generator, offset)?,
                Direction::Read => self
                    .file
                    .read_exact_at(&mut buffer, offset)
                    .doing("read", &self.path)?,
            }
            done += 1;
        }
        if order.way == Direction::Write {
            self.file.sync_data().doing("sync", &self.path)?;
        }
        Ok((done * self.record, begun.elapsed().as_secs_f64()))
    }
}

fn open_device(order: &orders::Disk) -> SuiteResult<File> {
    let path = &order.path;
    let (size, block) = device::size_and_block(path)?;
    if order.size > size {
        return Err(SuiteError::usage(format!(
            "{} has {} MB; choose a smaller --disk-size",
            path.display(),
            size >> 20
        )));
    }
    if !order.record.is_multiple_of(block) {
        return Err(SuiteError::usage(format!(
            "{} has blocks of {block} bytes: --disk-record must be a multiple of it",
            path.display()
        )));
    }
    if !order.i_know && !order.read_only {
        device::check_free(path)?;
    }
    OpenOptions::new()
        .read(true)
        .write(!order.read_only)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .doing("open", path)
}

/// A file that is gone when it is closed, however this process ends.
fn open_nameless(dir: &Path) -> SuiteResult<File> {
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
            return Err(SuiteError::usage(format!(
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
pub fn stream(disks: &[Disk], order: &orders::Stream) -> SuiteResult<Vec<f64>> {
    let chosen = order.disks.iter().map(|disk| {
        let disk = disks.get(*disk);
        disk.ok_or_else(|| SuiteError::failed("there is no such disk"))
    });
    let chosen = chosen.collect::<SuiteResult<Vec<_>>>()?;
    let moved = std::thread::scope(|scope| {
        let threads = chosen
            .iter()
            .flat_map(|disk| (0..u64::from(order.streams)).map(move |stream| (disk, stream)));
        let threads = threads.map(|(disk, stream)| scope.spawn(move || disk.stream(stream, order)));
        joined(threads.collect())
    })?;
    let of_disk = |streams: &[(u64, f64)]| {
        let bytes: u64 = streams.iter().map(|(bytes, _)| bytes).sum();
        let longest = streams.iter().map(|(_, time)| *time).fold(0.0, f64::max);
        bytes as f64 / MB / longest
    };
    Ok(moved
        .chunks(usize::from(order.streams))
        .map(of_disk)
        .collect())
}
