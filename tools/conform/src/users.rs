//! Other users: run a closure with another user's credentials.
//!
//! Linux keeps credentials per thread; only glibc's wrappers spread a change over a process. The raw calls here change
//! one short-lived thread, whose capabilities the kernel drops with the user id. The thread shares the working
//! directory and umask of the check that started it.

use std::thread;

use crate::outcome::{Outcome, SyscallError, failed, skipped};
use crate::sys::{geteuid, set_credentials};

/// A user without privileges: user id, group id, supplementary groups.
#[derive(Clone, Debug)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

/// Two people with nothing in common; no system account has these ids.
pub const ALICE: u32 = 65533;
pub const BOB: u32 = 65532;
/// A group neither of them has as primary group.
pub const OTHER_GROUP: u32 = 65531;

impl User {
    /// A user whose only group has the user's number.
    pub fn new(uid: u32) -> User {
        User {
            uid,
            gid: uid,
            groups: Vec::new(),
        }
    }

    /// The same user, also in `group`.
    pub fn with_group(mut self, group: u32) -> User {
        self.groups.push(group);
        self
    }

    /// Run `work` as this person. Skips the check when we are not root and so cannot become anyone.
    pub fn does<T: Send>(&self, work: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
        if geteuid() != 0 {
            return skipped("needs root, to act as another user");
        }
        thread::scope(|scope| {
            let visit = scope.spawn(|| {
                set_credentials(self.uid, self.gid, &self.groups)?;
                work()
            });
            match visit.join() {
                Ok(outcome) => outcome,
                Err(_) => Err(failed(
                    "the check runs to its end",
                    "it panicked as another user",
                )),
            }
        })
    }
}

/// As user [`ALICE`], group [`ALICE`], no other groups.
pub fn as_alice<T: Send>(work: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    User::new(ALICE).does(work)
}

/// As user [`BOB`], group [`BOB`], no other groups.
pub fn as_bob<T: Send>(work: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    User::new(BOB).does(work)
}

/// One call made as alice, its answer brought back for `.says(…)`.
pub fn alice_gets<T: Send>(
    call: impl FnOnce() -> Result<T, SyscallError> + Send,
) -> Outcome<Result<T, SyscallError>> {
    as_alice(|| Ok(call()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{getegid, getgroups};

    #[test]
    fn a_visit_changes_the_visiting_thread_and_no_other() {
        if geteuid() != 0 {
            return;
        }
        let seen = User::new(ALICE)
            .with_group(OTHER_GROUP)
            .does(|| Ok((geteuid(), getegid(), getgroups())))
            .unwrap();
        assert_eq!(seen, (ALICE, ALICE, vec![OTHER_GROUP]));
        assert_eq!(geteuid(), 0);
    }
}
