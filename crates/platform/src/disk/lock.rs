//! `DiskLock`: the handle of a held lock.

#[cfg(feature = "fake")]
use super::fake::FakeLock;
use super::real::RealLock;

/// A held lock; dropping this releases the lock.
pub struct DiskLock {
    _held: LockSource,
}

enum LockSource {
    Real {
        _lock: RealLock,
    },
    #[cfg(feature = "fake")]
    Fake {
        _lock: FakeLock,
    },
}

impl DiskLock {
    pub(super) fn real(lock: RealLock) -> DiskLock {
        DiskLock {
            _held: LockSource::Real { _lock: lock },
        }
    }

    #[cfg(feature = "fake")]
    pub(super) fn fake(lock: FakeLock) -> DiskLock {
        DiskLock {
            _held: LockSource::Fake { _lock: lock },
        }
    }
}
