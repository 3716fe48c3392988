//! Probes whether the directories are one file system.

use super::workers::Workers;
use super::{RunResult, Settings, cannot, run_directory};
use crate::history::Nanos;
use crate::work::{Order, Report, now};

/// How long a mount may take to show what another made. Beyond it, it is taken for another file system.
const PATIENCE: Nanos = 20_000_000_000;

/// The first mount makes the run's directory, and all others must come to see it.
pub fn probe(workers: &mut Workers, settings: &Settings) -> RunResult<()> {
    workers.tell(&[0], |_| Order::MakeDirectory)?;
    let here = number(workers, 0)?;
    for worker in workers.one_a_mount() {
        let site = &settings.sites[usize::from(workers.handles[worker].mount)];
        let directory = run_directory(&site.directory, settings.seed);
        let end = now() + PATIENCE;
        loop {
            let there = number(workers, worker)?;
            if there.is_some() && there == here {
                break;
            }
            let different = there.is_some() && there != here;
            if different || now() > end {
                let first = &settings.sites[0].name;
                workers.remove_directory();
                return cannot(format!(
                    "{} and {first} are not the same file system: what was made in {first} {} as {}. \
                     Name directories that are mounts of one file system, or the same directory of each.",
                    site.name,
                    match different {
                        true => "is another thing there",
                        false => "does not appear there",
                    },
                    directory.display(),
                ));
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    Ok(())
}

/// The number of the run's directory, as a worker sees it.
fn number(workers: &mut Workers, worker: usize) -> RunResult<Option<u64>> {
    match workers.ask(worker, &Order::Probe)? {
        Some((Report::Found(number), _)) => Ok(number),
        _ => cannot(format!("worker {worker} is gone")),
    }
}
