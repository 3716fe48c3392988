//! The coordinator's part of each layer: orders to workers, and rates from their answers.

pub mod disks;
pub mod files;
pub mod network;

use std::time::Duration;

use super::site::Access;
use super::workers::Workers;
use crate::error::SuiteError;

/// How long an answer may take that needs no measuring.
const SOON: Duration = Duration::from_secs(60);

/// The slowest disk or file system that is waited for, in bytes a second.
const SLOWEST: u64 = 1 << 20;

/// The workers, and the host of each.
pub struct Coordinator<'a> {
    pub workers: &'a mut Workers,
    pub accesses: &'a [Access],
}

impl Coordinator<'_> {
    fn member(&self, access: &Access) -> usize {
        let found = self.accesses.iter().position(|other| other == access);
        found.expect("a worker was started for everyone who is named")
    }
}

/// As long as measuring takes, and some more.
fn measuring(seconds: f64) -> Duration {
    SOON + Duration::from_secs_f64(2.0 * seconds)
}

/// As long as moving so many bytes takes.
fn moving(bytes: u64) -> Duration {
    SOON + Duration::from_secs(bytes / SLOWEST)
}

fn misunderstood() -> SuiteError {
    SuiteError::failed("a worker answered something else than what was asked")
}
