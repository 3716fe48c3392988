//! How much writers may still take. The system is asked rarely; in between what was written is counted.

use super::limits::*;
use gupfs_platform::{BootTime, Clock, Disk, DiskError};
use gupfs_proto::Refusal;
use gupfs_proto::data::Space;
use parking_lot::Mutex;

pub(super) struct Room {
    disk: Disk,
    clock: Clock,
    known: Mutex<Known>,
}

#[derive(Clone, Copy, Default)]
struct Known {
    until: BootTime,
    /// Bytes that may be written before the system is asked again.
    left: u64,
}

/// What is kept back from writers on a disk of that size.
pub(super) fn reserve(total: u64) -> u64 {
    (total / RESERVE_PART)
        .max(RESERVE_BYTES)
        .min(total / RESERVE_AT_MOST_PART)
}

impl Room {
    pub fn new(disk: Disk, clock: Clock) -> Room {
        Room {
            disk,
            clock,
            known: Mutex::default(),
        }
    }

    /// Refuses a write of `bytes` that the disk should not take any more.
    pub async fn take(&self, bytes: u64) -> Result<(), Refusal> {
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
            Err(error) => return Err(Refusal::StoreFailed(super::error::told(&error))),
        };
        if space.available < bytes {
            return Err(Refusal::NoSpace);
        }
        let step = (space.available / SPACE_STEP_PART).max(SPACE_STEP_MIN);
        *self.known.lock() = Known {
            until: now + SPACE_AGE,
            left: step.min(space.available).saturating_sub(bytes),
        };
        Ok(())
    }

    /// As the system says now; the objects are not counted here.
    pub async fn space(&self) -> Result<Space, DiskError> {
        let space = self.disk.space().await?;
        Ok(Space {
            volume: space.volume,
            total: space.total,
            free: space.free,
            available: space.available.saturating_sub(reserve(space.total)),
            objects: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_a_hundredth_at_least_half_a_gibibyte_at_most_a_tenth() {
        assert_eq!(reserve(1 << 40), (1 << 40) / 100);
        assert_eq!(reserve(20 << 30), 512 << 20);
        assert_eq!(reserve(1 << 30), (1 << 30) / 10);
    }
}
