//! # fake: a world that does what a seed says
//!
//! Owns   a disk that crashes, a clock that stands still, dice with a seed, tasks that die with their process, a network
//!        that delays and breaks.
//! Never  runs in the product: feature `fake` is for tests only.
//! Enter  at `FakeDisk::new` and `FakePlatform::new`.

mod clock;
mod dice;
mod disk;
mod net;
mod tasks;

pub use clock::FakeClock;
pub use dice::FakeDice;
pub use disk::{CallKind, Counters, Death, FakeDisk, FakeOptions};
pub use net::{FakeHost, FakeListener, FakeNet, FakeStream};
pub use tasks::FakeTasks;

pub(crate) use disk::{FakeFile, FakeLock, FakeTree};

use crate::{Clock, Dice, Platform, Tasks};

/// One simulated process: its clock, its dice, its tasks.
#[derive(Clone)]
pub struct FakeWorld {
    pub clock: FakeClock,
    pub dice: FakeDice,
    pub tasks: FakeTasks,
}

impl FakeWorld {
    /// Time follows the runtime's, which tests start paused.
    pub fn new(seed: u64) -> FakeWorld {
        FakeWorld {
            clock: FakeClock::of_runtime(),
            dice: FakeDice::new(seed),
            tasks: FakeTasks::new(),
        }
    }

    /// The handles the code under test is given.
    pub fn platform(&self) -> Platform {
        Platform {
            clock: Clock::fake(self.clock.clone()),
            dice: Dice::fake(self.dice.clone()),
            tasks: Tasks::fake(self.tasks.clone()),
        }
    }
}
