//! # platform: disk, network, clock, random numbers, tasks and the arbiter
//!
//! Owns   the handles to these, their real implementations, and with feature `fake` the fake ones; the call that a task works for.
//! Never  knows the contents of files or messages.
//! Enter  at `Disk::real`, `Platform::real`; programs at `panics::exit_on_panic`, `allocator::keep_freed_memory`; tests at `fake::FakeDisk::new`,
//!        `fake::FakePlatform::new`.
//!
//! A handle is a plain cloneable type; no signature shows whether its implementation is real or fake.
//!
//! ```no_run
//! # async fn tour() -> Result<(), gupfs_platform::DiskError> {
//! use gupfs_platform::{Disk, OnCacheMiss, OpenHow, Platform};
//! let platform = Platform::real();
//! let disk = Disk::real("/srv/gupfs")?;
//! let file = disk.open("log/1", OpenHow::write().create()).await?;
//! file.write_at(b"bytes", 0).await?;
//! file.sync_data().await?;
//! disk.sync_dir("log").await?;
//! let mut back = [0; 5];
//! file.read_at(&mut back, 0, OnCacheMiss::HandOff).await?;
//! platform.tasks.spawn("greeting", async move { println!("{:?}", platform.clock.now()) });
//! # Ok(()) }
//! ```

pub mod allocator;
pub mod arbiter;
pub mod busy_poll;
pub mod clock;
mod current_call;
pub mod disk;
pub mod hash;
pub mod net;
pub mod panics;
pub mod random;
pub mod tasks;

#[cfg(feature = "fake")]
pub mod fake;

pub use arbiter::Arbiter;
pub use clock::{BootTime, Clock};
pub use current_call::CurrentCall;
pub use disk::{
    Advice, Disk, DiskEntry, DiskError, DiskErrorKind, DiskFile, DiskLock, DiskSpace, DiskStat,
    EntryKind, OnCacheMiss, OpenHow,
};
pub use net::{Listener, Net, Stream};
pub use random::Random;
pub use tasks::{Task, TaskError, Tasks};

/// Clock, random source and tasks of one process. Disks are separate, since a process may use several, and so is the network,
/// since not every process has one.
#[derive(Clone)]
pub struct Platform {
    pub clock: Clock,
    pub random: Random,
    pub tasks: Tasks,
}

impl Platform {
    pub fn real() -> Platform {
        Platform {
            clock: Clock::real(),
            random: Random::real(),
            tasks: Tasks::real(),
        }
    }
}
