//! # procs: several processes in step
//!
//! Owns   what processes of a run say to each other; two ways to start them: on this host (`--np`), or by MPI.
//! Never  lets a run go on, or end with success, after one of its processes is gone.
//! Enter  at [`Procs`].

mod frame;
mod hub;
mod launch;
mod local;
#[cfg(feature = "mpi")]
mod mpi;

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cleanup;
use crate::error::{SuiteError, SuiteResult, first_cause};
pub use launch::{Launch, begin, launch_rank};

/// How processes reach each other. Every process calls the same functions in the same order.
trait Transport {
    fn rank(&self) -> usize;
    fn size(&self) -> usize;
    /// Returns once all processes have called.
    fn barrier(&mut self) -> SuiteResult<()>;
    /// Everybody gets what process 0 gave.
    fn broadcast(&mut self, bytes: Vec<u8>) -> SuiteResult<Vec<u8>>;
    /// Process 0 gets what each gave, by rank.
    fn gather(&mut self, bytes: Vec<u8>) -> SuiteResult<Option<Vec<Vec<u8>>>>;
    /// Tells all others that this process has failed in the middle of its work. After that the run ends everywhere.
    fn alarm(&mut self) -> SuiteResult<()>;
    /// Whether another process has told so. Does not wait.
    fn alarmed(&mut self) -> SuiteResult<bool>;
    /// The processes that outlive this one shall remove the path.
    fn remember(&mut self, path: &Path) -> SuiteResult<()>;
    /// Nothing is left to be removed.
    fn forget(&mut self) -> SuiteResult<()>;
    /// The last call: this process ends with the exit code.
    fn finish(&mut self, code: u8) -> SuiteResult<()>;
}

/// One of the processes of a run, and its way to the others.
pub struct Procs {
    transport: Box<dyn Transport>,
}

impl Procs {
    fn new(transport: impl Transport + 'static) -> Procs {
        let transport = Box::new(transport);
        Procs { transport }
    }

    pub fn rank(&self) -> usize {
        self.transport.rank()
    }

    pub fn size(&self) -> usize {
        self.transport.size()
    }

    /// Process 0 sets up, collects and reports.
    pub fn is_rank_0(&self) -> bool {
        self.rank() == 0
    }

    /// Returns once all processes have called it.
    ///
    /// # Errors
    ///
    /// Another process of the run is gone, or does not understand this one.
    pub fn barrier(&mut self) -> SuiteResult<()> {
        self.transport.barrier()
    }

    /// Lets all go at once. In process 0 the moment is before any of them goes: it is read between two barriers, so that a
    /// process 0 that wakes late makes a time too long by as much, and never too short.
    ///
    /// # Errors
    ///
    /// Another process of the run is gone, or does not understand this one.
    pub fn start_together(&mut self) -> SuiteResult<Instant> {
        self.barrier()?;
        let moment = Instant::now();
        self.barrier()?;
        Ok(moment)
    }

    /// The value of process 0.
    ///
    /// # Errors
    ///
    /// Another process of the run is gone, or does not understand this one.
    pub fn broadcast<T: Serialize + DeserializeOwned>(&mut self, value: &T) -> SuiteResult<T> {
        let bytes = self.transport.broadcast(pack(value))?;
        unpack(&bytes)
    }

    /// The values of all processes, by rank: for process 0 only.
    ///
    /// # Errors
    ///
    /// Another process of the run is gone, or does not understand this one.
    pub fn gather<T: Serialize + DeserializeOwned>(
        &mut self,
        value: &T,
    ) -> SuiteResult<Option<Vec<T>>> {
        let all = self.transport.gather(pack(value))?;
        all.map(|all| all.iter().map(|bytes| unpack(bytes)).collect())
            .transpose()
    }

    /// The values of all processes, by rank, for all processes.
    ///
    /// # Errors
    ///
    /// Another process of the run is gone, or does not understand this one.
    pub fn share<T: Serialize + DeserializeOwned + Clone>(
        &mut self,
        value: &T,
    ) -> SuiteResult<Vec<T>> {
        let all = self.gather(value)?;
        Ok(self.broadcast(&all)?.unwrap_or_default())
    }

    /// Whether a step worked everywhere: all processes go on, or all end with the error of the first that failed.
    ///
    /// # Errors
    ///
    /// `mine`, or the error of another process; or a process is gone.
    pub fn agree<T>(&mut self, mine: SuiteResult<T>) -> SuiteResult<T> {
        let error = mine.as_ref().err().cloned();
        let all = self.share(&error)?;
        let alone = all.len() == 1;
        let named = |(rank, error): (usize, Option<SuiteError>)| match error {
            None => Ok(()),
            Some(error) if alone => Err(error),
            Some(error) => Err(error.at(format_args!("process {rank}"))),
        };
        first_cause(all.into_iter().enumerate().map(named))?;
        mine
    }

    /// Tells all others that this process has failed: see [`crate::threads`].
    pub(crate) fn alarm(&mut self) -> SuiteResult<()> {
        self.transport.alarm()
    }

    pub(crate) fn alarmed(&mut self) -> SuiteResult<bool> {
        self.transport.alarmed()
    }

    /// A step that process 0 takes for all.
    ///
    /// # Errors
    ///
    /// The step's error, in all processes; or a process is gone.
    pub fn on_rank_0<T: Serialize + DeserializeOwned>(
        &mut self,
        step: impl FnOnce() -> SuiteResult<T>,
    ) -> SuiteResult<T> {
        let done = self.is_rank_0().then(step);
        self.broadcast(&done)?.expect("process 0 took the step")
    }

    /// If the run ends early, the path is removed. Called in every process: any may be the last that lives.
    ///
    /// # Errors
    ///
    /// Another process of the run is gone, or does not understand this one.
    pub fn remove_on_failure(&mut self, path: &Path) -> SuiteResult<()> {
        cleanup::register(path);
        // The hub needs one message only.
        if self.is_rank_0() {
            self.transport.remember(path)?;
        }
        Ok(())
    }

    /// Registered paths shall stay, or are gone.
    ///
    /// # Errors
    ///
    /// Another process of the run is gone, or does not understand this one.
    pub fn keep_all(&mut self) -> SuiteResult<()> {
        cleanup::clear();
        if self.is_rank_0() {
            self.transport.forget()?;
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self, code: u8) -> SuiteResult<()> {
        self.transport.finish(code)
    }
}

fn pack<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("our messages have no keys that are not text")
}

fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> SuiteResult<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        SuiteError::failed(format!(
            "a message of another process cannot be read: {error}; do all hosts run the same version?"
        ))
    })
}
