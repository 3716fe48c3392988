//! The hub, the process that a user starts: it starts the others, answers when all have called, and notices when one is gone.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};

use super::frame::{self, Kind};
use super::local::PROCESS_VARIABLE;
use crate::error::{HUNG, SuiteError, SuiteResult};
use crate::{cleanup, signals};

/// How long a process may take to end after it was asked to: time enough to remove what it made.
const PATIENCE: Duration = Duration::from_secs(20);

/// The same for one that was killed, or has nothing left to do.
const LAST: Duration = Duration::from_secs(2);

struct Process {
    child: Child,
    socket: UnixStream,
    /// Its call, until all processes have called.
    called: Option<(Kind, Vec<u8>)>,
}

struct Hub {
    processes: Vec<Process>,
    /// A byte here is the number of a signal that ends the run.
    signals: UnixStream,
}

/// Runs this program as `size` processes, and gives the exit code.
pub fn run(size: usize) -> SuiteResult<u8> {
    let (signals, mut signalled) =
        UnixStream::pair().map_err(|error| SuiteError::failed(format!("no socket: {error}")))?;
    signals::on_termination(move |signal| {
        // The hub reads one; of more, it is ending already.
        let _ = signalled.write_all(&[signal as u8]);
    });
    let mut hub = Hub {
        processes: Vec::with_capacity(size),
        signals,
    };
    let ended = hub.start(size).and_then(|()| hub.serve());
    match ended {
        Ok(code) => {
            hub.wait_for_all(code);
            Ok(code)
        }
        Err(error) => {
            if hub.end_all() {
                for left in cleanup::remove() {
                    eprintln!("{left}");
                }
            } else {
                for path in cleanup::take_paths() {
                    eprintln!("{} is left there", path.display());
                }
            }
            Err(error)
        }
    }
}

impl Hub {
    fn start(&mut self, size: usize) -> SuiteResult<()> {
        for rank in 0..size {
            let process = start(rank, size).map_err(|error| {
                SuiteError::failed(format!("process {rank} could not be started: {error}"))
            })?;
            self.processes.push(process);
        }
        Ok(())
    }

    /// Answers until all have finished.
    fn serve(&mut self) -> SuiteResult<u8> {
        loop {
            while self.processes.iter().any(|each| each.called.is_none()) {
                self.wait_for_calls()?;
            }
            let calls: Vec<_> = self
                .processes
                .iter_mut()
                .filter_map(|process| process.called.take())
                .collect();
            if let Some(code) = self.answer(calls)? {
                return Ok(code);
            }
        }
    }

    /// Waits until a process calls, or is gone.
    fn wait_for_calls(&mut self) -> SuiteResult<()> {
        let mut polled = vec![PollFd::new(&self.signals, PollFlags::IN)];
        polled.extend(self.processes.iter().map(|process| {
            // Of those that wait for an answer, only their end is news.
            let news = match process.called {
                None => PollFlags::IN,
                Some(_) => PollFlags::empty(),
            };
            PollFd::from_borrowed_fd(process.socket.as_fd(), news)
        }));
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(SuiteError::failed(format!("poll: {error}"))),
        }
        let news: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        if news[0] {
            let mut signal = [0];
            let _ = self.signals.read(&mut signal);
            return Err(SuiteError::failed(format!("ended by signal {}", signal[0])));
        }
        for rank in (0..self.processes.len()).filter(|rank| news[rank + 1]) {
            self.receive_call(rank)?;
        }
        Ok(())
    }

    fn receive_call(&mut self, rank: usize) -> SuiteResult<()> {
        let process = &mut self.processes[rank];
        let Ok((kind, bytes)) = frame::receive(&mut process.socket) else {
            return Err(gone(rank, &mut process.child));
        };
        match kind {
            Kind::Remember => cleanup::register(&PathBuf::from(OsString::from_vec(bytes))),
            Kind::Forget => cleanup::clear(),
            Kind::Barrier | Kind::Broadcast | Kind::Gather | Kind::Finish => {
                assert!(process.called.is_none(), "a process waits for its answer");
                process.called = Some((kind, bytes));
            }
            Kind::Alarm => self.alarm(rank),
            Kind::Go => unreachable!("only the hub says Go"),
        }
        Ok(())
    }

    /// Tells all other processes that this one has failed.
    fn alarm(&mut self, rank: usize) {
        for (other, process) in self.processes.iter_mut().enumerate() {
            if other != rank {
                // One that is gone is noticed when it is listened to.
                let _ = frame::send(&mut process.socket, Kind::Alarm, &[]);
            }
        }
    }

    /// All have called. The exit code, if it was their last call.
    fn answer(&mut self, calls: Vec<(Kind, Vec<u8>)>) -> SuiteResult<Option<u8>> {
        let kind = calls[0].0;
        assert!(
            calls.iter().all(|call| call.0 == kind),
            "all processes call the same functions in the same order"
        );
        let said: Vec<Vec<u8>> = calls.into_iter().map(|(_, bytes)| bytes).collect();
        let code = match kind {
            Kind::Finish => said.iter().flatten().max().copied(),
            _ => None,
        };
        let joined = frame::join(&said);
        for (rank, process) in self.processes.iter_mut().enumerate() {
            let bytes: &[u8] = match kind {
                Kind::Broadcast => &said[0],
                Kind::Gather if rank == 0 => &joined,
                _ => &[],
            };
            if frame::send(&mut process.socket, Kind::Go, bytes).is_err() {
                return Err(gone(rank, &mut process.child));
            }
        }
        Ok(code)
    }

    /// All have said that they end now. One of which a call hangs cannot.
    fn wait_for_all(&mut self, code: u8) {
        let until = Instant::now() + if code == HUNG { LAST } else { PATIENCE };
        for (rank, process) in self.processes.iter_mut().enumerate() {
            end(rank, &mut process.child, until);
        }
    }

    /// Asks all that live to end, and sees to it. Whether they have.
    fn end_all(&mut self) -> bool {
        for process in &mut self.processes {
            signal(&process.child, Signal::TERM);
        }
        let until = Instant::now() + PATIENCE;
        let mut all = true;
        for (rank, process) in self.processes.iter_mut().enumerate() {
            all &= end(rank, &mut process.child, until);
        }
        all
    }
}

/// Whether the process ended until then, or when it was killed: a call that hangs in the kernel may keep it.
fn end(rank: usize, child: &mut Child, until: Instant) -> bool {
    if ended_until(child, until) {
        return true;
    }
    signal(child, Signal::KILL);
    let ended = ended_until(child, Instant::now() + LAST);
    if !ended {
        eprintln!(
            "process {rank} (id {}) was killed and does not end: it will when its call comes back from the kernel",
            child.id()
        );
    }
    ended
}

fn ended_until(child: &mut Child, until: Instant) -> bool {
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

fn signal(child: &Child, signal: Signal) {
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        // It may have ended; it was not waited for, so the number is still its own.
        let _ = kill_process(pid, signal);
    }
}

fn start(rank: usize, size: usize) -> io::Result<Process> {
    let (socket, theirs) = UnixStream::pair()?;
    let child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(PROCESS_VARIABLE, format!("{rank}/{size}"))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()?;
    Ok(Process {
        child,
        socket,
        called: None,
    })
}

/// The process closed its socket without having finished.
fn gone(rank: usize, child: &mut Child) -> SuiteError {
    ended_until(child, Instant::now() + PATIENCE);
    let how = match child.try_wait() {
        Ok(Some(status)) => show(status),
        Ok(None) => "does not answer any more".into(),
        Err(error) => error.to_string(),
    };
    SuiteError::failed(format!(
        "process {rank} {how}; the others were ended and nothing is reported"
    ))
}

fn show(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (_, Some(signal)) => format!("was killed by signal {signal}"),
        _ => status.to_string(),
    }
}
