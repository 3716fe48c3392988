//! The imports of every file of checks: the calls, the error names, the fixtures, the words of an outcome.

pub use std::time::Duration;

pub use crate::acl::{ACCESS, DEFAULT, acl, acl_text};
pub use crate::check::{Check, check};
pub use crate::child::{Child, in_child};
pub use crate::errno::*;
pub use crate::fixtures::*;
pub use crate::kind::Kind;
pub use crate::outcome::{
    Answer, ExpectError, NotPassed, Optional, Outcome, differs, failed, permitted, same, same_mode,
    skipped, truth, works,
};
pub use crate::sys::*;
pub use crate::test_directory::TestDirectory;
pub use crate::users::{ALICE, BOB, OTHER_GROUP, User, alice_gets, as_alice, as_bob};
