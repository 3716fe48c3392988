//! Walks of one process over the whole tree: make it, stat it, set its times, remove it. An operation is an entry.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use super::tree::Tree;
use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::latency::Laps;
use crate::pattern::{Origin, PatternChecker, PatternGenerator};

/// One write of a file's bytes.
const PIECE: u64 = 1 << 20;

/// The origin of a file's bytes: its number in the tree.
fn origin(file: u64) -> Origin {
    Origin {
        file,
        writer: 0,
        pass: 0,
    }
}

/// The generator of the files' bytes.
pub fn generator(run: u64, checked: bool) -> PatternGenerator {
    PatternGenerator::new(run, origin(0), PIECE as usize, checked)
}

/// Makes the tree. The bytes that were written.
pub fn create(
    tree: &Tree,
    top: &Path,
    generator: &mut PatternGenerator,
    laps: &mut Laps,
) -> SuiteResult<u64> {
    let (mut number, mut all) = (0, 0);
    for directory in &tree.directories {
        let dir = top.join(&directory.path);
        fs::create_dir(&dir).doing("make", &dir)?;
        laps.lap()?;
        for planned in &directory.files {
            let path = dir.join(&planned.name);
            let mut file = File::create_new(&path).doing("make", &path)?;
            generator.turn_to(origin(number));
            for offset in (0..planned.bytes).step_by(PIECE as usize) {
                let length = PIECE.min(planned.bytes - offset) as usize;
                file.write_all(generator.record(offset, length))
                    .doing("write", &path)?;
            }
            drop(file);
            laps.lap()?;
            number += 1;
            all += planned.bytes;
        }
    }
    Ok(all)
}

/// Whether every planned file is there, as long as planned, with the bytes that were written.
pub fn check(tree: &Tree, top: &Path, run: u64) -> SuiteResult<()> {
    let mut checker = PatternChecker::new(run, Vec::new());
    let mut number = 0;
    for directory in &tree.directories {
        for planned in &directory.files {
            let path = top.join(&directory.path).join(&planned.name);
            let found = fs::read(&path).doing("read", &path)?;
            if found.len() as u64 != planned.bytes {
                return Err(SuiteError::failed(format!(
                    "{}: wrong size: expected {}, found {}",
                    path.display(),
                    planned.bytes,
                    found.len()
                )));
            }
            checker.compare(&path, 0, &found, origin(number))?;
            number += 1;
        }
    }
    Ok(())
}

/// The entries of a directory, with what stat says of each.
fn entries(dir: &Path) -> SuiteResult<Vec<(PathBuf, fs::Metadata)>> {
    let listed = fs::read_dir(dir).doing("list", dir)?;
    listed
        .map(|entry| {
            let path = entry.doing("list", dir)?.path();
            let found = fs::symlink_metadata(&path).doing("stat", &path)?;
            Ok((path, found))
        })
        .collect()
}

/// Walks over everything below the top, calling stat for each entry, and something else.
pub fn visit(
    top: &Path,
    then: &mut impl FnMut(&Path, &fs::Metadata) -> SuiteResult<()>,
) -> SuiteResult<()> {
    let listed = fs::read_dir(top).doing("list", top)?;
    let mut below = Vec::new();
    for entry in listed {
        let path = entry.doing("list", top)?.path();
        let found = fs::symlink_metadata(&path).doing("stat", &path)?;
        then(&path, &found)?;
        if found.is_dir() {
            below.push(path);
        }
    }
    for dir in below {
        visit(&dir, then)?;
    }
    Ok(())
}

/// 2002-10-01: neither now nor the beginning of time.
const MOMENT: i64 = 1_033_430_400;

/// Sets both times of an entry.
pub fn update(path: &Path) -> SuiteResult<()> {
    let moment = Timespec {
        tv_sec: MOMENT,
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: moment,
        last_modification: moment,
    };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).doing("set the times of", path)
}

/// Whether the times are those that were set.
pub fn check_updated(path: &Path, found: &fs::Metadata) -> SuiteResult<()> {
    if found.mtime() == MOMENT {
        return Ok(());
    }
    Err(SuiteError::failed(format!(
        "{}: wrong modification time: expected {MOMENT}, found {}",
        path.display(),
        found.mtime()
    )))
}

/// Removes everything below the top: the files of a directory first, then its subdirectories.
pub fn delete(top: &Path, laps: &mut Laps) -> SuiteResult<()> {
    let (directories, files): (Vec<_>, Vec<_>) = entries(top)?
        .into_iter()
        .partition(|(_, found)| found.is_dir());
    for (path, _) in files {
        fs::remove_file(&path).doing("remove", &path)?;
        laps.lap()?;
    }
    for (path, _) in directories {
        delete(&path, laps)?;
        fs::remove_dir(&path).doing("remove", &path)?;
        laps.lap()?;
    }
    Ok(())
}
