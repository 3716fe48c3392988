//! Files in a mounted directory, as a program's processes would write and read them.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::super::orders::{self, Files, Part, Shape};
use super::{Ground, joined, wanted};
use crate::cached;
use crate::memory::Buffer;
use crate::results::Way;
use crate::space;
use crate::trouble::{Doing, Outcome, Trouble};
use crate::words::{Origin, Pen};

pub fn enter(asked: &orders::Ground) -> Outcome<Ground> {
    let dir = asked.below.join(&asked.name);
    if asked.makes {
        space::check(&asked.below, asked.room)?;
        std::fs::create_dir(&dir).doing("make", &dir)?;
    } else if !dir.is_dir() {
        return Err(Trouble::met(format!(
            "{} is not there, though another host made it: the directories are not of one file system",
            dir.display()
        )));
    }
    Ok(Ground {
        dir,
        made: asked.makes,
    })
}

pub fn work(dir: &Path, asked: &Files) -> Outcome<Vec<Part>> {
    std::thread::scope(|scope| {
        let threads = asked.workers.iter().map(|worker| {
            scope.spawn(move || match asked.way {
                Way::Write => write(dir, asked, *worker),
                Way::Read => read(dir, asked, (*worker + asked.shift) % asked.of),
            })
        });
        joined(threads.collect())
    })
}

/// The file of a worker, and where its part begins.
fn place(dir: &Path, asked: &Files, worker: usize) -> (PathBuf, u64) {
    match asked.shape {
        Shape::Each => (dir.join(format!("each{worker}")), 0),
        Shape::One => (dir.join("one"), worker as u64 * asked.size),
    }
}

fn records(asked: &Files) -> u64 {
    asked.size / asked.record
}

fn write(dir: &Path, asked: &Files, worker: usize) -> Outcome<Part> {
    let (path, start) = place(dir, asked, worker);
    let origin = Origin {
        file: worker as u64,
        writer: worker as u64,
        pass: 0,
    };
    let run = u64::from(std::process::id());
    let mut pen = Pen::new(run, origin, asked.record as usize, false);
    let begun = Instant::now();
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .doing("open", &path)?;
    for record in 0..records(asked) {
        wanted()?;
        let offset = start + record * asked.record;
        let bytes = pen.record(offset, asked.record as usize);
        file.write_all_at(bytes, offset).doing("write to", &path)?;
    }
    file.sync_all().doing("sync", &path)?;
    drop(file);
    Ok(part(asked, begun))
}

fn read(dir: &Path, asked: &Files, worker: usize) -> Outcome<Part> {
    let (path, start) = place(dir, asked, worker);
    let mut buffer = Buffer::zeroed(asked.record as usize);
    let file = File::open(&path).doing("open", &path)?;
    cached::forget(&file).doing("forget the cache of", &path)?;
    drop(file);
    let begun = Instant::now();
    let file = File::open(&path).doing("open", &path)?;
    for record in 0..records(asked) {
        wanted()?;
        let offset = start + record * asked.record;
        file.read_exact_at(&mut buffer, offset)
            .doing("read", &path)?;
    }
    Ok(part(asked, begun))
}

fn part(asked: &Files, begun: Instant) -> Part {
    Part {
        bytes: records(asked) * asked.record,
        seconds: begun.elapsed().as_secs_f64(),
    }
}
