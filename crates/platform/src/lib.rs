//! # world: everything a program cannot decide by itself
//!
//! Owns   handles to disk, net, clock, dice and tasks; the real ones; with feature `fake` the faked ones.
//! Never  knows what is stored or said.
//! Enter  at `Disk::real`, `Platform::real`; programs at `panics::end_the_process`; tests at `fake::FakeDisk::new`, `fake::FakePlatform::new`.
//!
//! A handle is a plain cloneable type; whether a real or a faked part stands behind it shows in no signature.
//!
//! ```no_run
//! # async fn tour() -> Result<(), gupfs_platform::DiskError> {
//! use gupfs_platform::{Disk, OpenHow, ReadHow, Platform};
//! let world = Platform::real();
//! let disk = Disk::real("/srv/gupfs")?;
//! let file = disk.open("log/1", OpenHow::write().create()).await?;
//! file.write_at(b"bytes", 0).await?;
//! file.sync_data().await?;
//! disk.sync_dir("log").await?;
//! let mut back = [0; 5];
//! file.read_at(&mut back, 0, ReadHow::MayWait).await?;
//! world.tasks.spawn("greeting", async move { println!("{:?}", world.clock.now()) });
//! # Ok(()) }
//! ```

pub mod busy_poll;
pub mod clock;
pub mod dice;
pub mod disk;
pub mod hash;
pub mod net;
pub mod panics;
pub mod tasks;

#[cfg(feature = "fake")]
pub mod fake;

pub use clock::{BootTime, Clock};
pub use dice::Dice;
pub use disk::{
    Advice, DirEntry, Disk, DiskError, DiskErrorKind, DiskFile, DiskLock, EntryKind, OpenHow,
    ReadHow, Space, Stat,
};
pub use net::{Listener, Net, Stream};
pub use tasks::{Task, TaskEnded, Tasks};

/// Clock, dice and tasks of one process. Disks come apart from it, since a process may use several, and so does
/// the net, since not every process has one.
#[derive(Clone)]
pub struct Platform {
    pub clock: Clock,
    pub dice: Dice,
    pub tasks: Tasks,
}

impl Platform {
    pub fn real() -> Platform {
        Platform {
            clock: Clock::real(),
            dice: Dice::real(),
            tasks: Tasks::real(),
        }
    }
}
