//! Rate limit of the log lines about rejected connections: one line per origin and minute, with the count of suppressed ones.

use super::Origin;
use crate::limits::{REJECTION_LOG_INTERVAL, REJECTION_LOG_ORIGINS_MAX};
use gupfs_platform::BootTime;
use std::collections::BTreeMap;

/// The entry None stands for all origins beyond the table's capacity.
#[derive(Default)]
pub(crate) struct RejectionLog(BTreeMap<Option<Origin>, LastLogged>);

struct LastLogged {
    logged: BootTime,
    /// Lines suppressed since then.
    suppressed: u64,
}

impl RejectionLog {
    /// Some if the caller is to log this rejection now, with the number of this origin's lines suppressed since the last logged
    /// one.
    pub fn should_log(&mut self, origin: &Origin, now: BootTime) -> Option<u64> {
        let key = Some(origin.clone());
        if !self.0.contains_key(&key) && self.0.len() >= REJECTION_LOG_ORIGINS_MAX {
            self.0
                .retain(|_, last| now.since(last.logged) < REJECTION_LOG_INTERVAL);
        }
        let has_entry = self.0.contains_key(&key) || self.0.len() < REJECTION_LOG_ORIGINS_MAX;
        let Some(last) = self.0.get_mut(&key.clone().filter(|_| has_entry)) else {
            let first = LastLogged {
                logged: now,
                suppressed: 0,
            };
            self.0.insert(key.filter(|_| has_entry), first);
            return Some(0);
        };
        if now.since(last.logged) < REJECTION_LOG_INTERVAL {
            last.suppressed += 1;
            return None;
        }
        last.logged = now;
        Some(std::mem::take(&mut last.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_origin_is_logged_once_a_minute_and_origins_beyond_the_table_share_one_line() {
        let mut rejection_log = RejectionLog::default();
        let host = |number: usize| Origin::of(&format!("10.0.{}.{}:1", number >> 8, number & 255));
        let begun = BootTime(5);
        assert_eq!(rejection_log.should_log(&host(1), begun), Some(0));
        for _ in 0..400 {
            assert_eq!(
                rejection_log.should_log(&host(1), begun + Duration::from_secs(59)),
                None
            );
        }
        assert_eq!(rejection_log.should_log(&host(2), begun), Some(0));
        let later = begun + REJECTION_LOG_INTERVAL;
        assert_eq!(rejection_log.should_log(&host(1), later), Some(400));
        let logged =
            (0..10_000).filter(|number| rejection_log.should_log(&host(*number), later).is_some());
        // All further origins share one line: the first of them gets it.
        assert_eq!(logged.count(), REJECTION_LOG_ORIGINS_MAX);
    }
}
