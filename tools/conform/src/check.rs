//! One promise of the standard and the function that tries it.

use std::borrow::Cow;

use crate::outcome::Outcome;
use crate::test_directory::TestDirectory;

/// A behaviour, named so that the name alone tells what was promised: `group/what-happens-then`.
pub struct Check {
    pub name: Cow<'static, str>,
    /// The promise of the standard (POSIX.1-2024, or the Linux manual where POSIX is silent), in our words.
    pub promise: Cow<'static, str>,
    run: Body,
}

/// Runs in a thread of its own whose working directory is the check's own empty directory.
type Body = Box<dyn Fn(&TestDirectory) -> Outcome + Send + Sync>;

impl Check {
    /// The part of the name before the slash: the system call or family.
    pub fn group(&self) -> &str {
        self.name
            .split_once('/')
            .map_or(&*self.name, |(group, _)| group)
    }

    /// Try it. Only [`crate::run`] calls this: it makes the room first.
    pub(crate) fn try_in(&self, room: &TestDirectory) -> Outcome {
        (self.run)(room)
    }
}

/// A check for the lists in [`crate::checks`].
pub fn check(
    name: impl Into<Cow<'static, str>>,
    promise: impl Into<Cow<'static, str>>,
    run: impl Fn(&TestDirectory) -> Outcome + Send + Sync + 'static,
) -> Check {
    Check {
        name: name.into(),
        promise: promise.into(),
        run: Box::new(run),
    }
}
