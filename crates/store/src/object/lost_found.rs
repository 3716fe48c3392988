//! `lost+found`: quarantined objects, by the day of their quarantine: `lost+found/2026-11-24/<directory>/<file>`, with
//! the same names as below `objects`. While the target is stopped, an administrator can move them back there.
//!
//! Other entries may be beside these days: where a target is a whole disk, `lost+found` is also that of its file
//! system.

use super::limits::QUARANTINE_DAYS;
use super::paths::parse_file_name;
use gupfs_platform::{Clock, Disk, DiskError, DiskErrorKind};
use gupfs_proto::{OstId, Timestamp};
use parking_lot::Mutex;
use serde::Serialize;

const LOST_FOUND: &str = "lost+found";

/// Number and size of the quarantined objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LostFoundUsage {
    pub objects: u64,
    pub bytes: u64,
}

/// The `lost+found` of one target.
pub(super) struct LostFound {
    ost: OstId,
    disk: Disk,
    clock: Clock,
    usage: Mutex<LostFoundUsage>,
}

impl LostFound {
    pub fn new(ost: OstId, disk: Disk, clock: Clock) -> LostFound {
        LostFound {
            ost,
            disk,
            clock,
            usage: Mutex::default(),
        }
    }

    /// Number and size of the quarantined objects as the last check of expired objects counted them, with those
    /// quarantined since.
    pub fn usage(&self) -> LostFoundUsage {
        *self.usage.lock()
    }

    /// Notes that an object of this size was quarantined.
    pub fn note_quarantined(&self, bytes: u64) {
        let mut usage = self.usage.lock();
        usage.objects += 1;
        usage.bytes += bytes;
    }

    /// Creates the quarantine directory of today for files of the directory `from`; durable when this returns.
    pub async fn create_dir(&self, from: &str) -> Result<String, DiskError> {
        let below = from.rsplit('/').next().unwrap_or(from);
        let day = format!("{LOST_FOUND}/{}", self.clock.now().format_date());
        let dir = format!("{day}/{below}");
        for (made, above) in [(LOST_FOUND, "."), (&day, LOST_FOUND), (&dir, &day)] {
            if self.disk.create_dir(made).await? {
                self.disk.sync_dir(above).await?;
            }
        }
        Ok(dir)
    }

    /// Removes objects whose quarantine has expired, and counts the rest.
    pub async fn remove_expired(&self) -> Result<(), DiskError> {
        let now = self.clock.now();
        let kept = i64::from(QUARANTINE_DAYS + 1) * 86_400; // one more, so that the whole last day counts
        let oldest = Timestamp::new(now.secs - kept, 0).format_date();
        for day in days(&self.disk).await? {
            // Dates have equal length, so their order as text is their order in time.
            if day < oldest {
                tracing::info!(
                    ost = self.ost.0,
                    day,
                    "the OST removes the objects that it quarantined on this day: their quarantine has expired"
                );
                remove_day(&self.disk, &day).await?;
            }
        }
        let counted = self.count().await?;
        *self.usage.lock() = counted;
        Ok(())
    }

    /// Counts the quarantined objects on disk.
    pub async fn count(&self) -> Result<LostFoundUsage, DiskError> {
        let mut found = LostFoundUsage::default();
        for day in days(&self.disk).await? {
            let day = format!("{LOST_FOUND}/{day}");
            for dir in names(&self.disk, &day).await? {
                let dir = format!("{day}/{dir}");
                for file in names(&self.disk, &dir).await? {
                    let Some((_, segment)) = parse_file_name(&file) else {
                        continue;
                    };
                    found.objects += u64::from(segment == 0);
                    let stat = self.disk.stat(&format!("{dir}/{file}")).await?;
                    found.bytes += stat.map_or(0, |stat| stat.len);
                }
            }
        }
        Ok(found)
    }
}

async fn names(disk: &Disk, dir: &str) -> Result<Vec<String>, DiskError> {
    match disk.list(dir).await {
        Ok(entries) => Ok(entries.into_iter().map(|entry| entry.name).collect()),
        Err(error) if error.kind == DiskErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The days in `lost+found`; skips other entries.
async fn days(disk: &Disk) -> Result<Vec<String>, DiskError> {
    let mut days = names(disk, LOST_FOUND).await?;
    days.retain(|name| is_day(name));
    Ok(days)
}

fn is_day(name: &str) -> bool {
    let shape = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    name.len() == 10 && name.bytes().enumerate().all(shape)
}

async fn remove_day(disk: &Disk, day: &str) -> Result<(), DiskError> {
    let day = format!("{LOST_FOUND}/{day}");
    for dir in names(disk, &day).await? {
        let dir = format!("{day}/{dir}");
        for file in names(disk, &dir).await? {
            disk.remove_file(&format!("{dir}/{file}")).await?;
        }
        disk.remove_dir(&dir).await?;
    }
    disk.remove_dir(&day).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_entries_are_not_taken_for_days() {
        assert!(is_day("2026-11-24"));
        for other in [
            "#12345",
            "2026-11-2",
            "2026-11-24x",
            "20261-1-24",
            "yesterday!",
        ] {
            assert!(!is_day(other), "{other}");
        }
    }
}
