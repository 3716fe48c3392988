//! # jobs: what job a process of this host belongs to
//!
//! Owns   the rules: the scheduler's control group (Slurm, PBS), then an environment variable that the configuration names, then the control
//!        group of a container or service, then the program.
//! Never  remembers a process.
//! Enter  at `HostProcesses`.

mod control_group;

use gupfs_mount::JobFinder;
use gupfs_proto::{JobLabel, JobName};
use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long a call waits until the job of its process is known.
const LOOK_MAX: Duration = Duration::from_millis(20);

/// The processes of this host, as /proc shows them.
pub struct HostProcesses {
    /// The environment variable that names a process's job, for sites whose scheduler makes no control groups.
    pub variable: Option<String>,
}

impl JobFinder for HostProcesses {
    /// None also for a process that /proc shows only later: some of its files wait for locks of the process, which it may hold while it waits for
    /// this mount.
    #[allow(clippy::disallowed_methods)] // the thread ends with its read, and nothing waits for it
    fn label(&self, pid: u32, uid: u32) -> Option<JobLabel> {
        let variable = self.variable.clone();
        let (found_tx, found_rx) = mpsc::channel();
        let look = move || drop(found_tx.send(look_at(pid, uid, variable.as_deref())));
        let looking = thread::Builder::new()
            .name("job of a process".into())
            .spawn(look);
        looking.ok()?;
        found_rx.recv_timeout(LOOK_MAX).ok()?
    }
}

fn look_at(pid: u32, uid: u32, variable: Option<&str>) -> Option<JobLabel> {
    let file = |name: &str| fs::read(format!("/proc/{pid}/{name}")).ok();
    let program = file("comm")?;
    let groups = file("cgroup").unwrap_or_default();
    let groups = String::from_utf8_lossy(&groups);
    let named = || {
        let variable = variable?;
        let value = value_of(&file("environ")?, variable)?;
        Some(format!("job:{}", String::from_utf8_lossy(&value)))
    };
    let name = control_group::scheduler_job(&groups).or_else(named);
    let name = match name.or_else(|| control_group::service(&groups)) {
        Some(name) => JobName::from_bytes(name.as_bytes()),
        None => JobName::from_bytes(program.trim_ascii_end()),
    };
    Some(JobLabel { uid, name })
}

/// The value of a variable in /proc/PID/environ, unless it is empty.
fn value_of(environ: &[u8], variable: &str) -> Option<Vec<u8>> {
    let value = environ.split(|byte| *byte == 0).find_map(|entry| {
        let rest = entry.strip_prefix(variable.as_bytes())?;
        rest.strip_prefix(b"=")
    })?;
    (!value.is_empty()).then(|| value.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_its_whole_name() {
        let environ = b"XJOB=1\0JOB_ID=2\0JOB=3\0EMPTY=\0JOB=4";
        assert_eq!(value_of(environ, "JOB"), Some(b"3".to_vec()));
        assert_eq!(value_of(environ, "EMPTY"), None);
        assert_eq!(value_of(environ, "NONE"), None);
    }

    #[test]
    fn this_process_has_a_job() {
        let host = HostProcesses { variable: None };
        let pid = std::process::id();
        assert_eq!(host.label(pid, 7).map(|label| label.uid), Some(7));
        assert_eq!(host.label(u32::MAX, 7), None);
    }
}
