//! `lost+found`: quarantined objects, by the day of their quarantine: `lost+found/2026-11-24/<directory>/<file>`, with
//! the same names as below `objects`. While the target is stopped, an administrator can move them back there.
//!
//! Other entries may be beside these days: where a target is a whole disk, `lost+found` is also that of its file
//! system.

use super::Objects;
use super::limits::QUARANTINE_DAYS;
use super::paths::parse_file_name;
use super::target::Target;
use gupfs_platform::{Disk, DiskError, DiskErrorKind};
use gupfs_proto::{FsError, Timestamp};
use serde::Serialize;

const LOST_FOUND: &str = "lost+found";

/// Number and size of the quarantined objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LostFoundUsage {
    pub objects: u64,
    pub bytes: u64,
}

impl LostFoundUsage {
    pub(super) fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

impl Objects {
    /// Counts the objects in `lost+found`.
    pub async fn count_lost_found(&self) -> Result<LostFoundUsage, FsError> {
        let counted = count(&self.readable()?.disk).await;
        counted.map_err(|error| FsError::StoreFailed(super::error::error_chain(&error)))
    }
}

impl Target {
    /// Removes objects whose quarantine has expired, and counts the rest.
    pub async fn remove_expired_objects(&self) -> Result<(), DiskError> {
        let now = self.platform.clock.now();
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
        let counted = count(&self.disk).await?;
        *self.lost_found.lock() = counted;
        Ok(())
    }
}

/// Creates the quarantine directory for files of `from`; durable when this returns.
pub(super) async fn create_quarantine_dir(
    disk: &Disk,
    now: Timestamp,
    from: &str,
) -> Result<String, DiskError> {
    let below = from.rsplit('/').next().unwrap_or(from);
    let day = format!("{LOST_FOUND}/{}", now.format_date());
    let dir = format!("{day}/{below}");
    for (made, above) in [(LOST_FOUND, "."), (&day, LOST_FOUND), (&dir, &day)] {
        if disk.create_dir(made).await? {
            disk.sync_dir(above).await?;
        }
    }
    Ok(dir)
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

async fn count(disk: &Disk) -> Result<LostFoundUsage, DiskError> {
    let mut found = LostFoundUsage::default();
    for day in days(disk).await? {
        let day = format!("{LOST_FOUND}/{day}");
        for dir in names(disk, &day).await? {
            let dir = format!("{day}/{dir}");
            for file in names(disk, &dir).await? {
                let Some((_, segment)) = parse_file_name(&file) else {
                    continue;
                };
                found.objects += u64::from(segment == 0);
                let stat = disk.stat(&format!("{dir}/{file}")).await?;
                found.bytes += stat.map_or(0, |stat| stat.len);
            }
        }
    }
    Ok(found)
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
