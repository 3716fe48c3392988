//! Programs in groups of their own: waited for, and ended with all that they started.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::error::{SuiteError, SuiteResult};
use crate::signals;

/// How long a program may take to end after it was asked to. The suite's own take up to 20 s to see to their processes.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often the caller may show that time passes.
const TICK: Duration = Duration::from_secs(1);

enum Event {
    Signal(i32),
    /// The process with this id.
    Ended(u32),
}

/// Starts programs one after another.
pub struct ProgramRunner {
    sender: Sender<Event>,
    events: Receiver<Event>,
    signal: Option<i32>,
}

#[derive(Debug)]
pub enum ProgramEnd {
    Exited(ExitStatus),
    TimedOut,
    /// A signal ends this process, and ended the program.
    Interrupted,
}

/// Processes that a program leaves running.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Background {
    Ends,
    Stays,
}

/// Whether a signal ends the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SignalPolicy {
    Signals,
    Nothing,
}

impl ProgramRunner {
    /// From now on signals that end a job end what runs, and this process only when it has cleaned up. To be called before
    /// other threads are started.
    pub fn new() -> ProgramRunner {
        let (sender, events) = channel();
        let signalled = sender.clone();
        signals::on_termination(move |signal| {
            let _ = signalled.send(Event::Signal(signal));
        });
        ProgramRunner {
            sender,
            events,
            signal: None,
        }
    }

    /// The signal that ends this process, if there was one.
    pub fn signal(&mut self) -> Option<i32> {
        while let Ok(event) = self.events.try_recv() {
            self.note(event);
        }
        self.signal
    }

    /// Waits, unless a signal comes.
    pub fn rest(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while self.signal.is_none()
            && let Ok(event) = self.events.recv_timeout(left_of(until))
        {
            self.note(event);
        }
    }

    /// Whether the process that was waited for has ended.
    fn note(&mut self, event: Event) -> Option<u32> {
        match event {
            Event::Signal(signal) => {
                self.signal.get_or_insert(signal);
                None
            }
            Event::Ended(id) => Some(id),
        }
    }

    /// Runs a command to its end, with what it says in `output`. `tick` is called each second.
    pub fn run(
        &mut self,
        mut command: Command,
        output: &File,
        limit: Duration,
        (rest, heed): (Background, SignalPolicy),
        mut tick: impl FnMut(),
    ) -> SuiteResult<ProgramEnd> {
        let name = command.get_program().display().to_string();
        let started = start(&mut command, output);
        let mut child = started
            .map_err(|error| SuiteError::failed(format!("{name} could not be started: {error}")))?;
        self.wait_in_a_thread(child.id());
        let until = Instant::now() + limit;
        let why = loop {
            if heed == SignalPolicy::Signals && self.signal.is_some() {
                break ProgramEnd::Interrupted;
            }
            let left = left_of(until);
            match self.events.recv_timeout(left.min(TICK)) {
                Ok(event) => {
                    if self.note(event) == Some(child.id()) {
                        let status = reap(&mut child, rest);
                        return status.map(ProgramEnd::Exited).map_err(|error| {
                            SuiteError::failed(format!("waiting for {name}: {error}"))
                        });
                    }
                }
                Err(_) if left.is_zero() => break ProgramEnd::TimedOut,
                Err(_) => tick(),
            }
        };
        self.end(&mut child, &name)?;
        Ok(why)
    }

    /// The thread leaves the process to be reaped, so that its group's number stays its own until then.
    fn wait_in_a_thread(&self, id: u32) {
        let ended = self.sender.clone();
        std::thread::spawn(move || {
            if let Some(pid) = Pid::from_raw(id as i32) {
                let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                while matches!(waitid(WaitId::Pid(pid), how), Err(rustix::io::Errno::INTR)) {}
            }
            let _ = ended.send(Event::Ended(id));
        });
    }

    fn end(&mut self, child: &mut Child, name: &str) -> SuiteResult<()> {
        for signal in [Signal::TERM, Signal::KILL] {
            signal_group(child, signal);
            let until = Instant::now() + PATIENCE;
            while let Ok(event) = self.events.recv_timeout(left_of(until)) {
                if self.note(event) == Some(child.id()) {
                    return reap(child, Background::Ends).map(drop).map_err(|error| {
                        SuiteError::failed(format!("waiting for {name}: {error}"))
                    });
                }
            }
        }
        Err(SuiteError::failed(format!(
            "{name} (process {}) cannot be ended: it hangs in the kernel; see to the file system that it works on",
            child.id()
        )))
    }
}

fn left_of(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn start(command: &mut Command, output: &File) -> io::Result<Child> {
    signals::unblock_in(command);
    command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .spawn()
}

fn signal_group(child: &Child, signal: Signal) {
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        // It was not reaped, so the group's number is still its own.
        let _ = kill_process_group(group, signal);
    }
}

fn reap(child: &mut Child, rest: Background) -> io::Result<ExitStatus> {
    if rest == Background::Ends {
        signal_group(child, Signal::KILL);
    }
    child.wait()
}
