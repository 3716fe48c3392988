//! Why this process cannot take part in a cluster.

use std::error::Error;
use std::fmt;

/// Why this process cannot take part in a cluster: what happened, to which object, why, and what to do.
#[derive(Debug)]
pub struct SetupError {
    pub kind: SetupErrorKind,
    /// What happened, to which object; a sentence without its period.
    pub what: String,
    pub cause: Option<Box<dyn Error + Send + Sync>>,
    /// What the reader can do; a sentence without its period.
    pub advice: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetupErrorKind {
    /// A file, the key or the configuration of this host is wrong: another attempt fails, too.
    Unusable,
    /// No server was reached.
    Unreachable,
    /// The server refused.
    Refused,
}

impl SetupError {
    pub fn new(kind: SetupErrorKind, what: impl Into<String>) -> SetupError {
        SetupError {
            kind,
            what: what.into(),
            cause: None,
            advice: None,
        }
    }

    pub fn because(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> SetupError {
        self.cause = Some(cause.into());
        self
    }

    pub fn todo(mut self, advice: impl Into<String>) -> SetupError {
        self.advice = Some(advice.into());
        self
    }

    /// The Linux error number, positive: that of the system call that failed, or the one that says best what happened.
    pub fn errno(&self) -> i32 {
        let mut next = self.cause.as_deref().map(|cause| cause as &dyn Error);
        while let Some(error) = next {
            let io = error.downcast_ref::<std::io::Error>();
            if let Some(errno) = io.and_then(std::io::Error::raw_os_error) {
                return errno;
            }
            next = error.source();
        }
        match self.kind {
            SetupErrorKind::Unusable => libc::EINVAL,
            SetupErrorKind::Unreachable => libc::EHOSTUNREACH,
            SetupErrorKind::Refused => libc::EACCES,
        }
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        let mut said = String::new();
        let mut next = self.cause.as_deref().map(|cause| cause as &dyn Error);
        while let Some(error) = next {
            let text = error.to_string();
            // Many errors repeat their source in their own text.
            if !said.contains(&text) {
                write!(f, ": {text}")?;
                said += &text;
            }
            next = error.source();
        }
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl Error for SetupError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &dyn Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn an_error_has_message_cause_advice_and_the_errno_of_the_system() {
        let error = SetupError::new(SetupErrorKind::Unusable, "cannot read the key '/x'")
            .because(std::io::Error::from_raw_os_error(libc::ENOENT))
            .todo("make one");
        expect!["cannot read the key '/x': No such file or directory (os error 2); make one"]
            .assert_eq(&error.to_string());
        assert_eq!(error.errno(), libc::ENOENT);
        let bare = SetupError::new(SetupErrorKind::Refused, "refused");
        assert_eq!(bare.errno(), libc::EACCES);
    }
}
