//! A clock that is set by hand, or follows the runtime's paused time; the clock of each process can advance separately, and
//! run at a rate of its own.

use super::BootTime;
use gupfs_proto::Timestamp;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// 2024-01-01, so that time stamps in tests are plausible.
const START: i64 = 1_704_067_200_000_000_000;

#[derive(Clone)]
pub struct FakeClock(Arc<Inner>);

/// Parts in a million.
const MILLION: i64 = 1_000_000;

struct Inner {
    /// If the clock follows the runtime's time: the instant of boot time zero.
    runtime: Option<Instant>,
    /// Nanoseconds that this clock counts in a million nanoseconds of the runtime's time.
    rate: u64,
    set: Mutex<Set>,
    moved: Notify,
}

struct Set {
    /// Nanoseconds added by `advance`.
    ahead: u64,
    /// Wall-clock time at boot time zero, in nanoseconds.
    wall: i64,
}

impl FakeClock {
    /// Time passes only by `advance`.
    pub fn by_hand() -> FakeClock {
        FakeClock::start(None, 0)
    }

    /// Time passes with tokio's time, which a simulation starts paused, and by `advance`.
    pub fn of_runtime() -> FakeClock {
        FakeClock::start(Some(Instant::now()), 0)
    }

    /// The same for a clock that gains this many parts in a million: an oscillator that is faster or slower than the others.
    ///
    /// # Panics
    /// When it would stand still or run backwards.
    pub fn of_runtime_gaining(parts_per_million: i64) -> FakeClock {
        FakeClock::start(Some(Instant::now()), parts_per_million)
    }

    fn start(runtime: Option<Instant>, parts_per_million: i64) -> FakeClock {
        assert!(parts_per_million > -MILLION, "a clock does not stand still");
        FakeClock(Arc::new(Inner {
            runtime,
            rate: (MILLION + parts_per_million) as u64,
            set: Mutex::new(Set {
                ahead: 0,
                wall: START,
            }),
            moved: Notify::new(),
        }))
    }

    /// Advances only this clock: a machine that was suspended, or with a fast clock.
    pub fn advance(&self, by: Duration) {
        self.0.set.lock().ahead += by.as_nanos() as u64;
        self.0.moved.notify_waiters();
    }

    /// Sets the wall clock, as an operator or NTP does; the boot clock does not change.
    pub fn set_wall(&self, to: Timestamp) {
        let boot = self.boot().0 as i64;
        self.0.set.lock().wall = to.as_nanos() - boot;
    }

    pub fn now(&self) -> Timestamp {
        let boot = self.boot().0 as i64;
        Timestamp::from_nanos(self.0.set.lock().wall + boot)
    }

    pub fn boot(&self) -> BootTime {
        let passed = match self.0.runtime {
            Some(start) => scale(start.elapsed(), self.0.rate, MILLION as u64),
            None => 0,
        };
        BootTime(passed + self.0.set.lock().ahead)
    }

    pub async fn sleep_until(&self, when: BootTime) {
        loop {
            let mut moved = std::pin::pin!(self.0.moved.notified());
            moved.as_mut().enable(); // before the clock is read, or an `advance` in between would be missed
            let left = when.since(self.boot());
            if left.is_zero() {
                return;
            }
            match self.0.runtime {
                None => moved.await,
                Some(_) => {
                    // `scale` rounds down: the loop sleeps again if it woke early.
                    let left = scale(left, MILLION as u64, self.0.rate).max(1);
                    tokio::select! {
                        biased;
                        () = moved => {}
                        () = tokio::time::sleep(Duration::from_nanos(left)) => {}
                    }
                }
            }
        }
    }
}

/// The nanoseconds of `time`, times `by` over `of`; rounded down.
fn scale(time: Duration, by: u64, of: u64) -> u64 {
    match by == of {
        true => time.as_nanos() as u64,
        false => (time.as_nanos() * u128::from(by) / u128::from(of)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn paused_time_passes_when_all_tasks_sleep() {
        let clock = FakeClock::of_runtime();
        clock.sleep_until(BootTime(5_000_000_000)).await;
        assert_eq!(clock.boot(), BootTime(5_000_000_000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_fast_clock_and_a_slow_clock_part() {
        let (fast, slow) = (
            FakeClock::of_runtime_gaining(5_000),
            FakeClock::of_runtime_gaining(-5_000),
        );
        let begun = Instant::now();
        slow.sleep_until(BootTime(19_900_000_000)).await;
        let (slept, ahead) = (begun.elapsed(), fast.boot().since(slow.boot()));
        let twenty = Duration::from_secs(20);
        let precision = Duration::from_millis(2); // of tokio's timers
        assert!(slept >= twenty && slept < twenty + precision, "{slept:?}");
        let expected = Duration::from_millis(200);
        assert!(
            ahead >= expected && ahead < expected + precision,
            "{ahead:?}"
        );
    }

    #[tokio::test]
    async fn a_clock_set_by_hand_wakes_its_sleepers() {
        let clock = FakeClock::by_hand();
        let sleeper = clock.sleep_until(BootTime(7));
        let hand = async {
            tokio::task::yield_now().await;
            clock.advance(Duration::from_nanos(7));
        };
        tokio::join!(sleeper, hand);
        assert_eq!(clock.boot(), BootTime(7));
    }

    #[test]
    fn setting_the_wall_clock_leaves_the_boot_clock() {
        let clock = FakeClock::by_hand();
        clock.set_wall(Timestamp::new(5, 0));
        assert_eq!(
            (clock.now(), clock.boot()),
            (Timestamp::new(5, 0), BootTime(0))
        );
    }
}
