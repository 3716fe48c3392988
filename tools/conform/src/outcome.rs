//! How a check ends: passed, failed with what was expected and found, or skipped with a reason.
//!
//! A check is written as a straight line: calls that must work end in `?`, calls that must be refused in
//! `.says(ERRNO)?`, and facts are compared with [`same`] and [`truth`]. Each remembers the source line, so that a
//! report leads to it.

use std::fmt::Debug;
use std::panic::Location;

use crate::errno::Errno;

/// The result of a check.
pub type Outcome<T = ()> = Result<T, NotPassed>;

/// Why a check did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotPassed {
    /// The file system did something else than the standard says.
    Failed(Failure),
    /// Nothing can be said here, and why (no root, an optional feature the standard lets a file system lack).
    Skipped(String),
}

/// Expected and found, and where in the suite the two were compared.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    pub expected: String,
    pub found: String,
    pub at: String,
}

/// A system call that was refused: which, and with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyscallError {
    pub call: &'static str,
    pub errno: Errno,
}

/// The result of a system call wrapper of [`crate::sys`].
pub type Answer<T = ()> = Result<T, SyscallError>;

impl From<SyscallError> for NotPassed {
    #[track_caller]
    fn from(refused: SyscallError) -> NotPassed {
        failed(
            format!("{} works", refused.call),
            format!("{} from {}", refused.errno, refused.call),
        )
    }
}

/// The call works, whatever it gave.
#[track_caller]
pub fn works<T>(answer: Answer<T>) -> Outcome {
    answer.map(|_| ()).map_err(NotPassed::from)
}

/// The failure of a comparison made at the caller's line.
#[track_caller]
pub fn failed(expected: impl Into<String>, found: impl Into<String>) -> NotPassed {
    let at = Location::caller();
    NotPassed::Failed(Failure {
        expected: expected.into(),
        found: found.into(),
        at: format!("{}:{}", at.file(), at.line()),
    })
}

/// The check cannot say anything here, for this reason.
pub fn skipped<T>(reason: impl Into<String>) -> Outcome<T> {
    Err(NotPassed::Skipped(reason.into()))
}

/// `found` is `expected`; `what` names the fact in the report.
#[track_caller]
pub fn same<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(failed(
        format!("{what} {}", brief(&expected)),
        format!("{what} {}", brief(&found)),
    ))
}

/// A mode compared, and reported in octal.
#[track_caller]
pub fn same_mode(found: u32, expected: u32) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(failed(
        format!("mode {expected:#o}"),
        format!("mode {found:#o}"),
    ))
}

/// `found` is not `unwanted`.
#[track_caller]
pub fn differs<T: PartialEq + Debug>(what: &str, found: T, unwanted: T) -> Outcome {
    if found != unwanted {
        return Ok(());
    }
    Err(failed(
        format!("{what} other than {}", brief(&unwanted)),
        format!("{what} {}", brief(&found)),
    ))
}

/// A statement that must hold; it is the text of the report.
#[track_caller]
pub fn truth(statement: impl Into<String>, holds: bool) -> Outcome {
    if holds {
        return Ok(());
    }
    Err(failed(statement.into(), "it is not so"))
}

/// A value short enough for a line of a report.
fn brief(value: &impl Debug) -> String {
    const LONGEST: usize = 160;
    let text = format!("{value:?}");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.len()),
        None => text,
    }
}

/// Comparisons for a call that must be refused.
pub trait ExpectError {
    /// Refused with exactly this error.
    fn says(self, errno: Errno) -> Outcome;
    /// Refused with one of the errors that the standard allows here.
    fn says_one_of(self, errnos: &[Errno]) -> Outcome;
}

impl<T> ExpectError for Answer<T> {
    #[track_caller]
    fn says(self, errno: Errno) -> Outcome {
        self.says_one_of(&[errno])
    }

    #[track_caller]
    fn says_one_of(self, errnos: &[Errno]) -> Outcome {
        let expected = || {
            errnos
                .iter()
                .map(Errno::to_string)
                .collect::<Vec<_>>()
                .join(" or ")
        };
        match self {
            Err(refused) if errnos.contains(&refused.errno) => Ok(()),
            Err(refused) => Err(failed(
                expected(),
                format!("{} from {}", refused.errno, refused.call),
            )),
            Ok(_) => Err(failed(expected(), "success")),
        }
    }
}

/// The call works exactly when it is permitted; else it says EACCES.
#[track_caller]
pub fn permitted<T>(answer: Answer<T>, permitted: bool) -> Outcome {
    match permitted {
        true => works(answer),
        false => answer.says(crate::errno::EACCES),
    }
}

/// Makes an optional feature's refusal a skipped check instead of a failed one.
pub trait Optional<T> {
    fn or_skip(self, errnos: &[Errno], reason: &str) -> Outcome<T>;
}

impl<T> Optional<T> for Answer<T> {
    #[track_caller]
    fn or_skip(self, errnos: &[Errno], reason: &str) -> Outcome<T> {
        match self {
            Err(refused) if errnos.contains(&refused.errno) => {
                skipped(format!("{} says {}: {reason}", refused.call, refused.errno))
            }
            Err(refused) => Err(refused.into()),
            Ok(value) => Ok(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::{EACCES, ENOENT, EPERM};

    fn refused(errno: Errno) -> Answer {
        Err(SyscallError {
            call: "rename",
            errno,
        })
    }

    fn text(outcome: Outcome) -> (String, String) {
        match outcome {
            Err(NotPassed::Failed(failure)) => (failure.expected, failure.found),
            other => panic!("not a failure: {other:?}"),
        }
    }

    #[test]
    fn a_refusal_with_another_errno_fails_and_names_both() {
        let (expected, found) = text(refused(EACCES).says_one_of(&[ENOENT, EPERM]));
        assert_eq!(expected, "ENOENT or EPERM");
        assert_eq!(found, "EACCES from rename");
    }

    #[test]
    fn a_success_where_a_refusal_is_due_fails() {
        let (expected, found) = text(Answer::Ok(()).says(ENOENT));
        assert_eq!((expected.as_str(), found.as_str()), ("ENOENT", "success"));
    }

    #[test]
    fn a_question_mark_remembers_its_own_line() {
        let here = line!() + 2;
        let outcome: Outcome = (|| {
            refused(EACCES)?;
            Ok(())
        })();
        let Err(NotPassed::Failed(failure)) = outcome else {
            panic!("a refusal is a failure")
        };
        assert_eq!(failure.at, format!("{}:{here}", file!()));
    }

    #[test]
    fn a_long_value_is_cut_in_the_report() {
        let (expected, found) = text(same("bytes", vec![0u8; 4096], vec![1u8; 4096]));
        assert!(
            expected.len() < 250 && found.len() < 250,
            "{expected} {found}"
        );
    }
}
