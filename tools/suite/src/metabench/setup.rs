//! The work of process 0 before a test and after it: directories, files, the check, and cleaning up.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::files::Name;
use super::tests::{Kind, Test};
use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::rng::{Rng, mix_all};

/// The directories of one test.
pub struct TestDirectories {
    base: PathBuf,
    separate: bool,
    members: usize,
    each: u64,
}

impl TestDirectories {
    pub fn new(top: &Path, test: Test, members: usize, each: u64) -> TestDirectories {
        TestDirectories {
            base: top.join(test.name()),
            separate: test.separate,
            members,
            each,
        }
    }

    /// Where a process works.
    pub fn dir(&self, place: usize) -> PathBuf {
        if self.separate {
            self.base.join(format!("p{place}"))
        } else {
            self.base.clone()
        }
    }

    pub fn make(&self, populated: bool) -> SuiteResult<()> {
        fs::create_dir(&self.base).doing("make", &self.base)?;
        for place in 0..self.members {
            let dir = self.dir(place);
            if self.separate {
                fs::create_dir(&dir).doing("make", &dir)?;
            }
            for index in (0..self.each).take_while(|_| populated) {
                let name = Name::new(place, index);
                let path = dir.join(name.as_c_str().to_string_lossy().as_ref());
                fs::File::create_new(&path).doing("make", &path)?;
            }
        }
        Ok(())
    }

    pub fn remove(&self) -> SuiteResult<()> {
        fs::remove_dir_all(&self.base).doing("remove", &self.base)
    }

    /// Whether every file is there and is as the test should have left it.
    pub fn check(&self, kind: Kind, files: u64, bytes: u64, moment: i64) -> SuiteResult<()> {
        let mut found = 0;
        let mut left = vec![self.base.clone()];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(&dir).doing("list", &dir)? {
                let entry = entry.doing("list", &dir)?;
                let (path, seen) = (entry.path(), entry.metadata());
                let seen = seen.doing("stat", &entry.path())?;
                if seen.is_dir() {
                    left.push(path);
                    continue;
                }
                found += 1;
                match kind {
                    Kind::Append => self.check_bytes(&path, bytes)?,
                    Kind::Utime if seen.mtime() != moment => {
                        return Err(wrong(&path, "modification time", moment, seen.mtime()));
                    }
                    Kind::Create | Kind::Stat if seen.len() != 0 => {
                        return Err(wrong(&path, "size", 0, seen.len() as i64));
                    }
                    _ => {}
                }
            }
        }
        if found != files {
            return Err(wrong(
                &self.base,
                "number of files",
                files as i64,
                found as i64,
            ));
        }
        Ok(())
    }

    /// Whether a file holds what one of the processes appends.
    fn check_bytes(&self, path: &Path, bytes: u64) -> SuiteResult<()> {
        let found = fs::read(path).doing("read", path)?;
        let writers = (0..self.members).map(|place| appended(place, bytes));
        let expected: Vec<Vec<u8>> = writers.collect();
        if expected.contains(&found) {
            return Ok(());
        }
        // The writer whose bytes go along furthest is the one whose file it is.
        let same = |bytes: &[u8]| bytes.iter().zip(&found).take_while(|(a, b)| a == b).count();
        let (place, at) = (0..self.members)
            .map(|place| (place, same(&expected[place])))
            .max_by_key(|(_, at)| *at)
            .expect("somebody takes part");
        Err(SuiteError::failed(format!(
            "{}: wrong data at offset {at}: expected {:02x?} of member {place}, found {:02x?}",
            path.display(),
            expected[place].get(at),
            found.get(at)
        )))
    }
}

fn wrong(path: &Path, what: &str, expected: i64, found: i64) -> SuiteError {
    SuiteError::failed(format!(
        "{}: wrong {what}: expected {expected}, found {found}",
        path.display()
    ))
}

/// The bytes that a process appends to each of its files.
pub fn appended(place: usize, bytes: u64) -> Vec<u8> {
    let mut data = vec![0; bytes as usize];
    Rng::new(mix_all(&[7, place as u64])).fill(&mut data);
    data
}

/// The tar file on this host: the one given, or one that is made.
pub fn tar_file(given: Option<&Path>, dir: Option<&Path>, tag: &str) -> PathBuf {
    given.map_or_else(
        || {
            let dir = dir.map_or_else(std::env::temp_dir, Path::to_path_buf);
            dir.join(format!("metabench_{tag}.tar"))
        },
        Path::to_path_buf,
    )
}

/// Makes the tar file if it is not given.
pub fn make_tar(path: &Path, given: bool) -> SuiteResult<()> {
    if given {
        return fs::File::open(path)
            .doing("open the tar file", path)
            .map(drop);
    }
    super::tarball::make(path).doing("make the tar file", path)
}

/// Removes a file that may be gone.
pub fn remove_file(path: &Path) -> SuiteResult<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).doing("remove", path),
        _ => Ok(()),
    }
}
