//! The files of a run: their names, and the conditions before it starts.

use std::path::PathBuf;

use gupfs_kit::date;

use super::args::Mptio;
use super::regions::{Layout, TargetFile};
use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::procs::Procs;
use crate::space;

/// Where everything is.
pub struct Target {
    dir: PathBuf,
    devices: Vec<PathBuf>,
    places: Vec<TargetFile>,
    /// The directory was made for this run.
    unique: bool,
}

impl Target {
    /// Sees to the files of a run: process 0 looks and clears away, all remember what to remove if the run fails.
    pub fn prepare(args: &Mptio, layout: &Layout, procs: &mut Procs) -> SuiteResult<Target> {
        let mut target = Target {
            dir: args.dir.clone(),
            devices: args.devices.clone(),
            places: layout.places(),
            unique: false,
        };
        if !target.devices.is_empty() {
            return Ok(target);
        }
        let writes = !args.skip.contains(&0);
        procs.on_rank_0(|| match writes {
            true => target.check_room(layout),
            false => target.check_files(layout),
        })?;
        if args.unique {
            let name = format!("mptio_{}_{}", date::stamp(), std::process::id());
            target.dir = args.dir.join(procs.broadcast(&name)?);
            target.unique = true;
            procs.remove_on_failure(&target.dir)?;
            procs.on_rank_0(|| std::fs::create_dir(&target.dir).doing("make", &target.dir))?;
        } else if writes {
            for place in &target.places {
                procs.remove_on_failure(&target.path(*place))?;
            }
            procs.on_rank_0(|| target.clear())?;
        }
        Ok(target)
    }

    pub fn path(&self, place: TargetFile) -> PathBuf {
        match place {
            TargetFile::Global => self.dir.join("mptio_global"),
            TargetFile::Process(rank) => self.dir.join(format!("mptio_process_{rank}")),
            TargetFile::Thread(rank, thread) => {
                self.dir.join(format!("mptio_thread_{rank}_{thread}"))
            }
            TargetFile::Device(device) => self.devices[device].clone(),
        }
    }

    /// Files of a former run, whose space counts as free, are not here any more.
    fn check_room(&self, layout: &Layout) -> SuiteResult<()> {
        let old: u64 = self
            .places
            .iter()
            .filter_map(|place| std::fs::metadata(self.path(*place)).ok())
            .map(|found| found.len())
            .sum();
        space::check(&self.dir, layout.total_bytes().saturating_sub(old))
    }

    /// Test 0 is skipped: a former run must have left the files.
    fn check_files(&self, layout: &Layout) -> SuiteResult<()> {
        for place in &self.places {
            let path = self.path(*place);
            let size = std::fs::metadata(&path).map(|found| found.len());
            let wanted = layout.end_of(*place);
            if !matches!(size, Ok(size) if size >= wanted) {
                return Err(SuiteError::usage(format!(
                    "-k 0 skips the test that makes the files, and {} does not have the {wanted} bytes that the others work \
                     on; run once with test 0 and -K",
                    path.display()
                )));
            }
        }
        Ok(())
    }

    /// Test 0 shall make new files.
    fn clear(&self) -> SuiteResult<()> {
        for place in &self.places {
            let path = self.path(*place);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).doing("remove the former", &path);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The run went well: nothing is left, or all is kept.
    pub fn end(&self, keep: bool, procs: &mut Procs) -> SuiteResult<()> {
        procs.on_rank_0(|| match keep || !self.devices.is_empty() {
            true => Ok(()),
            false => self.remove(),
        })?;
        procs.keep_all()
    }

    fn remove(&self) -> SuiteResult<()> {
        self.clear()?;
        match self.unique {
            true => std::fs::remove_dir(&self.dir).doing("remove", &self.dir),
            false => Ok(()),
        }
    }
}
