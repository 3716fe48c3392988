//! Files in a mounted directory, as a program's processes would write and read them.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::super::orders::{self, Files, Part, Shape};
use super::{WorkDirectory, joined, wanted};
use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::memory::Buffer;
use crate::page_cache;
use crate::pattern::{Origin, PatternGenerator};
use crate::results::Direction;
use crate::space;

pub fn enter(order: &orders::EnterDirectory) -> SuiteResult<WorkDirectory> {
    let dir = order.below.join(&order.name);
    if order.makes {
        space::check(&order.below, order.room)?;
        std::fs::create_dir(&dir).doing("make", &dir)?;
    } else if !dir.is_dir() {
        return Err(SuiteError::failed(format!(
            "{} is not there, though another host made it: the directories are not of one file system",
            dir.display()
        )));
    }
    Ok(WorkDirectory {
        dir,
        made: order.makes,
    })
}

pub fn work(dir: &Path, order: &Files) -> SuiteResult<Vec<Part>> {
    std::thread::scope(|scope| {
        let threads = order.workers.iter().map(|worker| {
            scope.spawn(move || match order.way {
                Direction::Write => write(dir, order, *worker),
                Direction::Read => read(dir, order, (*worker + order.shift) % order.of),
            })
        });
        joined(threads.collect())
    })
}

/// The file of a worker, and where its part begins.
fn place(dir: &Path, order: &Files, worker: usize) -> (PathBuf, u64) {
    match order.shape {
        Shape::Each => (dir.join(format!("each{worker}")), 0),
        Shape::One => (dir.join("one"), worker as u64 * order.size),
    }
}

fn records(order: &Files) -> u64 {
    order.size / order.record
}

fn write(dir: &Path, order: &Files, worker: usize) -> SuiteResult<Part> {
    let (path, start) = place(dir, order, worker);
    let origin = Origin {
        file: worker as u64,
        writer: worker as u64,
        pass: 0,
    };
    let run = u64::from(std::process::id());
    let mut generator = PatternGenerator::new(run, origin, order.record as usize, false);
    let begun = Instant::now();
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .doing("open", &path)?;
    for record in 0..records(order) {
        wanted()?;
        let offset = start + record * order.record;
        let bytes = generator.record(offset, order.record as usize);
        file.write_all_at(bytes, offset).doing("write to", &path)?;
    }
    file.sync_all().doing("sync", &path)?;
    drop(file);
    Ok(part(order, begun))
}

fn read(dir: &Path, order: &Files, worker: usize) -> SuiteResult<Part> {
    let (path, start) = place(dir, order, worker);
    let mut buffer = Buffer::zeroed(order.record as usize);
    let file = File::open(&path).doing("open", &path)?;
    page_cache::forget(&file).doing("forget the cache of", &path)?;
    drop(file);
    let begun = Instant::now();
    let file = File::open(&path).doing("open", &path)?;
    for record in 0..records(order) {
        wanted()?;
        let offset = start + record * order.record;
        file.read_exact_at(&mut buffer, offset)
            .doing("read", &path)?;
    }
    Ok(part(order, begun))
}

fn part(order: &Files, begun: Instant) -> Part {
    Part {
        bytes: records(order) * order.record,
        seconds: begun.elapsed().as_secs_f64(),
    }
}
