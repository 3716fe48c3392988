//! Limits on waits for devices: while one wait is stalled, no serving thread begins another one.
//!
//! Submitting a read to a ring may block, too: for a free entry in the queue of its disk, or to read the file's block map. If a
//! disk hung, the serving threads would block for it one after the other, and requests for files on other disks with them.
//! Therefore only few reads are in flight at a time, and none begins while one is stalled: the pool reads instead, whose threads
//! have no other work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::warn;

/// A wait that lasts longer counts as stalled. It is detected after once to twice this time.
const STALL_AFTER: Duration = Duration::from_secs(1);

/// Most waits at a time. The queue of a slow disk has about as many entries; a thread that submits more blocks.
const WAITS_MAX: usize = 64;

static WAITS: Mutex<DeviceWaits> = Mutex::new(DeviceWaits::new());

thread_local! {
    /// Reads in flight that this thread submitted to a ring.
    static READS_OF_THIS_THREAD: Arc<AtomicUsize> = Arc::default();
}

/// Number of waits, by the period in which they began: the current period, and all earlier ones.
struct DeviceWaits {
    counts: [usize; 2],
    /// Index in `counts` of the current period.
    period: usize,
    since: Option<Instant>,
    /// The log has the warning about a stalled wait.
    stall_reported: bool,
}

#[derive(Debug, PartialEq)]
enum WaitRefused {
    TooMany,
    /// A wait of an earlier period lasts; true the first time that this is found.
    Stalled(bool),
}

impl DeviceWaits {
    const fn new() -> DeviceWaits {
        DeviceWaits {
            counts: [0; 2],
            period: 0,
            since: None,
            stall_reported: false,
        }
    }

    /// Counts a wait that begins now and returns its period.
    fn begin(&mut self, now: Instant) -> Result<usize, WaitRefused> {
        let is_current = |since: Instant| now.saturating_duration_since(since) < STALL_AFTER;
        if !self.since.is_some_and(is_current) {
            let earlier = 1 - self.period;
            if self.counts[earlier] > 0 {
                return Err(WaitRefused::Stalled(!std::mem::replace(
                    &mut self.stall_reported,
                    true,
                )));
            }
            (self.period, self.since, self.stall_reported) = (earlier, Some(now), false);
        }
        if self.counts.iter().sum::<usize>() >= WAITS_MAX {
            return Err(WaitRefused::TooMany);
        }
        self.counts[self.period] += 1;
        Ok(self.period)
    }

    fn end(&mut self, period: usize) {
        self.counts[period] -= 1;
    }
}

/// A wait for a device, counted until this is dropped.
pub struct DeviceWait {
    period: usize,
}

impl DeviceWait {
    /// None while there are `WAITS_MAX` waits, or one is stalled.
    pub fn begin() -> Option<DeviceWait> {
        // Real disks take real time; simulated disks do not use this module.
        #[allow(clippy::disallowed_methods)]
        let now = Instant::now();
        let began = WAITS.lock().begin(now);
        match began {
            Ok(period) => Some(DeviceWait { period }),
            Err(WaitRefused::TooMany | WaitRefused::Stalled(false)) => None,
            Err(WaitRefused::Stalled(true)) => {
                warn!(
                    "a disk has not completed a read for a second; until it does the thread pool reads files"
                );
                None
            }
        }
    }
}

impl Drop for DeviceWait {
    fn drop(&mut self) {
        WAITS.lock().end(self.period);
    }
}

/// A read of the calling thread that a ring executes, counted until this is dropped. The kernel completes it on that thread,
/// which therefore must not block in another call for long.
pub struct ThreadRead(Arc<AtomicUsize>);

impl ThreadRead {
    pub fn begin() -> ThreadRead {
        let reads = READS_OF_THIS_THREAD.with(Arc::clone);
        reads.fetch_add(1, Ordering::Relaxed);
        ThreadRead(reads)
    }

    pub fn none_in_flight() -> bool {
        READS_OF_THIS_THREAD.with(|reads| reads.load(Ordering::Relaxed) == 0)
    }
}

impl Drop for ThreadRead {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_wait_begins_while_one_is_stalled() {
        #[allow(clippy::disallowed_methods)]
        let start = Instant::now();
        let at = |tenths: u64| start + Duration::from_millis(100 * tenths);
        let mut waits = DeviceWaits::new();
        let hangs = waits.begin(at(0)).unwrap();
        let short = waits.begin(at(9)).unwrap();
        assert_eq!(hangs, short);
        waits.end(short);
        let next = waits.begin(at(12)).unwrap();
        assert_ne!(hangs, next, "a late completion is possible");
        waits.end(next);
        assert!(waits.begin(at(21)).is_ok_and(|last| last == next));
        assert_eq!(waits.begin(at(22)), Err(WaitRefused::Stalled(true)));
        assert_eq!(waits.begin(at(99)), Err(WaitRefused::Stalled(false)));
        waits.end(hangs);
        // The wait that began at 21 lasts as well: it gets a period of its own.
        assert_eq!(waits.begin(at(100)), Ok(hangs));
        assert_eq!(waits.begin(at(110)), Err(WaitRefused::Stalled(true)));
        waits.end(next);
        assert_eq!(waits.begin(at(111)), Ok(next));
    }

    #[test]
    fn the_number_of_waits_is_bounded() {
        #[allow(clippy::disallowed_methods)]
        let now = Instant::now();
        let mut waits = DeviceWaits::new();
        let all: Vec<_> = (0..WAITS_MAX).map(|_| waits.begin(now).unwrap()).collect();
        assert_eq!(waits.begin(now), Err(WaitRefused::TooMany));
        waits.end(all[0]);
        assert!(waits.begin(now).is_ok());
    }
}
