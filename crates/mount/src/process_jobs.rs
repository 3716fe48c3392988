//! Which job each process belongs to, remembered for each process.

use crate::limits::{PROCESS_TRUSTED, PROCESSES_MAX};
use gupfs_platform::BootTime;
use gupfs_platform::hash::Map;
use gupfs_proto::{JobId, JobLabel};
use parking_lot::Mutex;
use std::sync::Arc;

/// Finds out about processes of this host.
pub trait JobFinder: Send + Sync {
    /// When the process started, in any unit: another process with the same number has another time. None: there is no such process, as seen
    /// from here.
    fn started(&self, pid: u32) -> Option<u64>;

    /// The job of a process of this user; None as above.
    fn label(&self, pid: u32, uid: u32) -> Option<JobLabel>;
}

struct Process {
    uid: u32,
    job: JobId,
    started: Option<u64>,
    seen: BootTime,
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

    /// The job of a process; `name` makes a number of a label. Looks at the process when it is new, and once a second from then on.
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
        let known = self.processes.lock().get(&pid).and_then(|process| {
            let is_same_user = process.uid == uid;
            is_same_user.then_some((process.job, process.started, process.seen))
        });
        if let Some((job, _, seen)) = known
            && now.since(seen) < PROCESS_TRUSTED
        {
            return job;
        }
        let started = self.finder.started(pid);
        let job = match known {
            Some((job, before, _)) if before == started => job,
            _ => self.finder.label(pid, uid).map_or(JobId::UNKNOWN, name),
        };
        let mut processes = self.processes.lock();
        if processes.len() >= PROCESSES_MAX {
            processes.retain(|_, process| now.since(process.seen) < PROCESS_TRUSTED);
            if processes.len() >= PROCESSES_MAX {
                processes.clear();
            }
        }
        let seen = now;
        let process = Process {
            uid,
            job,
            started,
            seen,
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
        /// When each started, and its name.
        running: Mutex<BTreeMap<u32, (u64, &'static str)>>,
        asked: AtomicUsize,
    }

    impl FakeProcesses {
        fn set(&self, pid: u32, started: u64, name: &'static str) {
            self.running.lock().insert(pid, (started, name));
        }
    }

    impl JobFinder for FakeProcesses {
        fn started(&self, pid: u32) -> Option<u64> {
            self.asked.fetch_add(1, Relaxed);
            self.running.lock().get(&pid).map(|(started, _)| *started)
        }

        fn label(&self, pid: u32, uid: u32) -> Option<JobLabel> {
            let running = self.running.lock();
            let name = JobName::from_bytes(running.get(&pid)?.1.as_bytes());
            Some(JobLabel { uid, name })
        }
    }

    fn job(uid: u32, name: &str) -> JobId {
        let name = JobName::from_bytes(name.as_bytes());
        JobLabel { uid, name }.id()
    }

    #[test]
    fn a_process_is_looked_at_once_a_second_and_its_number_may_be_reused() {
        let host = Arc::new(FakeProcesses::default());
        let jobs = ProcessJobs::new(host.clone());
        let at = |millis| BootTime(0) + Duration::from_millis(millis);
        let found = |uid, millis| jobs.job_of(7, uid, at(millis), |label| label.id());
        host.set(7, 100, "tar");
        for millis in 0..999 {
            assert_eq!(found(5, millis), job(5, "tar"));
        }
        assert_eq!(host.asked.load(Relaxed), 1);
        // Another process with this number.
        host.set(7, 200, "cp");
        assert_eq!(found(5, 1000), job(5, "cp"));
        // The same process as another user: sudo.
        assert_eq!(found(6, 1001), job(6, "cp"));
        host.running.lock().clear();
        assert_eq!(found(6, 3000), JobId::UNKNOWN);
        assert_eq!(jobs.job_of(0, 5, at(0), |label| label.id()), JobId::UNKNOWN);
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
