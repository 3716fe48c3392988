//! # procs: several processes in step
//!
//! Owns   what processes of a run say to each other; two ways to start them: on this host (`--np`), or by MPI.
//! Never  lets a run go on, or end with success, after one of its processes is gone.
//! Enter  at [`Procs`].

mod begin;
mod frame;
mod hub;
mod local;
#[cfg(feature = "mpi")]
mod mpi;

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::leftovers;
use crate::trouble::{Outcome, Trouble, first_own};
pub use begin::{Begun, begin, started_as};

/// How processes reach each other. Every process calls the same functions in the same order.
trait Seam {
    fn rank(&self) -> usize;
    fn size(&self) -> usize;
    /// Nobody returns before all have called.
    fn barrier(&mut self) -> Outcome<()>;
    /// Everybody gets what process 0 gave.
    fn broadcast(&mut self, bytes: Vec<u8>) -> Outcome<Vec<u8>>;
    /// Process 0 gets what each gave, by rank.
    fn gather(&mut self, bytes: Vec<u8>) -> Outcome<Option<Vec<Vec<u8>>>>;
    /// Tells all others that this process has met trouble in the middle of its work. After that the run ends everywhere.
    fn alarm(&mut self) -> Outcome<()>;
    /// Whether another process has told so. Does not wait.
    fn alarmed(&mut self) -> Outcome<bool>;
    /// Whoever outlives this process shall remove the path.
    fn remember(&mut self, path: &Path) -> Outcome<()>;
    /// Nothing is left to be removed.
    fn forget(&mut self) -> Outcome<()>;
    /// The last call: this process ends with the exit code.
    fn finish(&mut self, code: u8) -> Outcome<()>;
}

/// One of the processes of a run, and its way to the others.
pub struct Procs {
    seam: Box<dyn Seam>,
}

impl Procs {
    fn new(seam: impl Seam + 'static) -> Procs {
        let seam = Box::new(seam);
        Procs { seam }
    }

    pub fn rank(&self) -> usize {
        self.seam.rank()
    }

    pub fn size(&self) -> usize {
        self.seam.size()
    }

    /// Process 0 sets up, collects and reports.
    pub fn leads(&self) -> bool {
        self.rank() == 0
    }

    pub fn barrier(&mut self) -> Outcome<()> {
        self.seam.barrier()
    }

    /// Lets all go at once. In process 0 the moment is before any of them goes: it is read between two barriers, so that a
    /// process 0 that wakes late makes a time too long by as much, and never too short.
    pub fn go(&mut self) -> Outcome<Instant> {
        self.barrier()?;
        let moment = Instant::now();
        self.barrier()?;
        Ok(moment)
    }

    /// What process 0 gave.
    pub fn broadcast<T: Serialize + DeserializeOwned>(&mut self, value: &T) -> Outcome<T> {
        let bytes = self.seam.broadcast(pack(value))?;
        unpack(&bytes)
    }

    /// What each process gave, by rank: for process 0 only.
    pub fn gather<T: Serialize + DeserializeOwned>(
        &mut self,
        value: &T,
    ) -> Outcome<Option<Vec<T>>> {
        let all = self.seam.gather(pack(value))?;
        all.map(|all| all.iter().map(|bytes| unpack(bytes)).collect())
            .transpose()
    }

    /// What each process gave, by rank, for everybody.
    pub fn share<T: Serialize + DeserializeOwned + Clone>(&mut self, value: &T) -> Outcome<Vec<T>> {
        let all = self.gather(value)?;
        Ok(self.broadcast(&all)?.unwrap_or_default())
    }

    /// Whether a step worked everywhere: all processes go on, or all end with the trouble of the first that had one.
    pub fn agree<T>(&mut self, mine: Outcome<T>) -> Outcome<T> {
        let trouble = mine.as_ref().err().cloned();
        let all = self.share(&trouble)?;
        let alone = all.len() == 1;
        let named = |(rank, trouble): (usize, Option<Trouble>)| match trouble {
            None => Ok(()),
            Some(trouble) if alone => Err(trouble),
            Some(trouble) => Err(trouble.at(format_args!("process {rank}"))),
        };
        first_own(all.into_iter().enumerate().map(named))?;
        mine
    }

    /// Tells all others that this process has met trouble: see [`crate::team`].
    pub(crate) fn alarm(&mut self) -> Outcome<()> {
        self.seam.alarm()
    }

    pub(crate) fn alarmed(&mut self) -> Outcome<bool> {
        self.seam.alarmed()
    }

    /// A step that process 0 takes for all.
    pub fn lead<T: Serialize + DeserializeOwned>(
        &mut self,
        step: impl FnOnce() -> Outcome<T>,
    ) -> Outcome<T> {
        let done = self.leads().then(step);
        self.broadcast(&done)?.expect("process 0 took the step")
    }

    /// If the run ends early, the path is removed. Called in every process: any may be the last that lives.
    pub fn remember(&mut self, path: &Path) -> Outcome<()> {
        leftovers::remember(path);
        // One voice is enough for whoever outlives all.
        if self.leads() {
            self.seam.remember(path)?;
        }
        Ok(())
    }

    /// What was made shall stay, or is gone.
    pub fn forget(&mut self) -> Outcome<()> {
        leftovers::forget();
        if self.leads() {
            self.seam.forget()?;
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self, code: u8) -> Outcome<()> {
        self.seam.finish(code)
    }
}

fn pack<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("our messages have no keys that are not text")
}

fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Outcome<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        Trouble::met(format!(
            "a message of another process cannot be read: {error}; do all hosts run the same version?"
        ))
    })
}
