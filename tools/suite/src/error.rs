//! The error of the suite: the text for the user, and the exit code.

use std::cmp::Ordering;
use std::fmt;
use std::path::Path;

/// Why a run ended.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct SuiteError {
    kind: Kind,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
enum Kind {
    /// The arguments or the plan are wrong: exit 2.
    #[serde(rename = "Asked")]
    Usage,
    /// A system call, a check of data or another program failed: exit 1.
    #[serde(rename = "Met")]
    Failed,
    /// A call does not come back from the kernel: exit 3.
    Hung,
    /// Another worker failed, and reports the cause: exit 1.
    #[serde(rename = "Followed")]
    AnotherFailed,
}

/// The exit code of [`SuiteError::hung`].
pub const HUNG: u8 = 3;

pub type SuiteResult<T> = Result<T, SuiteError>;

impl SuiteError {
    /// The arguments or the plan are wrong: nothing was done.
    pub fn usage(text: impl Into<String>) -> SuiteError {
        SuiteError {
            kind: Kind::Usage,
            text: text.into(),
        }
    }

    /// A system call, a check of data or another program failed.
    pub fn failed(text: impl Into<String>) -> SuiteError {
        SuiteError {
            kind: Kind::Failed,
            text: text.into(),
        }
    }

    /// A call has not come back within its time. Later steps must not touch the file that it is about.
    pub fn hung(text: impl Into<String>) -> SuiteError {
        SuiteError {
            kind: Kind::Hung,
            text: text.into(),
        }
    }

    pub fn is_hung(&self) -> bool {
        self.kind == Kind::Hung
    }

    /// This worker stopped since another one failed.
    pub fn another_failed() -> SuiteError {
        SuiteError {
            kind: Kind::AnotherFailed,
            text: "another worker met trouble".into(),
        }
    }

    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Usage => 2,
            Kind::Failed | Kind::AnotherFailed => 1,
            Kind::Hung => HUNG,
        }
    }

    /// The same, with where it happened.
    pub fn at(self, place: impl fmt::Display) -> SuiteError {
        let lines = self.text.lines().map(|line| format!("{place}: {line}"));
        let text = match self.kind {
            // Each line is about another call.
            Kind::Hung => lines.collect::<Vec<_>>().join("\n"),
            _ => format!("{place}: {}", self.text),
        };
        SuiteError { text, ..self }
    }

    /// Which of two is told: calls that hang, since that decides what may be done next, and all of them; else the first that
    /// somebody met.
    fn or(self, other: SuiteError) -> SuiteError {
        let rank = |error: &SuiteError| match error.kind {
            Kind::Hung => 2,
            Kind::Usage | Kind::Failed => 1,
            Kind::AnotherFailed => 0,
        };
        match rank(&self).cmp(&rank(&other)) {
            Ordering::Less => other,
            Ordering::Equal if self.is_hung() => {
                SuiteError::hung(format!("{}\n{}", self.text, other.text))
            }
            Ordering::Equal | Ordering::Greater => self,
        }
    }
}

impl fmt::Display for SuiteError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for SuiteError {}

/// All results, or the error of the worker that failed first: not of those that stopped because of it.
///
/// # Errors
///
/// The first error that a worker met itself; all that hang, if one hangs.
pub fn first_cause<T>(all: impl IntoIterator<Item = SuiteResult<T>>) -> SuiteResult<Vec<T>> {
    let (mut well, mut first) = (Vec::new(), None::<SuiteError>);
    for outcome in all {
        match outcome {
            Ok(value) => well.push(value),
            Err(error) => {
                first = Some(match first {
                    None => error,
                    Some(first) => first.or(error),
                });
            }
        }
    }
    first.map_or(Ok(well), Err)
}

/// Adds to a system call's error what was done to which file.
pub trait ErrorContext<T> {
    /// # Errors
    /// The error, with `what` and `path`.
    fn doing(self, what: &str, path: &Path) -> SuiteResult<T>;
}

impl<T, E: fmt::Display> ErrorContext<T> for Result<T, E> {
    fn doing(self, what: &str, path: &Path) -> SuiteResult<T> {
        self.map_err(|error| {
            SuiteError::failed(format!("cannot {what} {}: {error}", path.display()))
        })
    }
}

#[test]
fn the_error_of_the_worker_that_failed_is_reported() {
    let failed = |text: &str| Err::<i32, _>(SuiteError::failed(text));
    let another_failed = || Err(SuiteError::another_failed());
    assert_eq!(first_cause([Ok(1), Ok(2)]), Ok(vec![1, 2]));
    assert_eq!(
        first_cause([
            Ok(1),
            another_failed(),
            failed("a"),
            failed("b"),
            another_failed()
        ]),
        Err(SuiteError::failed("a"))
    );
    assert_eq!(
        first_cause([Ok(1), another_failed()]),
        Err(SuiteError::another_failed())
    );
    let hung = |text: &str| Err(SuiteError::hung(text));
    let both = first_cause([failed("a"), hung("b"), another_failed(), hung("c")]);
    let both = both.unwrap_err().at("x");
    assert_eq!(
        (both.exit_code(), both.to_string().as_str()),
        (HUNG, "x: b\nx: c")
    );
}
