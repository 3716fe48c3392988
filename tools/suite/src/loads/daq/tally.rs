//! The counters of a worker, and its end.

use std::time::{Duration, Instant};

use super::args::Daq;
use crate::error::SuiteResult;
use crate::latency::{Histogram, Laps};
use crate::step::Work;
use crate::stop_flag::StopFlag;

/// The counters of a worker, and its end.
pub struct Tally<'a> {
    from: Instant,
    end: Instant,
    laps: Laps<'a>,
    bytes: u64,
    waited: Duration,
}

/// How long to wait before looking again whether another worker has done its part.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

impl Tally<'_> {
    pub fn start<'a>(args: &Daq, halt: &'a StopFlag) -> Tally<'a> {
        let now = Instant::now();
        Tally {
            from: now + Duration::from_secs_f64(args.warm_up()),
            end: now + Duration::from_secs_f64(args.seconds),
            laps: Laps::start(halt),
            bytes: 0,
            waited: Duration::ZERO,
        }
    }

    pub fn over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// A record was moved, since the last or since [`Tally::skip`].
    pub fn count(&mut self, bytes: u64) -> SuiteResult<()> {
        self.laps.lap()?;
        let now = Instant::now();
        if now >= self.from && now < self.end {
            self.bytes += bytes;
        }
        Ok(())
    }

    /// The time until now was not spent on moving a record.
    pub fn skip(&mut self) {
        self.laps.skip();
    }

    /// Until what is asked for is so, or all is over: whether it is so.
    pub fn wait_until(&mut self, mut is: impl FnMut() -> SuiteResult<bool>) -> SuiteResult<bool> {
        let begun = Instant::now();
        let so = loop {
            if is()? {
                break true;
            }
            if self.over() {
                break false;
            }
            self.laps.check()?;
            std::thread::sleep(LOOK_AGAIN);
        };
        let counted = Instant::now().saturating_duration_since(begun.max(self.from));
        self.waited += counted;
        self.laps.skip();
        Ok(so)
    }

    /// Sleeps until a moment, or until all is over.
    pub fn sleep_until(&mut self, moment: Instant) {
        std::thread::sleep(
            moment
                .min(self.end)
                .saturating_duration_since(Instant::now()),
        );
        self.laps.skip();
    }

    pub fn work(self) -> Work {
        let latencies: Histogram = self.laps.histogram;
        Work {
            bytes: self.bytes,
            latencies,
            waited: self.waited,
        }
    }
}
