//! # fake: a simulated platform that a seed determines
//!
//! Owns   a disk that crashes, a clock that is set by hand, random numbers from a seed, tasks that end with their process, a
//!        network with delays, partitions and broken connections.
//! Never  runs in the product: feature `fake` is for tests only.
//! Enter  at `FakeDisk::new` and `FakePlatform::new`.
//!
//! Each fake stands beside the handle that it implements: `clock::fake`, `disk::fake`, `net::fake`, `random::fake`, `tasks::fake`.

pub use crate::arbiter::fake::{ArbiterCounts, ArbiterFaults, FakeArbiter};
pub use crate::clock::fake::FakeClock;
pub use crate::disk::fake::{CallKind, Counters, Death, FakeDisk, FakeOptions};
pub use crate::net::fake::{FakeHost, FakeListener, FakeNet, FakeStream};
pub use crate::random::fake::FakeRandom;
pub use crate::tasks::fake::FakeTasks;

use crate::Platform;
use crate::clock::Clock;
use crate::random::Random;
use crate::tasks::Tasks;

/// One simulated process: its clock, random source and tasks.
#[derive(Clone)]
pub struct FakePlatform {
    pub clock: FakeClock,
    pub random: FakeRandom,
    pub tasks: FakeTasks,
}

impl FakePlatform {
    /// The clock follows the runtime's time, which tests start paused.
    pub fn new(seed: u64) -> FakePlatform {
        FakePlatform {
            clock: FakeClock::of_runtime(),
            random: FakeRandom::new(seed),
            tasks: FakeTasks::new(),
        }
    }

    /// The handles for the code under test.
    pub fn platform(&self) -> Platform {
        Platform {
            clock: Clock::fake(self.clock.clone()),
            random: Random::fake(self.random.clone()),
            tasks: Tasks::fake(self.tasks.clone()),
        }
    }
}
