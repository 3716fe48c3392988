//! Whether devices answer: while a wait for one lasts, nobody begins another where others need him.
//!
//! To give a read to a ring may take waiting, too: for room in the queue of its disk, or to learn where a file's blocks lie. If a
//! disk hung, the threads that serve would one after the other wait for it, and files on other disks with them. So few reads are under
//! way at a time, and none begins while one lasts: the pool has threads that nobody else needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::warn;

/// A disk that takes longer does not answer, for all one knows. It is noticed after once to twice this.
const PATIENCE: Duration = Duration::from_secs(1);

/// Waits under way at most. The queue of a slow disk takes about as many requests; who asks for more sleeps.
const MOST: usize = 64;

static WAITS: Mutex<Waits> = Mutex::new(Waits::new());

thread_local! {
    /// Reads under way that this thread gave to a ring.
    static MINE: Arc<AtomicUsize> = Arc::default();
}

/// How many waits last, by the period in which they began: this one, and all before.
struct Waits {
    counts: [usize; 2],
    /// Whose count is that of this period.
    period: usize,
    since: Option<Instant>,
    /// One of an earlier period lasts, which was said.
    told: bool,
}

#[derive(Debug, PartialEq)]
enum No {
    TooMany,
    /// One has lasted for long; whether that is news.
    Lasts(bool),
}

impl Waits {
    const fn new() -> Waits {
        Waits {
            counts: [0; 2],
            period: 0,
            since: None,
            told: false,
        }
    }

    /// The period of a wait that begins now.
    fn begin(&mut self, now: Instant) -> Result<usize, No> {
        let goes_on = |since: Instant| now.saturating_duration_since(since) < PATIENCE;
        if !self.since.is_some_and(goes_on) {
            let earlier = 1 - self.period;
            if self.counts[earlier] > 0 {
                return Err(No::Lasts(!std::mem::replace(&mut self.told, true)));
            }
            (self.period, self.since, self.told) = (earlier, Some(now), false);
        }
        if self.counts.iter().sum::<usize>() >= MOST {
            return Err(No::TooMany);
        }
        self.counts[self.period] += 1;
        Ok(self.period)
    }

    fn end(&mut self, period: usize) {
        self.counts[period] -= 1;
    }
}

/// A wait for a device, until this is dropped.
pub struct Wait {
    period: usize,
}

impl Wait {
    /// None while there are many, or one lasts.
    pub fn begin() -> Option<Wait> {
        // Real disks take real time; those of a simulation are not read here.
        #[allow(clippy::disallowed_methods)]
        let now = Instant::now();
        let began = WAITS.lock().begin(now);
        match began {
            Ok(period) => Some(Wait { period }),
            Err(No::TooMany | No::Lasts(false)) => None,
            Err(No::Lasts(true)) => {
                warn!(
                    "a disk has not answered for a second: until it does files are read by the pool"
                );
                None
            }
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        WAITS.lock().end(self.period);
    }
}

/// A read of the calling thread that a ring does, until this is dropped. The kernel ends it on that thread, which so must not sleep
/// in another call for long.
pub struct Mine(Arc<AtomicUsize>);

impl Mine {
    pub fn begin() -> Mine {
        let mine = MINE.with(Arc::clone);
        mine.fetch_add(1, Ordering::Relaxed);
        Mine(mine)
    }

    pub fn are_none() -> bool {
        MINE.with(|mine| mine.load(Ordering::Relaxed) == 0)
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_one_lasts_none_begins() {
        #[allow(clippy::disallowed_methods)]
        let start = Instant::now();
        let at = |tenths: u64| start + Duration::from_millis(100 * tenths);
        let mut waits = Waits::new();
        let hangs = waits.begin(at(0)).unwrap();
        let short = waits.begin(at(9)).unwrap();
        assert_eq!(hangs, short);
        waits.end(short);
        let next = waits.begin(at(12)).unwrap();
        assert_ne!(hangs, next, "it may be an answer that is late");
        waits.end(next);
        assert!(waits.begin(at(21)).is_ok_and(|last| last == next));
        assert_eq!(waits.begin(at(22)), Err(No::Lasts(true)));
        assert_eq!(waits.begin(at(99)), Err(No::Lasts(false)));
        waits.end(hangs);
        // The one that began at 21 lasts as well: it is given a period of its own.
        assert_eq!(waits.begin(at(100)), Ok(hangs));
        assert_eq!(waits.begin(at(110)), Err(No::Lasts(true)));
        waits.end(next);
        assert_eq!(waits.begin(at(111)), Ok(next));
    }

    #[test]
    fn there_are_never_many() {
        #[allow(clippy::disallowed_methods)]
        let now = Instant::now();
        let mut waits = Waits::new();
        let all: Vec<_> = (0..MOST).map(|_| waits.begin(now).unwrap()).collect();
        assert_eq!(waits.begin(now), Err(No::TooMany));
        waits.end(all[0]);
        assert!(waits.begin(now).is_ok());
    }
}
