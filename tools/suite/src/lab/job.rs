//! Processes of a lab: started in groups of their own, waited for, ended.

use std::fs::File;
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::links;
use crate::error::{SuiteError, SuiteResult};
use crate::signals;

/// How long a process may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(10);

const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The signal that ends this lab, if one came.
#[derive(Clone, Default)]
pub struct StopSignal(Arc<AtomicI32>);

impl StopSignal {
    /// To be called before threads are started.
    pub fn watch() -> StopSignal {
        let ending = StopSignal::default();
        let seen = ending.0.clone();
        signals::on_termination(move |signal| {
            let _ = seen.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
        });
        ending
    }

    /// An error if the lab shall end.
    pub fn check(&self) -> SuiteResult<()> {
        match self.0.load(Ordering::SeqCst) {
            0 => Ok(()),
            signal => Err(SuiteError::failed(format!("ended by signal {signal}"))),
        }
    }

    /// Until something is there, the lab shall end, or the time is over: then none.
    pub fn wait<T>(
        &self,
        limit: Option<Duration>,
        mut is: impl FnMut() -> SuiteResult<Option<T>>,
    ) -> SuiteResult<Option<T>> {
        let until = limit.map(|limit| Instant::now() + limit);
        loop {
            if let Some(found) = is()? {
                return Ok(Some(found));
            }
            self.check()?;
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(None);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// A process that is ended, with its group, when it is dropped.
pub struct LabProcess {
    /// Its name in messages.
    pub name: String,
    child: Child,
    /// It leads a group of its own.
    leads: bool,
    ended: Option<ExitStatus>,
}

impl LabProcess {
    /// Starts it with what it says in a file, or as this process says it: then a terminal is its own, too.
    pub fn start(
        name: String,
        mut command: Command,
        said: Option<&File>,
    ) -> SuiteResult<LabProcess> {
        signals::unblock_in(&mut command);
        // A process outside the group in the foreground may not read from the terminal.
        let leads = said.is_some() || !std::io::stdin().is_terminal();
        if leads {
            command.process_group(0);
        }
        let met = |error: std::io::Error| {
            SuiteError::failed(format!("{name} could not be started: {error}"))
        };
        if let Some(said) = said {
            command
                .stdin(Stdio::null())
                .stdout(said.try_clone().map_err(met)?)
                .stderr(said.try_clone().map_err(met)?);
        }
        let child = command.spawn().map_err(met)?;
        Ok(LabProcess {
            name,
            child,
            leads,
            ended: None,
        })
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> SuiteResult<Option<ExitStatus>> {
        if self.ended.is_none() {
            let ended = self.child.try_wait();
            self.ended = ended.map_err(|error| {
                SuiteError::failed(format!("waiting for {}: {error}", self.name))
            })?;
        }
        Ok(self.ended)
    }

    /// Whether a process in its network, which must be the one that the file stands for, listens at the port.
    pub fn listens(&self, port: u16, network: &Path) -> bool {
        let pid = self.child.id();
        // It begins in the lab's own network, and enters its host's.
        let entered = links::identity(Path::new(&format!("/proc/{pid}/ns/net")));
        entered.is_some()
            && entered == links::identity(network)
            && ["tcp", "tcp6"].iter().any(|table| {
                let table = std::fs::read_to_string(format!("/proc/{pid}/net/{table}"));
                table.is_ok_and(|table| table.lines().any(|line| is_listener(line, port)))
            })
    }

    fn signal(&self, signal: Signal) {
        // It was not reaped, so that its number is still its own.
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = match self.leads {
                true => kill_process_group(pid, signal),
                false => kill_process(pid, signal),
            };
        }
    }
}

/// Whether a line of the kernel's table of sockets is one that listens at the port: `0: 0100007F:1E14 00000000:0000 0A …`.
fn is_listener(line: &str, port: u16) -> bool {
    let mut words = line.split_whitespace().skip(1);
    let (local, state) = (words.next(), words.nth(1));
    let at_port = local.and_then(|local| local.rsplit_once(':'));
    state == Some("0A") && at_port.is_some_and(|(_, at)| at == format!("{port:04X}"))
}

/// Ends them all, at once.
pub fn end(jobs: &mut Vec<LabProcess>) {
    for signal in [Signal::TERM, Signal::KILL] {
        let until = Instant::now() + PATIENCE;
        let mut running = |job: &mut LabProcess| matches!(job.ended(), Ok(None));
        jobs.iter_mut()
            .filter(|job| job.ended.is_none())
            .for_each(|job| job.signal(signal));
        while jobs.iter_mut().any(&mut running) && Instant::now() < until {
            std::thread::sleep(LOOK_AGAIN);
        }
    }
    for job in jobs.drain(..) {
        if job.ended.is_none() {
            eprintln!(
                "{} (process {}) cannot be ended: it hangs in the kernel",
                job.name,
                job.child.id()
            );
        }
    }
}

#[test]
fn a_listener_is_found_in_the_kernels_table() {
    let line = "   0: 0100007F:1E14 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1";
    assert!(is_listener(line, 7700));
    assert!(!is_listener(line, 7701));
    assert!(!is_listener(&line.replace(" 0A ", " 01 "), 7700));
    assert!(!is_listener("  sl  local_address rem_address   st", 0));
}
