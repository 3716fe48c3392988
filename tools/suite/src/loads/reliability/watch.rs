//! Work whose calls may never come back from the kernel: it is watched, and left behind if need be.
//!
//! Unsafe: unshare(2) gives a thread a table of open files of its own. Whoever names a file of the other threads by its number would
//! find another one; the thread opens its own files, and closes them itself.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{SuiteError, SuiteResult};

/// How often one looks whether a call has come back.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A call that lasts as long does not come back, however little patience is asked for: a busy disk may take seconds.
pub const HANGS_LEAST: Duration = Duration::from_secs(5);

/// The call that a thread is in.
#[derive(Clone, Default)]
pub struct Call(Arc<Mutex<Option<(&'static str, Instant)>>>);

impl Call {
    /// Makes a call that others can see.
    pub fn make<T>(&self, what: &'static str, call: impl FnOnce() -> T) -> T {
        *self.0.lock() = Some((what, Instant::now()));
        let came_back = call();
        *self.0.lock() = None;
        came_back
    }

    /// The call's name, and how long it has lasted.
    fn lasts(&self) -> Option<(&'static str, Duration)> {
        self.0.lock().map(|(what, since)| (what, since.elapsed()))
    }
}

/// Does the work, on a file, in a thread of its own. Meanwhile it looks: an error of `look` ends the waiting, and so does a call of
/// which `hangs` says that it has lasted too long. The thread is left behind then.
pub fn watched<T: Send + 'static>(
    path: &Path,
    look: impl Fn() -> SuiteResult<()>,
    hangs: impl Fn(Duration) -> bool,
    work: impl FnOnce(&Call) -> T + Send + 'static,
) -> SuiteResult<T> {
    let call = Call::default();
    let (done, came_back) = channel();
    let theirs = call.clone();
    std::thread::spawn(move || {
        stand_alone();
        // The receiver may be gone.
        let _ = done.send(work(&theirs));
    });
    loop {
        match came_back.recv_timeout(LOOK_AGAIN) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(SuiteError::failed("a thread panicked"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let looked = look();
        // If another call is found to hang first, this one is told, too.
        if let Some((what, lasted)) = call.lasts()
            && (hangs(lasted) || looked.is_err() && lasted >= HANGS_LEAST)
        {
            return Err(SuiteError::hung(format!(
                "{what} {} has not come back for {:.1} s",
                path.display(),
                lasted.as_secs_f64()
            )));
        }
        looked?;
    }
}

/// A thread that hangs in the kernel outlives its process, with all files that are open: without this, whoever reads what this
/// program writes, as in a pipe, would wait as long as the call hangs.
fn stand_alone() {
    // SAFETY: this thread names no file by the number that another thread has for it.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return;
    }
    let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") else {
        return;
    };
    for standard in 0..=2 {
        // SAFETY: both are open files, and the table is this thread's own.
        unsafe { libc::dup2(nothing.as_raw_fd(), standard) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(look: impl Fn() -> SuiteResult<()>, lasts: Duration) -> SuiteResult<i32> {
        let hangs = |lasted| lasted > Duration::from_secs(2);
        watched(Path::new("f"), look, hangs, move |call| {
            call.make("fsync of", || std::thread::sleep(lasts));
            7
        })
    }

    #[test]
    fn a_call_that_does_not_come_back_is_left_behind() {
        let long = Duration::from_secs(300);
        assert_eq!(watch(|| Ok(()), Duration::ZERO), Ok(7));
        let hung = watch(|| Ok(()), long).unwrap_err();
        assert_eq!(hung.exit_code(), 3);
        assert!(
            hung.to_string()
                .starts_with("fsync of f has not come back for "),
            "{hung}"
        );
        let called_off = watch(|| Err(SuiteError::failed("over")), long);
        assert_eq!(called_off, Err(SuiteError::failed("over")));
    }
}
