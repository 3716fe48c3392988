//! What the log says of connections that were turned away: one line a minute and origin, with the count of the others.

use super::Origin;
use crate::limits::{COMPLAIN_EVERY, COMPLAIN_ORIGINS};
use gupfs_platform::BootTime;
use std::collections::BTreeMap;

/// None is everybody for whom there is no room in the table.
#[derive(Default)]
pub(crate) struct Complaints(BTreeMap<Option<Origin>, Last>);

struct Last {
    said: BootTime,
    /// What was not said since.
    unsaid: u64,
}

impl Complaints {
    /// Whether this is to be said now; with how many of the same origin that were not said since the last one that was.
    pub fn about(&mut self, origin: &Origin, now: BootTime) -> Option<u64> {
        let about = Some(origin.clone());
        if !self.0.contains_key(&about) && self.0.len() >= COMPLAIN_ORIGINS {
            self.0
                .retain(|_, last| now.since(last.said) < COMPLAIN_EVERY);
        }
        let has_room = self.0.contains_key(&about) || self.0.len() < COMPLAIN_ORIGINS;
        let Some(last) = self.0.get_mut(&about.clone().filter(|_| has_room)) else {
            let first = Last {
                said: now,
                unsaid: 0,
            };
            self.0.insert(about.filter(|_| has_room), first);
            return Some(0);
        };
        if now.since(last.said) < COMPLAIN_EVERY {
            last.unsaid += 1;
            return None;
        }
        last.said = now;
        Some(std::mem::take(&mut last.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_origin_is_spoken_of_once_a_minute_and_a_crowd_of_them_as_one() {
        let mut complaints = Complaints::default();
        let host = |number: usize| Origin::of(&format!("10.0.{}.{}:1", number >> 8, number & 255));
        let begun = BootTime(5);
        assert_eq!(complaints.about(&host(1), begun), Some(0));
        for _ in 0..400 {
            assert_eq!(
                complaints.about(&host(1), begun + Duration::from_secs(59)),
                None
            );
        }
        assert_eq!(complaints.about(&host(2), begun), Some(0));
        let later = begun + COMPLAIN_EVERY;
        assert_eq!(complaints.about(&host(1), later), Some(400));
        let said = (0..10_000).filter(|number| complaints.about(&host(*number), later).is_some());
        // The others are one: whoever of them came first.
        assert_eq!(said.count(), COMPLAIN_ORIGINS);
    }
}
