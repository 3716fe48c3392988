//! # coordinator: the run as a whole
//!
//! Owns   the workers' processes and connections, rounds, deadlines, clocks of other hosts, the replay of what was found.
//! Never  does an operation on the file system itself, judges a history.
//! Enter  at [`run`].

mod clock;
mod connection;
mod faults;
mod held;
mod judge_thread;
mod mount_address;
mod probe;
mod replay;
mod rounds;
mod workers;

pub use mount_address::{Access, MountAddress};
pub use replay::replay;
pub use rounds::run;

use std::path::PathBuf;
use std::time::Duration;

use crate::check::Model;
use crate::mix::Mix;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    pub sites: Vec<MountAddress>,
    /// The command by which this program starts as a worker.
    pub itself: Vec<std::ffi::OsString>,
    /// Workers on each mount.
    pub processes: u16,
    pub length: Duration,
    pub round: Duration,
    pub seed: u64,
    pub model: Model,
    pub mix: Mix,
    /// Operations a second of all workers together that are aimed at; 0: as many as go.
    pub rate: u32,
    /// After which an operation hangs.
    pub deadline: Duration,
    /// A command that is run once in every round, to cause faults.
    pub faults: Option<String>,
    pub progress: bool,
}

/// Why there is no verdict.
#[derive(Debug)]
pub struct CannotRun(pub String);

impl std::fmt::Display for CannotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CannotRun {}

pub type RunResult<T> = Result<T, CannotRun>;

fn cannot<T>(why: impl Into<String>) -> RunResult<T> {
    Err(CannotRun(why.into()))
}

/// The directory of a run below each mount: nothing else is touched there.
fn run_directory(mount: &std::path::Path, seed: u64) -> PathBuf {
    mount.join(format!("verify-{}-{seed:x}", std::process::id()))
}
