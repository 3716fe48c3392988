//! The commands that make a fault and repair it, at their moments. A fault that was begun is repaired, however the run ends.

use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use super::args::Reliability;
use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::{cleanup, signals};

/// A command that was run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommandRun {
    pub what: String,
    pub command: String,
    /// Seconds from the start.
    pub began: f64,
    pub ended: f64,
}

const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How long a repair may take at least if the run ends early: --patience may be nothing.
const REPAIR_LEAST: Duration = Duration::from_secs(10);

/// The commands on their way.
pub struct FaultCommands {
    thread: JoinHandle<SuiteResult<Vec<CommandRun>>>,
    site: Arc<FaultState>,
}

/// Runs the commands in a thread.
pub fn begin(args: &Reliability, dir: &Path) -> FaultCommands {
    let mut planned = vec![(CommandKind::Fault, args.fault_at())];
    if args.repair.is_some() {
        planned.push((CommandKind::Repair, args.repair_at()));
    }
    planned.sort_by(|a, b| a.1.total_cmp(&b.1));
    let begun = Instant::now();
    let site = Arc::new(FaultState {
        fault: args.fault.clone(),
        dir: dir.to_path_buf(),
        patience: Duration::from_secs_f64(args.patience),
        last: begun + Duration::from_secs_f64(args.seconds + args.patience),
        over: AtomicBool::new(false),
        left: Mutex::new(PendingRepair {
            repair: args.repair.clone(),
            broken: false,
        }),
        error: Mutex::new(None),
    });
    let (theirs, at_the_end) = (site.clone(), site.clone());
    cleanup::repair_with(move || at_the_end.undo());
    let thread = std::thread::spawn(move || {
        let mut acts = Vec::new();
        for (what, at) in planned {
            let moment = begun + Duration::from_secs_f64(at);
            while Instant::now() < moment && !theirs.is_over() {
                let left = moment.saturating_duration_since(Instant::now());
                std::thread::sleep(left.min(LOOK_AGAIN));
            }
            let began = begun.elapsed().as_secs_f64();
            let command = match what {
                CommandKind::Fault => theirs.break_it()?,
                CommandKind::Repair => theirs.repair()?,
            };
            acts.extend(command.map(|command| CommandRun {
                what: what.name().into(),
                command,
                began,
                ended: begun.elapsed().as_secs_f64(),
            }));
        }
        Ok(acts)
    });
    FaultCommands { thread, site }
}

impl FaultCommands {
    /// The error of a command, as soon as there is one.
    pub fn check(&self) -> SuiteResult<()> {
        self.site.error.lock().clone().map_or(Ok(()), Err)
    }

    /// Waits for all commands, and returns them in order.
    pub fn end(self) -> SuiteResult<Vec<CommandRun>> {
        let done = self.thread.join();
        done.unwrap_or_else(|_| Err(SuiteError::failed("a thread panicked")))
    }
}

#[derive(Clone, Copy)]
enum CommandKind {
    Fault,
    Repair,
}

impl CommandKind {
    fn name(self) -> &'static str {
        match self {
            CommandKind::Fault => "fault",
            CommandKind::Repair => "repair",
        }
    }
}

/// Where things are broken and repaired.
struct FaultState {
    fault: String,
    dir: PathBuf,
    patience: Duration,
    /// When commands are ended.
    last: Instant,
    /// No fault shall be made any more.
    over: AtomicBool,
    /// Held while a command runs.
    left: Mutex<PendingRepair>,
    /// Of the first command that had one.
    error: Mutex<Option<SuiteError>>,
}

struct PendingRepair {
    /// The repair, until it is run.
    repair: Option<String>,
    /// Whether a fault was begun.
    broken: bool,
}

impl FaultState {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// The command, if it was run.
    fn break_it(&self) -> SuiteResult<Option<String>> {
        let mut left = self.left.lock();
        if self.is_over() {
            return Ok(None);
        }
        left.broken = true;
        let done = run(
            CommandKind::Fault,
            &self.fault,
            &self.dir,
            self.last,
            || self.is_over(),
        );
        self.noted(done.map(|()| Some(self.fault.clone())))
    }

    fn repair(&self) -> SuiteResult<Option<String>> {
        let mut left = self.left.lock();
        if self.is_over() {
            return Ok(None);
        }
        let done = self.repair_until(&mut left, self.last);
        self.noted(done)
    }

    /// At most once.
    fn repair_until(&self, left: &mut PendingRepair, last: Instant) -> SuiteResult<Option<String>> {
        let Some(command) = left.repair.take() else {
            return Ok(None);
        };
        run(CommandKind::Repair, &command, &self.dir, last, || false)?;
        Ok(Some(command))
    }

    fn noted<T>(&self, done: SuiteResult<T>) -> SuiteResult<T> {
        if let Err(error) = &done {
            self.error.lock().get_or_insert_with(|| error.clone());
        }
        done
    }

    /// The run ends early: ends the fault's command, and repairs. Returns messages for the user.
    fn undo(&self) -> Vec<String> {
        self.over.store(true, Ordering::Relaxed);
        let mut left = self.left.lock();
        if !left.broken {
            return Vec::new();
        }
        let last = Instant::now() + self.patience.max(REPAIR_LEAST);
        match self.repair_until(&mut left, last) {
            Ok(None) => Vec::new(),
            Ok(Some(command)) => vec![format!("the repair's command `{command}` was run")],
            Err(error) => vec![error.to_string()],
        }
    }
}

fn run(
    what: CommandKind,
    line: &str,
    dir: &Path,
    last: Instant,
    called_off: impl Fn() -> bool,
) -> SuiteResult<()> {
    let what = what.name();
    let met = |text: String| SuiteError::failed(format!("the {what}'s command `{line}` {text}"));
    // Standard output is for the report.
    let said = std::io::stderr().as_fd().try_clone_to_owned();
    let said = said.doing("use", Path::new("standard error"))?;
    let mut command = Command::new("sh");
    command
        .args(["-c", line])
        .env("DIR", dir)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(said);
    signals::unblock_in(&mut command);
    let mut child = command
        .spawn()
        .map_err(|error| met(format!("could not be started: {error}")))?;
    loop {
        let why = match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(met(format!("failed: {status}"))),
            Ok(None) if called_off() => "was ended with the run",
            Ok(None) if Instant::now() >= last => {
                "did not end within -t and --patience, and was ended"
            }
            Ok(None) => {
                std::thread::sleep(LOOK_AGAIN);
                continue;
            }
            Err(error) => return Err(met(format!("cannot be waited for: {error}"))),
        };
        // With all that it started; it was not reaped, so the group's number is still its own.
        if let Some(group) = Pid::from_raw(child.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.wait();
        return Err(met(why.into()));
    }
}
