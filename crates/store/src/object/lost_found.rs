//! `lost+found`: objects that were set aside, by the day on which they were: `lost+found/2026-11-24/<directory>/<file>`, as they
//! lay below `objects`. They can be moved back there while the target is stopped.
//!
//! Other things may lie beside these days: `lost+found` is the file system's own where a target is a whole disk.

use super::Objects;
use super::limits::SET_ASIDE_DAYS;
use super::place::parse;
use super::target::Target;
use gupfs_platform::{Disk, DiskError, DiskErrorKind};
use gupfs_proto::{Refusal, Timestamp};
use serde::Serialize;

const LOST_FOUND: &str = "lost+found";

/// What lies there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LostFound {
    pub objects: u64,
    pub bytes: u64,
}

impl LostFound {
    pub(super) fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

impl Objects {
    /// Counts what lies in `lost+found`.
    pub async fn count_lost_found(&self) -> Result<LostFound, Refusal> {
        let counted = count(&self.looking()?.disk).await;
        counted.map_err(|error| Refusal::StoreFailed(super::error::told(&error)))
    }
}

impl Target {
    /// Removes what has lain there for its time, and counts the rest.
    pub async fn tidy_lost_found(&self) -> Result<(), DiskError> {
        let now = self.platform.clock.now();
        let kept = i64::from(SET_ASIDE_DAYS + 1) * 86_400; // the day itself is over by then
        let oldest = Timestamp::new(now.secs - kept, 0).day();
        for day in days(&self.disk).await? {
            // Dates of equal length: their order as text is their order.
            if day < oldest {
                tracing::info!(
                    ost = self.ost.0,
                    day,
                    "objects that were set aside are removed for good"
                );
                remove_day(&self.disk, &day).await?;
            }
        }
        let counted = count(&self.disk).await?;
        *self.lost_found.lock() = counted;
        Ok(())
    }
}

/// The directory for files of `from`, made durably.
pub(super) async fn dir_for(disk: &Disk, now: Timestamp, from: &str) -> Result<String, DiskError> {
    let below = from.rsplit('/').next().unwrap_or(from);
    let day = format!("{LOST_FOUND}/{}", now.day());
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

/// Those that are ours.
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

async fn count(disk: &Disk) -> Result<LostFound, DiskError> {
    let mut found = LostFound::default();
    for day in days(disk).await? {
        let day = format!("{LOST_FOUND}/{day}");
        for dir in names(disk, &day).await? {
            let dir = format!("{day}/{dir}");
            for file in names(disk, &dir).await? {
                let Some((_, segment)) = parse(&file) else {
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
    fn days_are_told_from_what_else_lies_there() {
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
