//! # fake: a simulated platform that a seed determines
//!
//! Owns   a disk that crashes, a clock that is set by hand, random numbers from a seed, tasks that end with their process, a
//!        network with delays, partitions and broken connections.
//! Never  runs in the product: feature `fake` is for tests only.
//! Enter  at `FakeDisk::new` and `FakePlatform::new`.

mod clock;
mod disk;
mod net;
mod random;
mod tasks;

pub use clock::FakeClock;
pub use disk::{CallKind, Counters, Death, FakeDisk, FakeOptions};
pub use net::{FakeHost, FakeListener, FakeNet, FakeStream};
pub use random::FakeRandom;
pub use tasks::FakeTasks;

pub(crate) use disk::{FakeFile, FakeLock, FakeTree};

use crate::{Clock, Platform, Random, Tasks};

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
