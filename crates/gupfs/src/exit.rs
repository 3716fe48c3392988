//! How a command ends: an exit code for scripts, and a message for people: what happened, to which object, what to do next.

use gupfs_files::{SetupError, SetupErrorKind};
use std::fmt;
use std::process::ExitCode;

/// Exit codes, the same for all commands. clap itself ends with 2 when the command line is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// The command did what was requested.
    Fine = 0,
    /// The command failed; `check`: it found problems.
    Failed = 1,
    /// Wrong arguments or configuration; `check`: the store could not be checked.
    Unusable = 2,
    /// No process serves the store or mount that was named.
    NotRunning = 3,
    /// `check --repair` found problems and repaired all of them.
    Repaired = 4,
    /// A bug: the program panicked and exited at once (`gupfs_platform::panics`). sysexits.h's EX_SOFTWARE.
    Panicked = 70,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command failed.
#[derive(Debug)]
pub struct CliError {
    pub exit: Exit,
    what: String,
    because: Vec<String>,
    todo: Vec<String>,
}

pub type CliResult<T> = Result<T, CliError>;

impl CliError {
    /// `what`: what happened, to which object; a sentence without its period.
    pub fn new(what: impl Into<String>) -> CliError {
        CliError {
            exit: Exit::Failed,
            what: what.into(),
            because: Vec::new(),
            todo: Vec::new(),
        }
    }

    pub fn exit(mut self, exit: Exit) -> CliError {
        self.exit = exit;
        self
    }

    /// Adds an error and its chain of sources.
    pub fn because(mut self, error: &(dyn std::error::Error + 'static)) -> CliError {
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            // Many errors repeat their source in their own text.
            if !self.because.iter().any(|said| said.contains(&text)) {
                self.because.push(text);
            }
            next = error.source();
        }
        self
    }

    /// Adds advice: what the reader can do; a sentence without its period. May be called several times.
    pub fn todo(mut self, advice: impl Into<String>) -> CliError {
        self.todo.push(advice.into());
        self
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        for reason in &self.because {
            write!(f, ": {reason}")?;
        }
        f.write_str(".")?;
        for advice in &self.todo {
            write!(f, "\n  → {advice}.")?;
        }
        Ok(())
    }
}

impl From<SetupError> for CliError {
    fn from(error: SetupError) -> CliError {
        let failed = CliError::new(&*error.what).exit(match error.kind {
            SetupErrorKind::Unusable => Exit::Unusable,
            SetupErrorKind::Unreachable => Exit::NotRunning,
            SetupErrorKind::Refused => Exit::Failed,
        });
        let failed = match error.cause.as_deref() {
            Some(cause) => failed.because(cause),
            None => failed,
        };
        match error.advice {
            Some(advice) => failed.todo(advice),
            None => failed,
        }
    }
}

/// Turns the error of a step into a CLI error that says what the step was.
pub trait OrCliError<T> {
    fn or_cli_error(self, what: impl FnOnce() -> String) -> CliResult<T>;
}

impl<T, E: std::error::Error + 'static> OrCliError<T> for Result<T, E> {
    fn or_cli_error(self, what: impl FnOnce() -> String) -> CliResult<T> {
        self.map_err(|error| CliError::new(what()).because(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn an_error_has_message_cause_and_advice() {
        let error = std::io::Error::from_raw_os_error(13);
        let error = CliError::new("cannot write '/srv/x/gupfs.toml'")
            .because(&error)
            .todo("run as the user that owns '/srv/x'");
        expect![[r#"
            cannot write '/srv/x/gupfs.toml': Permission denied (os error 13).
              → run as the user that owns '/srv/x'."#]]
        .assert_eq(&error.to_string());
    }
}
