//! What a user reads when it did not work, and the exit code.

use std::fmt;
use std::path::Path;

/// Why a run ended: what was asked (exit 2), or the world (exit 1).
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Trouble {
    asked: bool,
    text: String,
}

pub type Outcome<T> = Result<T, Trouble>;

impl Trouble {
    /// What was asked for is not possible: nothing was done.
    pub fn asked(text: impl Into<String>) -> Trouble {
        let text = text.into();
        Trouble { asked: true, text }
    }

    /// Something on the way failed.
    pub fn met(text: impl Into<String>) -> Trouble {
        let text = text.into();
        Trouble { asked: false, text }
    }

    pub fn exit_code(&self) -> u8 {
        if self.asked { 2 } else { 1 }
    }

    /// The same, with where it happened.
    pub fn at(self, place: impl fmt::Display) -> Trouble {
        let text = format!("{place}: {}", self.text);
        Trouble { text, ..self }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Trouble {}

/// Adds to a system call's error what was done to which file.
pub trait Doing<T> {
    fn doing(self, what: &str, path: &Path) -> Outcome<T>;
}

impl<T, E: fmt::Display> Doing<T> for Result<T, E> {
    fn doing(self, what: &str, path: &Path) -> Outcome<T> {
        self.map_err(|error| Trouble::met(format!("cannot {what} {}: {error}", path.display())))
    }
}
