//! Free space of the metadata disk that only removal may use, so that `rm` works on a full disk.

use crate::limits::{RESERVE_MAX, RESERVE_MIN, RESERVE_SHARE};
use gupfs_platform::DiskSpace;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether the metadata disk has more than its reserve left.
pub struct MetadataReserve {
    growth_allowed: AtomicBool,
}

impl Default for MetadataReserve {
    fn default() -> MetadataReserve {
        MetadataReserve {
            growth_allowed: AtomicBool::new(true),
        }
    }
}

impl MetadataReserve {
    /// False while only the reserve of the metadata disk is left.
    pub fn is_growth_allowed(&self) -> bool {
        self.growth_allowed.load(Relaxed)
    }

    /// Returns whether it was allowed before.
    pub fn set_growth_allowed(&self, allowed: bool) -> bool {
        self.growth_allowed.swap(allowed, Relaxed)
    }
}

/// Whether growth leaves the reserve untouched.
pub fn allows_growth(space: &DiskSpace) -> bool {
    space.available > reserve(space.total)
}

/// A share of the disk within bounds; a disk so small that the lower bound is more than a tenth keeps a tenth.
fn reserve(total: u64) -> u64 {
    (total / RESERVE_SHARE)
        .clamp(RESERVE_MIN, RESERVE_MAX)
        .min(total / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(total: u64, available: u64) -> DiskSpace {
        DiskSpace {
            volume: 0,
            total,
            // The share that the file system reserves for others is not available to the server.
            free: total,
            available,
            inodes_total: 0,
            inodes_free: 0,
        }
    }

    #[test]
    fn growth_ends_where_the_reserve_begins() {
        const GIB: u64 = 1 << 30;
        assert!(allows_growth(&disk(20 * GIB, GIB)));
        assert!(!allows_growth(&disk(20 * GIB, 200 << 20)));
        // 1 % of 1 TiB is 10 GiB, more than removal ever needs.
        assert!(allows_growth(&disk(1024 * GIB, GIB)));
        assert!(!allows_growth(&disk(1024 * GIB, 512 << 20)));
    }

    #[test]
    fn a_small_disk_keeps_a_tenth() {
        assert!(allows_growth(&disk(100 << 20, 11 << 20)));
        assert!(!allows_growth(&disk(100 << 20, 10 << 20)));
        assert!(!allows_growth(&disk(0, 0)));
    }
}
