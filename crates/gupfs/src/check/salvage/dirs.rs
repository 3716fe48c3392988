//! The directories of a salvage, and the exchange of the new store with the damaged one.
//!
//! ```text
//! mds/salvage.new/        during a salvage: the new log and index, and a copy of the damaged index
//! mds/salvage.swap        during the exchange: the name of the directory for the damaged log and index
//! mds/salvaged-DATE/      the damaged log and index
//! ```

use crate::exit::{CliError, CliResult, OrCliError};
use crate::store_dir::StoreDir;
use gupfs_proto::Timestamp;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const WORK: &str = "salvage.new";
const PARTS: [&str; 2] = ["log", "index"];

pub struct SalvageDirs {
    mds: PathBuf,
    swap: PathBuf,
}

impl SalvageDirs {
    /// Completes an interrupted exchange, and prepares empty directories for the new store.
    ///
    /// # Errors
    /// If a directory or file cannot be changed.
    pub fn prepare(store_dir: &StoreDir) -> CliResult<SalvageDirs> {
        let dirs = SalvageDirs {
            mds: store_dir.mds(),
            swap: store_dir.mds_swap(),
        };
        let work = dirs.work();
        let prepared = || -> io::Result<()> {
            if let Ok(damaged_dir) = fs::read_to_string(&dirs.swap) {
                dirs.complete_exchange(&dirs.mds.join(damaged_dir))?;
            }
            remove(&work)?;
            fs::create_dir_all(dirs.log())?;
            fs::create_dir_all(dirs.index())
        };
        prepared().or_cli_error(|| format!("cannot prepare '{}'", work.display()))?;
        Ok(dirs)
    }

    fn work(&self) -> PathBuf {
        self.mds.join(WORK)
    }

    pub fn log(&self) -> PathBuf {
        self.work().join("log")
    }

    pub fn index(&self) -> PathBuf {
        self.work().join("index")
    }

    /// Copies the damaged index, because opening an index changes it.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn copy_index(&self, index: &Path) -> io::Result<PathBuf> {
        let copy = self.work().join("copy");
        copy_tree(index, &copy)?;
        Ok(copy)
    }

    /// Removes the new store.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn discard(&self) -> CliResult<()> {
        remove(&self.work()).or_cli_error(|| format!("cannot remove '{}'", self.work().display()))
    }

    /// Exchanges the damaged log and index with the new ones; returns the directory of the damaged ones.
    ///
    /// # Errors
    /// If a file cannot be moved; the next salvage completes the exchange.
    pub fn exchange(&self, now: Timestamp) -> CliResult<PathBuf> {
        let damaged_dir = self.free_name(now);
        let exchanged = || -> io::Result<()> {
            fs::create_dir(&damaged_dir)?;
            for dir in [self.log(), self.index(), self.work()] {
                sync(&dir)?;
            }
            // This file before the first rename: a process that finds a renamed directory must find the file, too.
            let mut swap = File::create(&self.swap)?;
            let name = damaged_dir
                .file_name()
                .expect("the path has a last component")
                .as_encoded_bytes();
            swap.write_all(name)?;
            swap.sync_all()?;
            sync(&self.mds)?;
            self.complete_exchange(&damaged_dir)
        };
        exchanged().map_err(|error| {
            CliError::new(format!(
                "cannot exchange the metadata in '{}'",
                self.mds.display()
            ))
            .because(&error)
            .todo("run the same command again: it continues the exchange")
        })?;
        Ok(damaged_dir)
    }

    /// Completes the exchange; a step that was done before is left out.
    fn complete_exchange(&self, damaged_dir: &Path) -> io::Result<()> {
        for part in PARTS {
            let (new, old, moved) = (
                self.work().join(part),
                self.mds.join(part),
                damaged_dir.join(part),
            );
            if !new.exists() {
                continue; // renamed before the interruption
            }
            if old.exists() {
                fs::rename(&old, &moved)?;
            }
            fs::rename(&new, &old)?;
        }
        for dir in [damaged_dir, &self.mds] {
            sync(dir)?;
        }
        fs::remove_file(&self.swap)?;
        sync(&self.mds)?;
        remove(&self.work())
    }

    fn free_name(&self, now: Timestamp) -> PathBuf {
        let date = show_date(now.secs);
        let first = self.mds.join(format!("salvaged-{date}"));
        let further = (2..).map(|n| self.mds.join(format!("salvaged-{date}-{n}")));
        let mut names = std::iter::once(first).chain(further);
        let free = names.find(|name| !name.exists());
        free.expect("some number is free")
    }
}

fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_tree(&entry.path(), &target)?,
            false => drop(fs::copy(entry.path(), target)?),
        }
    }
    Ok(())
}

/// `2026-11-24T130501Z`: sorts by time and has no characters that are special in file names.
pub fn show_date(secs: i64) -> String {
    let (days, rest) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Year, month and day of a day since 1970-01-01, in the Gregorian calendar (Howard Hinnant, "chrono-compatible low-level date
/// algorithms"): the year begins in March, so that the leap day is its last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_gregorian_calendar() {
        for (secs, date) in [
            (0, "1970-01-01T000000Z"),
            (951_782_400, "2000-02-29T000000Z"),
            (1_795_525_501, "2026-11-24T130501Z"),
            (-1, "1969-12-31T235959Z"),
        ] {
            assert_eq!(show_date(secs), date);
        }
    }

    /// Creates a directory of a store, with a file that identifies it.
    fn part(dir: PathBuf, text: &str) {
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("what"), text).unwrap();
    }

    #[test]
    fn an_exchange_that_was_interrupted_anywhere_is_completed() {
        // Renames that were done before the interruption.
        for done in 0..=4 {
            let dir = tempfile::tempdir().unwrap();
            let dirs = SalvageDirs {
                mds: dir.path().to_path_buf(),
                swap: dir.path().join("salvage.swap"),
            };
            for name in PARTS {
                part(dirs.mds.join(name), "damaged");
                part(dirs.work().join(name), "new");
            }
            let damaged_dir = dirs.mds.join("salvaged-then");
            fs::create_dir(&damaged_dir).unwrap();
            fs::write(&dirs.swap, "salvaged-then").unwrap();
            let moves = PARTS.iter().flat_map(|name| {
                let old = dirs.mds.join(name);
                [
                    (old.clone(), damaged_dir.join(name)),
                    (dirs.work().join(name), old),
                ]
            });
            for (from, to) in moves.take(done) {
                fs::rename(from, to).unwrap();
            }
            dirs.complete_exchange(&damaged_dir).unwrap();
            for name in PARTS {
                let read = |dir: &Path| fs::read_to_string(dir.join(name).join("what")).unwrap();
                assert_eq!(read(&dirs.mds), "new", "after {done}");
                assert_eq!(read(&damaged_dir), "damaged", "after {done}");
            }
            assert!(!dirs.swap.exists() && !dirs.work().exists());
        }
    }
}
