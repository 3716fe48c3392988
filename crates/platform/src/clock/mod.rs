//! Time: wall-clock time for values that users read, boot time for every decision (the boot clock runs while the machine is
//! suspended and is never set).

#[cfg(feature = "fake")]
pub(crate) mod fake;

use gupfs_proto::Timestamp;
use std::ops::Add;
use std::time::Duration;

/// Nanoseconds since this machine (or simulation) started: CLOCK_BOOTTIME.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BootTime(pub u64);

impl BootTime {
    /// Zero if `earlier` is not earlier.
    pub fn since(self, earlier: BootTime) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for BootTime {
    type Output = BootTime;

    /// Saturates after 584 years.
    fn add(self, by: Duration) -> BootTime {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        BootTime(self.0.saturating_add(nanos))
    }
}

#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    Real,
    #[cfg(feature = "fake")]
    Fake(fake::FakeClock),
}

impl Clock {
    pub fn real() -> Clock {
        Clock(Source::Real)
    }

    #[cfg(feature = "fake")]
    pub fn fake(fake: fake::FakeClock) -> Clock {
        Clock(Source::Fake(fake))
    }

    /// Wall-clock time. It may jump in either direction: use it for time stamps only.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::Real => {
                let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
                Timestamp::new(now.tv_sec, now.tv_nsec as u32)
            }
            #[cfg(feature = "fake")]
            Source::Fake(fake) => fake.now(),
        }
    }

    pub fn boot(&self) -> BootTime {
        match &self.0 {
            Source::Real => {
                let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
                BootTime(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
            }
            #[cfg(feature = "fake")]
            Source::Fake(fake) => fake.boot(),
        }
    }

    pub async fn sleep(&self, time: Duration) {
        match &self.0 {
            Source::Real => tokio::time::sleep(time).await,
            #[cfg(feature = "fake")]
            Source::Fake(fake) => fake.sleep_until(fake.boot() + time).await,
        }
    }

    pub async fn sleep_until(&self, when: BootTime) {
        self.sleep(when.since(self.boot())).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_rises_and_the_wall_clock_is_after_2020() {
        let clock = Clock::real();
        let first = clock.boot();
        assert!(clock.boot() >= first);
        assert!(clock.now().secs > 1_577_836_800);
    }

    #[test]
    fn a_negative_duration_is_zero() {
        assert_eq!(BootTime(5).since(BootTime(9)), Duration::ZERO);
        assert_eq!(BootTime(5) + Duration::from_nanos(4), BootTime(9));
    }
}
