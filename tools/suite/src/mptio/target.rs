//! The files of a run: their names, and what must be true of them before it starts.

use std::path::PathBuf;

use gupfs_kit::date;

use super::args::Mptio;
use super::regions::{Layout, Place};
use crate::procs::Procs;
use crate::space;
use crate::trouble::{Doing, Outcome, Trouble};

/// Where everything is.
pub struct Target {
    dir: PathBuf,
    devices: Vec<PathBuf>,
    places: Vec<Place>,
    /// The directory was made for this run.
    unique: bool,
}

impl Target {
    /// Sees to the files of a run: process 0 looks and clears away, all remember what to remove if the run fails.
    pub fn prepare(asked: &Mptio, layout: &Layout, procs: &mut Procs) -> Outcome<Target> {
        let mut target = Target {
            dir: asked.dir.clone(),
            devices: asked.devices.clone(),
            places: layout.places(),
            unique: false,
        };
        if !target.devices.is_empty() {
            return Ok(target);
        }
        let writes = !asked.skip.contains(&0);
        procs.lead(|| match writes {
            true => target.check_room(layout),
            false => target.check_files(layout),
        })?;
        if asked.unique {
            let name = format!("mptio_{}_{}", date::stamp(), std::process::id());
            target.dir = asked.dir.join(procs.broadcast(&name)?);
            target.unique = true;
            procs.remember(&target.dir)?;
            procs.lead(|| std::fs::create_dir(&target.dir).doing("make", &target.dir))?;
        } else if writes {
            for place in &target.places {
                procs.remember(&target.path(*place))?;
            }
            procs.lead(|| target.clear())?;
        }
        Ok(target)
    }

    pub fn path(&self, place: Place) -> PathBuf {
        match place {
            Place::Global => self.dir.join("mptio_global"),
            Place::Process(rank) => self.dir.join(format!("mptio_process_{rank}")),
            Place::Thread(rank, thread) => self.dir.join(format!("mptio_thread_{rank}_{thread}")),
            Place::Device(device) => self.devices[device].clone(),
        }
    }

    /// Files of a former run, whose space counts as free, are not here any more.
    fn check_room(&self, layout: &Layout) -> Outcome<()> {
        let old: u64 = self
            .places
            .iter()
            .filter_map(|place| std::fs::metadata(self.path(*place)).ok())
            .map(|found| found.len())
            .sum();
        space::check(&self.dir, layout.total_bytes().saturating_sub(old))
    }

    /// Test 0 is skipped: a former run must have left the files.
    fn check_files(&self, layout: &Layout) -> Outcome<()> {
        for place in &self.places {
            let path = self.path(*place);
            let size = std::fs::metadata(&path).map(|found| found.len());
            let wanted = layout.end_of(*place);
            if !matches!(size, Ok(size) if size >= wanted) {
                return Err(Trouble::asked(format!(
                    "-k 0 skips the test that makes the files, and {} does not have the {wanted} bytes that the others work \
                     on; run once with test 0 and -K",
                    path.display()
                )));
            }
        }
        Ok(())
    }

    /// Test 0 shall make new files.
    fn clear(&self) -> Outcome<()> {
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
    pub fn end(&self, keep: bool, procs: &mut Procs) -> Outcome<()> {
        procs.lead(|| match keep || !self.devices.is_empty() {
            true => Ok(()),
            false => self.remove(),
        })?;
        procs.forget()
    }

    fn remove(&self) -> Outcome<()> {
        self.clear()?;
        match self.unique {
            true => std::fs::remove_dir(&self.dir).doing("remove", &self.dir),
            false => Ok(()),
        }
    }
}
