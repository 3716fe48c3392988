//! The directory that a run makes for itself: all its files lie in it.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use gupfs_kit::date;

use crate::common_flags::CommonFlags;
use crate::error::{ErrorContext, SuiteResult};
use crate::procs::Procs;
use crate::space;

pub struct RunDirectory {
    dir: PathBuf,
    /// Makes this run's data differ from any other's.
    pub run: u64,
}

impl RunDirectory {
    /// A new directory with room for so many bytes.
    pub fn make(
        procs: &mut Procs,
        of: &str,
        common: &CommonFlags,
        bytes: u64,
    ) -> SuiteResult<RunDirectory> {
        let below = std::path::absolute(&common.dir).doing("find", &common.dir)?;
        procs.on_rank_0(|| space::check(&below, bytes))?;
        let moment = SystemTime::now().duration_since(UNIX_EPOCH);
        let run = moment.map_or(0, |since| since.as_nanos() as u64);
        let name = format!("{of}_{}_{}", date::stamp(), std::process::id());
        let (run, name) = procs.broadcast(&(run, name))?;
        let dir = below.join(name);
        procs.remove_on_failure(&dir)?;
        procs.on_rank_0(|| std::fs::create_dir(&dir).doing("make", &dir))?;
        Ok(RunDirectory { dir, run })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A file in it.
    pub fn file(&self, number: usize) -> PathBuf {
        self.dir.join(format!("file{number}"))
    }

    /// The run went well: its directory goes, or is kept.
    ///
    /// # Errors
    ///
    /// The directory cannot be removed.
    pub fn end(self, procs: &mut Procs, keep: bool) -> SuiteResult<()> {
        procs.on_rank_0(|| match keep {
            true => Ok(()),
            false => std::fs::remove_dir_all(&self.dir).doing("remove", &self.dir),
        })?;
        procs.keep_all()
    }
}
