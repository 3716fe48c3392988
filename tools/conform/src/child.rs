//! Other processes: a forked child that runs a closure and brings its outcome back.
//!
//! Used where threads cannot stand for processes: fcntl locks, RLIMIT_FSIZE, signals that kill, exec. A child dies
//! with the thread that forked it and by an alarm of its own, so a file system that hangs leaves no process behind.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::outcome::{Failure, NotPassed, Outcome, failed, same};
use crate::sys::{self, End, Fd};

/// A child ends itself after this time; shorter than what [`crate::run`] gives a check, so that the check can report.
const ALARM_SECONDS: u32 = 20;

/// A forked process that works beside the check.
pub struct Child {
    pid: i32,
    line: ChildPipe,
    outcome: Fd,
    waited: bool,
}

/// A wire between a check and its child, on which one says "go on" to the other.
pub struct ChildPipe(Fd);

impl ChildPipe {
    /// Tell the other side to go on.
    pub fn say(&self) -> Outcome {
        sys::write(&self.0, b"!")?;
        Ok(())
    }

    /// Wait until the other side says so.
    #[track_caller]
    pub fn hear(&self) -> Outcome {
        match sys::read(&self.0, 1)?.len() {
            1 => Ok(()),
            _ => Err(failed(
                "the other process says that it is ready",
                "it has ended",
            )),
        }
    }
}

impl Child {
    /// Fork and run `work` in the child.
    pub fn start(work: impl FnOnce(&ChildPipe) -> Outcome) -> Outcome<Child> {
        let (ours, theirs) = sys::socket_pair()?;
        let (outcome, report) = sys::pipe()?;
        // SAFETY: the child runs `work` on its only thread, takes no lock of the parent (it prints nothing) and leaves
        // by `leave`.
        match unsafe { sys::fork() }? {
            0 => {
                drop((ours, outcome));
                live(work, &ChildPipe(theirs), &report)
            }
            pid => Ok(Child {
                pid,
                line: ChildPipe(ours),
                outcome,
                waited: false,
            }),
        }
    }

    /// The process's number.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Tell the child to go on.
    pub fn say(&self) -> Outcome {
        self.line.say()
    }

    /// Wait for the child's message; when it ended instead, its own failure is the answer.
    #[track_caller]
    pub fn hear(&mut self) -> Outcome {
        match self.line.hear() {
            Ok(()) => Ok(()),
            Err(silence) => self.trouble().map_or(Err(silence), Err),
        }
    }

    /// Wait for the child's end; its outcome becomes ours.
    #[track_caller]
    pub fn finish(mut self) -> Outcome {
        if let Some(trouble) = self.trouble() {
            return Err(trouble);
        }
        same("the child's end", self.wait()?, End::Exited(0))
    }

    /// Wait for the child's end, whatever it is: for signals that must kill.
    #[track_caller]
    pub fn end(mut self) -> Outcome<End> {
        if let Some(trouble) = self.trouble() {
            return Err(trouble);
        }
        self.wait()
    }

    /// End it with SIGKILL.
    pub fn kill(mut self) -> Outcome {
        sys::kill(self.pid, libc::SIGKILL)?;
        self.wait()?;
        Ok(())
    }

    fn wait(&mut self) -> Outcome<End> {
        self.waited = true;
        Ok(sys::wait_for(self.pid)?)
    }

    /// The failure that the child reported before it ended; `None` when there was none.
    fn trouble(&mut self) -> Option<NotPassed> {
        let mut text = Vec::new();
        while let Ok(some) = sys::read(&self.outcome, 4096)
            && !some.is_empty()
        {
            text.extend(some);
        }
        decode(&text)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.waited {
            // Both may be refused only because the child is gone already, which is what we want.
            let _ = sys::kill(self.pid, libc::SIGKILL);
            let _ = sys::wait_for(self.pid);
        }
    }
}

/// Run `work` in another process and wait for it.
#[track_caller]
pub fn in_child(work: impl FnOnce() -> Outcome) -> Outcome {
    Child::start(|_| work())?.finish()
}

/// The child's whole life.
fn live(work: impl FnOnce(&ChildPipe) -> Outcome, line: &ChildPipe, report: &Fd) -> ! {
    sys::die_with_parent();
    // SAFETY: alarm only arms a timer; its signal ends this process, which is what it is for.
    unsafe { libc::alarm(ALARM_SECONDS) };
    let outcome = catch_unwind(AssertUnwindSafe(|| work(line))).unwrap_or_else(|_| {
        Err(failed(
            "the check runs to its end",
            "it panicked in a child process",
        ))
    });
    if let Err(trouble) = outcome {
        // The parent gets no report when the pipe is gone; the exit status still says that something was wrong.
        let _ = sys::write(report, encode(&trouble));
        sys::leave(1);
    }
    sys::leave(0)
}

/// One byte for the kind, then texts with their lengths.
fn encode(trouble: &NotPassed) -> Vec<u8> {
    let (kind, texts): (u8, Vec<&str>) = match trouble {
        NotPassed::Failed(failure) => (b'F', vec![&failure.expected, &failure.found, &failure.at]),
        NotPassed::Skipped(reason) => (b'S', vec![reason]),
    };
    let mut bytes = vec![kind];
    for text in texts {
        bytes
            .write_all(&(text.len() as u32).to_le_bytes())
            .expect("memory takes every byte");
        bytes
            .write_all(text.as_bytes())
            .expect("memory takes every byte");
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<NotPassed> {
    let (kind, mut rest) = bytes.split_first()?;
    let mut text = || {
        let mut length = [0u8; 4];
        rest.read_exact(&mut length).ok()?;
        let (text, tail) = rest.split_at_checked(u32::from_le_bytes(length) as usize)?;
        rest = tail;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    match kind {
        b'F' => Some(NotPassed::Failed(Failure {
            expected: text()?,
            found: text()?,
            at: text()?,
        })),
        _ => Some(NotPassed::Skipped(text()?)),
    }
}

impl AsRawFd for ChildPipe {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{skipped, truth};

    #[test]
    fn a_child_brings_its_failure_and_its_skip_back() {
        let failure = in_child(|| truth("the sky is green", false)).unwrap_err();
        assert!(
            matches!(failure, NotPassed::Failed(ref f) if f.expected == "the sky is green"),
            "{failure:?}"
        );
        assert_eq!(
            in_child(|| skipped("no sky")),
            Err(NotPassed::Skipped("no sky".into()))
        );
        assert_eq!(in_child(|| Ok(())), Ok(()));
    }

    #[test]
    fn a_child_that_a_signal_kills_is_a_failure_unless_its_end_is_asked_for() {
        let suicide = |_: &ChildPipe| {
            sys::kill(sys::getpid(), libc::SIGKILL)?;
            Ok(())
        };
        assert!(Child::start(suicide).unwrap().finish().is_err());
        assert_eq!(
            Child::start(suicide).unwrap().end(),
            Ok(End::Killed(libc::SIGKILL))
        );
    }

    #[test]
    fn a_check_and_its_child_take_turns() {
        let mut child = Child::start(|line| {
            line.say()?;
            line.hear()
        })
        .unwrap();
        child.hear().unwrap();
        child.say().unwrap();
        child.finish().unwrap();
    }
}
