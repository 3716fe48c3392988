//! How a command ends: a number for scripts, and for people what happened, to what, and what to do next.

use std::fmt;
use std::process::ExitCode;

/// Exit codes, the same for all commands. clap itself ends with 2 when the command line is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// Done as asked.
    Fine = 0,
    /// It could not be done; for `check`: problems were found.
    Failed = 1,
    /// Wrong arguments or configuration; for `check`: it could not look.
    Unusable = 2,
    /// What was asked about does not run.
    NotRunning = 3,
    /// `check --repair` found problems and mended all of them.
    Repaired = 4,
    /// The program itself is wrong: it panicked, and ended at once (`gupfs_platform::panics`). sysexits.h's EX_SOFTWARE.
    Panicked = 70,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command ends without having done what it was asked.
#[derive(Debug)]
pub struct CliError {
    pub exit: Exit,
    what: String,
    because: Vec<String>,
    todo: Vec<String>,
}

pub type CliResult<T> = Result<T, CliError>;

impl CliError {
    /// `what` says what happened, and to which thing: a sentence without its period.
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

    /// Adds an error and all it rests on.
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

    /// What the reader can do about it: a sentence without its period. Several may be given.
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

/// Turns the error of a step into trouble that says what the step was.
pub trait OrCliError<T> {
    fn or_trouble(self, what: impl FnOnce() -> String) -> CliResult<T>;
}

impl<T, E: std::error::Error + 'static> OrCliError<T> for Result<T, E> {
    fn or_trouble(self, what: impl FnOnce() -> String) -> CliResult<T> {
        self.map_err(|error| CliError::new(what()).because(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn trouble_says_what_why_and_what_to_do() {
        let error = std::io::Error::from_raw_os_error(13);
        let trouble = CliError::new("cannot write '/srv/x/gupfs.toml'")
            .because(&error)
            .todo("run as the user that owns '/srv/x'");
        expect![[r#"
            cannot write '/srv/x/gupfs.toml': Permission denied (os error 13).
              → run as the user that owns '/srv/x'."#]]
        .assert_eq(&trouble.to_string());
    }
}
