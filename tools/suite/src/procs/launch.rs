//! Starts the processes of a run.

use super::{Procs, hub, local};
use crate::error::{SuiteError, SuiteResult};
use crate::{cleanup, signals};

pub enum Launch {
    /// This process takes part.
    Process(Procs),
    /// This process started those that do; they have ended, with this exit code.
    Ended(u8),
}

/// The variables that MPI's starters set: the number of processes, and the rank of this one.
const MPI: [(&str, &str); 4] = [
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("PMI_SIZE", "PMI_RANK"),
    ("MPI_LOCALNRANKS", "MPI_LOCALRANKID"),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
];

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

fn mpi_started() -> Option<(usize, usize)> {
    MPI.iter()
        .find_map(|(size, rank)| Some((number(size)?, number(rank)?)))
}

/// This process's rank if a starter gave it one: 0 if it is alone. For messages that only one shall print.
pub fn launch_rank() -> usize {
    let local = std::env::var(local::PROCESS_VARIABLE).ok();
    let local = local.and_then(|place| place.split_once('/')?.0.parse().ok());
    local.or(mpi_started().map(|(_, rank)| rank)).unwrap_or(0)
}

/// Begins a run: as one of its processes, by MPI if mpirun or srun started this program, or by starting `np`, else `otherwise`
/// processes here.
///
/// # Errors
///
/// The processes cannot be started, or one of them was lost.
pub fn begin(np: Option<usize>, otherwise: usize) -> SuiteResult<Launch> {
    if let Ok(place) = std::env::var(local::PROCESS_VARIABLE) {
        clean_up_when_ended();
        return local::join(&place).map(Launch::Process);
    }
    match (mpi_started(), np) {
        (Some(_), Some(np)) => Err(SuiteError::usage(format!(
            "--np {np} starts local processes, but mpirun or srun started this program already: use one of them"
        ))),
        (Some((size, _)), None) => by_mpi(size),
        (None, np) => hub::run(np.unwrap_or(otherwise)).map(Launch::Ended),
    }
}

/// A process that a signal ends removes what its run made.
fn clean_up_when_ended() {
    signals::on_termination(|signal| {
        for said in cleanup::repair() {
            eprintln!("{said}");
        }
        cleanup::remove();
        std::process::exit(128 + signal);
    });
}

#[cfg(feature = "mpi")]
fn by_mpi(_size: usize) -> SuiteResult<Launch> {
    clean_up_when_ended();
    super::mpi::join().map(Launch::Process)
}

#[cfg(not(feature = "mpi"))]
fn by_mpi(size: usize) -> SuiteResult<Launch> {
    if size == 1 {
        return hub::run(1).map(Launch::Ended);
    }
    Err(SuiteError::usage(format!(
        "mpirun or srun started {size} processes, but this program was built without MPI, and they would run {size} times alone. \
         Build it with `cargo build --release -p gupfs-suite --features mpi` (Debian: openmpi-bin libopenmpi-dev libclang-dev), \
         or start it with --np {size} for processes on this host"
    )))
}
