//! One run over a directory: every check alone, in a fresh directory, with a deadline.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::check::Check;
use crate::checks;
use crate::exceptions::{FileSystem, known_exceptions};
use crate::filter::{Exception, Filter};
use crate::outcome::{NotPassed, Outcome, SyscallError, failed};
use crate::report::{CheckReport, Report, Verdict};
use crate::sys::{self, Fd, O_DIRECTORY, O_RDONLY};
use crate::test_directory::{self, TestDirectory};

/// A check that takes longer hangs. The slowest takes about two seconds on a local disk.
const DEADLINE: Duration = Duration::from_secs(30);

/// The directory cannot be used at all, so nothing was learnt about it.
#[derive(Debug)]
pub struct CannotRun {
    directory: PathBuf,
    refused: SyscallError,
}

impl fmt::Display for CannotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CannotRun { directory, refused } = self;
        write!(
            f,
            "cannot work in {}: {} says {}",
            directory.display(),
            refused.call,
            refused.errno
        )
    }
}

impl std::error::Error for CannotRun {}

/// Run the checks that `filter` admits in `directory`, which must exist and be writable. Takes less than a minute on a
/// local disk. Leaves the directory as it was.
///
/// # Errors
///
/// The directory cannot be used: nothing was tried.
pub fn run(directory: &Path, filter: &Filter) -> Result<Report, CannotRun> {
    run_checks(checks::all(), directory, filter)
}

/// The same for a list of checks of the caller's. Runs of one process wait for each other.
///
/// # Errors
///
/// The directory cannot be used: nothing was tried.
pub fn run_checks(
    checks: Vec<Check>,
    directory: &Path,
    filter: &Filter,
) -> Result<Report, CannotRun> {
    // A forked child of one run would hold open what a check of another run has just closed, and lock owners are
    // processes: one run at a time.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _only = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let cannot = |refused| CannotRun {
        directory: directory.to_path_buf(),
        refused,
    };
    let (run_directory, run_directory_name) = open_run_directory(directory).map_err(cannot)?;
    let file_system = FileSystem::of_magic(sys::filesystem_magic(&run_directory).map_err(cannot)?);
    let mut exceptions = known_exceptions(file_system);
    exceptions.extend(filter.exceptions.iter().cloned());

    let run_directory = Arc::new(run_directory);
    let started = Instant::now();
    let mut tried = Vec::new();
    for (number, check) in checks
        .into_iter()
        .filter(|check| filter.admits(&check.name))
        .enumerate()
    {
        let check = Arc::new(check);
        let began = Instant::now();
        let mut outcome = try_one(&check, &run_directory, format!("{number}"));
        if filter.requires(&check.name) {
            outcome = without_skip(outcome);
        }
        tried.push(CheckReport {
            name: check.name.to_string(),
            promise: check.promise.to_string(),
            verdict: verdict(outcome, &check.name, &exceptions),
            took: began.elapsed(),
        });
    }
    drop(run_directory);
    remove_run_directory(directory, &run_directory_name, &mut tried);
    Ok(Report {
        directory: directory.to_path_buf(),
        file_system,
        tried,
        took: started.elapsed(),
    })
}

/// The one directory that all test directories of this run lie in.
fn open_run_directory(directory: &Path) -> Result<(Fd, Vec<u8>), SyscallError> {
    let base = sys::open(directory.as_os_str().as_bytes(), O_RDONLY | O_DIRECTORY, 0)?;
    // Several runs of one process may share the directory.
    static RUN: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let run = RUN.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("conform-{}-{run}", sys::getpid()).into_bytes();
    sys::mkdirat(&base, &name, 0o755)?;
    let run_directory = sys::openat(&base, &name, O_RDONLY | O_DIRECTORY, 0)?;
    Ok((run_directory, name))
}

/// All test directories were removed, so the directory of the run must be empty; otherwise that is a finding like any other.
fn remove_run_directory(directory: &Path, name: &[u8], tried: &mut Vec<CheckReport>) {
    let removed = sys::open(directory.as_os_str().as_bytes(), O_RDONLY | O_DIRECTORY, 0)
        .and_then(|base| sys::unlinkat(&base, name, sys::AT_REMOVEDIR));
    if let Err(refused) = removed {
        let outcome: Outcome = Err(refused.into());
        tried.push(CheckReport {
            name: "run/leaves-the-directory-as-it-was".into(),
            promise: "A directory from which every name was removed can be removed.".into(),
            verdict: verdict(outcome, "", &[]),
            took: Duration::ZERO,
        });
    }
}

/// A fresh directory, the check, removal; all on a thread that is given up when it hangs.
fn try_one(check: &Arc<Check>, run_directory: &Arc<Fd>, name: String) -> Outcome {
    let (done, wait) = channel();
    let started = {
        let (check, run_directory) = (Arc::clone(check), Arc::clone(run_directory));
        thread::Builder::new()
            .name(check.name.to_string())
            .spawn(move || {
                // The receiver is gone only when the deadline has passed and the answer is given.
                let _ = done.send(run_in_thread(&check, &run_directory, &name));
            })
    };
    match started {
        Err(error) => Err(failed("a thread to run the check", error.to_string())),
        Ok(_) => match wait.recv_timeout(DEADLINE) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => Err(failed(
                "an answer",
                format!("none within {} seconds", DEADLINE.as_secs()),
            )),
            Err(RecvTimeoutError::Disconnected) => {
                Err(failed("the check runs to its end", "its thread ended"))
            }
        },
    }
}

fn run_in_thread(check: &Check, run_directory: &Fd, name: &str) -> Outcome {
    sys::unshare_fs()?;
    // Modes come out as they are asked for; what the umask does is a matter for its own checks.
    sys::umask(0);
    test_directory::enter(run_directory, name)?;
    let room = TestDirectory::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| check.try_in(&room)))
        .unwrap_or_else(|_| Err(failed("the check runs to its end", "it panicked")));
    let swept = test_directory::sweep(run_directory, name).map_err(|refused| {
        failed(
            "what the check left behind can be removed",
            format!("{} from {}", refused.errno, refused.call),
        )
    });
    outcome.and(swept)
}

/// A skip says that the file system lacks something; here it has promised to have it.
fn without_skip(outcome: Outcome) -> Outcome {
    match outcome {
        Err(NotPassed::Skipped(reason)) => Err(failed("this check is not skipped here", reason)),
        other => other,
    }
}

fn verdict(outcome: Outcome, name: &str, exceptions: &[Exception]) -> Verdict {
    let exception = exceptions.iter().find(|exception| exception.covers(name));
    match (outcome, exception) {
        (Ok(()), None) => Verdict::Passed,
        (Ok(()), Some(exception)) if exception.sometimes => Verdict::Passed,
        (Ok(()), Some(exception)) => Verdict::PassedUnexpectedly {
            reason: exception.reason.clone(),
        },
        (Err(NotPassed::Skipped(reason)), _) => Verdict::Skipped { reason },
        (Err(NotPassed::Failed(failure)), None) => Verdict::Failed(failure),
        (Err(NotPassed::Failed(failure)), Some(exception)) => Verdict::Excepted {
            reason: exception.reason.clone(),
            failure,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check;
    use crate::fixtures::{dir, file, names};
    use crate::outcome::{same, skipped, truth};

    fn try_here(checks: Vec<Check>, filter: &Filter) -> Vec<Verdict> {
        let directory = tempfile::tempdir().unwrap();
        let report = run_checks(checks, directory.path(), filter).unwrap();
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert!(left.is_empty(), "the run left {left:?}");
        report
            .tried
            .into_iter()
            .map(|tried| tried.verdict)
            .collect()
    }

    #[test]
    fn every_check_begins_in_an_empty_directory_with_umask_0() {
        let alone = |_: &TestDirectory| {
            same("names", names(".")?, vec![])?;
            same("umask", sys::umask(0o77), 0)?;
            dir("d")?;
            file("d/f", b"left behind")
        };
        let verdicts = try_here(
            vec![check("a/one", "", alone), check("a/two", "", alone)],
            &Filter::default(),
        );
        assert!(
            verdicts.iter().all(|verdict| *verdict == Verdict::Passed),
            "{verdicts:?}"
        );
    }

    #[test]
    fn a_panic_is_a_failure_of_that_check_alone() {
        let checks = vec![
            check("a/panics", "", |_| panic!("on purpose")),
            check("a/passes", "", |_| Ok(())),
        ];
        let verdicts = try_here(checks, &Filter::default());
        assert!(matches!(verdicts[0], Verdict::Failed(_)));
        assert_eq!(verdicts[1], Verdict::Passed);
    }

    #[test]
    fn an_exception_excuses_a_failure_and_is_noted_when_it_is_needless() {
        let checks = vec![
            check("a/fails", "", |_| truth("up is down", false)),
            check("a/passes", "", |_| Ok(())),
            check("b/skips", "", |_| skipped("no reason")),
        ];
        let exceptions = vec![Exception::new("a/*", "known")];
        let verdicts = try_here(
            checks,
            &Filter {
                exceptions,
                ..Filter::default()
            },
        );
        assert!(
            matches!(verdicts[0], Verdict::Excepted { .. }),
            "{verdicts:?}"
        );
        assert!(
            matches!(verdicts[1], Verdict::PassedUnexpectedly { .. }),
            "{verdicts:?}"
        );
        assert_eq!(
            verdicts[2],
            Verdict::Skipped {
                reason: "no reason".into()
            }
        );
    }

    #[test]
    fn a_skip_of_what_is_required_is_a_failure() {
        let checks = vec![
            check("acl/skips", "", |_| skipped("no lists")),
            check("clone/skips", "", |_| skipped("no clones")),
        ];
        let verdicts = try_here(
            checks,
            &Filter {
                required: vec!["acl/*".into()],
                ..Filter::default()
            },
        );
        assert!(
            matches!(&verdicts[0], Verdict::Failed(failure) if failure.found == "no lists"),
            "{verdicts:?}"
        );
        assert!(
            matches!(verdicts[1], Verdict::Skipped { .. }),
            "{verdicts:?}"
        );
    }

    #[test]
    fn a_directory_that_is_not_there_cannot_be_run_on() {
        let Err(refusal) = run(Path::new("/nothing/here"), &Filter::default()) else {
            panic!("must be refused")
        };
        assert_eq!(
            refusal.to_string(),
            "cannot work in /nothing/here: open says ENOENT"
        );
    }
}
