//! Which job each process belongs to, remembered for each process.

use crate::limits::{PROCESS_TRUSTED_MAX, PROCESS_TRUSTED_MIN, PROCESSES_MAX};
use gupfs_platform::BootTime;
use gupfs_platform::hash::Map;
use gupfs_proto::{JobId, JobLabel};
use parking_lot::Mutex;
use std::sync::Arc;

/// Finds out about processes of this host.
pub trait JobFinder: Send + Sync {
    /// The job of a process of this user now. None: there is no such process, as seen from here.
    fn label(&self, pid: u32, uid: u32) -> Option<JobLabel>;
}

struct Process {
    uid: u32,
    job: JobId,
    /// Since when it has been in this job, as far as the mount has seen.
    since: BootTime,
    seen: BootTime,
}

impl Process {
    /// Another program may run in the process by now, or another process have its number.
    fn is_trusted(&self, now: BootTime) -> bool {
        let known = self.seen.since(self.since);
        now.since(self.seen) < known.clamp(PROCESS_TRUSTED_MIN, PROCESS_TRUSTED_MAX)
    }
}

pub struct ProcessJobs {
    finder: Arc<dyn JobFinder>,
    processes: Mutex<Map<u32, Process>>,
}

impl ProcessJobs {
    pub fn new(finder: Arc<dyn JobFinder>) -> ProcessJobs {
        ProcessJobs {
            finder,
            processes: Mutex::default(),
        }
    }

    /// The job of a process; `name` makes a number of a label. Looks at the process when it is new, soon again, and ever more rarely: a new process
    /// may make its first calls before it executes its program.
    ///
    /// The kernel names no process for what no process waits for, and those of other pid namespaces: they have no job.
    pub fn job_of(
        &self,
        pid: u32,
        uid: u32,
        now: BootTime,
        name: impl FnOnce(JobLabel) -> JobId,
    ) -> JobId {
        if pid == 0 {
            return JobId::UNKNOWN;
        }
        let of_same_user = |process: &&Process| process.uid == uid;
        let known = (self.processes.lock().get(&pid).filter(of_same_user))
            .map(|process| (process.job, process.since, process.is_trusted(now)));
        if let Some((job, _, true)) = known {
            return job;
        }
        let job = self.finder.label(pid, uid).map_or(JobId::UNKNOWN, name);
        let since = match known {
            Some((before, since, _)) if before == job => since,
            _ => now,
        };
        let mut processes = self.processes.lock();
        if processes.len() >= PROCESSES_MAX {
            processes.retain(|_, process| process.is_trusted(now));
            if processes.len() >= PROCESSES_MAX {
                processes.clear();
            }
        }
        let process = Process {
            uid,
            job,
            since,
            seen: now,
        };
        processes.insert(pid, process);
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::JobName;
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;

    #[derive(Default)]
    struct FakeProcesses {
        running: Mutex<BTreeMap<u32, &'static str>>,
        asked: AtomicUsize,
    }

    impl JobFinder for FakeProcesses {
        fn label(&self, pid: u32, uid: u32) -> Option<JobLabel> {
            self.asked.fetch_add(1, Relaxed);
            let running = self.running.lock();
            let name = JobName::from_bytes(running.get(&pid)?.as_bytes());
            Some(JobLabel { uid, name })
        }
    }

    fn job(uid: u32, name: &str) -> JobId {
        let name = JobName::from_bytes(name.as_bytes());
        JobLabel { uid, name }.id()
    }

    #[test]
    fn a_process_is_looked_at_ever_more_rarely() {
        let host = Arc::new(FakeProcesses::default());
        let jobs = ProcessJobs::new(host.clone());
        let start = BootTime(5_000_000_000);
        let found = |uid, millis| {
            jobs.job_of(7, uid, start + Duration::from_millis(millis), |label| {
                label.id()
            })
        };
        host.running.lock().insert(7, "sh");
        assert_eq!(found(5, 0), job(5, "sh"));
        // It executes another program.
        host.running.lock().insert(7, "tar");
        for millis in 1..10_000 {
            assert_eq!(found(5, millis), job(5, "tar"));
        }
        let asked = host.asked.load(Relaxed);
        assert!((12..=24).contains(&asked), "{asked}");
        // Another process with this number, a second later at the latest.
        host.running.lock().insert(7, "cp");
        assert_eq!(found(5, 11_000), job(5, "cp"));
        // The same process as another user: sudo.
        assert_eq!(found(6, 11_001), job(6, "cp"));
        host.running.lock().clear();
        assert_eq!(found(6, 13_000), JobId::UNKNOWN);
        assert_eq!(jobs.job_of(0, 5, start, |label| label.id()), JobId::UNKNOWN);
    }

    #[test]
    fn any_number_of_processes_is_bounded() {
        let jobs = ProcessJobs::new(Arc::new(FakeProcesses::default()));
        for pid in 1..3 * PROCESSES_MAX as u32 {
            jobs.job_of(pid, 5, BootTime(0), |label| label.id());
        }
        assert!(jobs.processes.lock().len() <= PROCESSES_MAX);
    }
}
