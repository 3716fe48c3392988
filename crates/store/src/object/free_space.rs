//! Free space that writers may use. Read from the file system rarely; in between, written bytes are counted.

use super::limits::*;
use gupfs_platform::{BootTime, Clock, Disk, DiskError};
use gupfs_proto::FsError;
use gupfs_proto::data::TargetCapacity;
use parking_lot::Mutex;

pub(super) struct FreeSpace {
    disk: Disk,
    clock: Clock,
    known: Mutex<SpaceBudget>,
}

#[derive(Clone, Copy, Default)]
struct SpaceBudget {
    until: BootTime,
    /// Bytes that may be written before the free space is read again.
    left: u64,
}

/// The reserve that writers cannot use on a disk of this size.
pub(super) fn reserved_bytes(total: u64) -> u64 {
    (total / RESERVE_PART)
        .max(RESERVE_BYTES)
        .min(total / RESERVE_AT_MOST_PART)
}

impl FreeSpace {
    pub fn new(disk: Disk, clock: Clock) -> FreeSpace {
        FreeSpace {
            disk,
            clock,
            known: Mutex::default(),
        }
    }

    /// Counts a write of `bytes`; fails if it would use the reserve.
    pub async fn charge(&self, bytes: u64) -> Result<(), FsError> {
        let now = self.clock.boot();
        {
            let mut known = self.known.lock();
            if now < known.until && known.left >= bytes {
                known.left -= bytes;
                return Ok(());
            }
        }
        let space = match self.space().await {
            Ok(space) => space,
            Err(error) => return Err(FsError::StoreFailed(super::error::error_chain(&error))),
        };
        if space.available < bytes {
            return Err(FsError::NoSpace);
        }
        let step = (space.available / SPACE_STEP_PART).max(SPACE_STEP_MIN);
        *self.known.lock() = SpaceBudget {
            until: now + SPACE_AGE,
            left: step.min(space.available).saturating_sub(bytes),
        };
        Ok(())
    }

    /// The space as the file system reports it; `objects` is not set here.
    pub async fn space(&self) -> Result<TargetCapacity, DiskError> {
        let space = self.disk.space().await?;
        Ok(TargetCapacity {
            volume: space.volume,
            total: space.total,
            free: space.free,
            available: space.available.saturating_sub(reserved_bytes(space.total)),
            objects: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_a_hundredth_at_least_half_a_gibibyte_at_most_a_tenth() {
        assert_eq!(reserved_bytes(1 << 40), (1 << 40) / 100);
        assert_eq!(reserved_bytes(20 << 30), 512 << 20);
        assert_eq!(reserved_bytes(1 << 30), (1 << 30) / 10);
    }
}
