//! Latencies of single operations.
//!
//! A histogram whose steps are a thirty-second of a power of two: a value is known within 3 %, and to count one takes a few
//! instructions, beside the reading of the clock.

use std::fmt;
use std::time::{Duration, Instant};

use crate::error::SuiteResult;
use crate::stop_flag::StopFlag;

/// Steps in each power of two, as a power of two.
const FINE: u32 = 5;
/// 0..64 one by one, then 32 for each power of two up to 2⁶⁴.
const STEPS: usize = (65 - FINE as usize) << FINE;

/// Counts of nanoseconds.
#[derive(Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    longest: u64,
}

/// The summary of a histogram. Times are seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Latencies {
    pub operations: u64,
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// The columns of `table`.
impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:>9}", self.operations)?;
        for seconds in [self.p50, self.p99, self.p999, self.max] {
            write!(f, " {:>10.1}", seconds * 1e6)?;
        }
        Ok(())
    }
}

/// The last table of a report, names as wide as they may be: one row for each kind of operation.
///
/// # Errors
///
/// The formatter's own.
pub fn table<N: fmt::Display>(
    f: &mut fmt::Formatter,
    width: usize,
    rows: impl IntoIterator<Item = (N, Latencies)>,
) -> fmt::Result {
    let columns = "   number   p50 (us)   p99 (us) p99.9 (us)   max (us)";
    writeln!(f, "\n{:<width$} {columns}", "OPERATIONS")?;
    for (name, latencies) in rows {
        writeln!(f, "{:<width$} {latencies}", name.to_string())?;
    }
    Ok(())
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: vec![0; STEPS],
            longest: 0,
        }
    }
}

fn step_of(nanos: u64) -> usize {
    let shift = (63 - (nanos | 1).leading_zeros()).saturating_sub(FINE);
    ((shift as usize) << FINE) + (nanos >> shift) as usize
}

/// The smallest number of nanoseconds in a step.
fn start_of(step: usize) -> u64 {
    let shift = (step >> FINE).saturating_sub(1);
    ((step - (shift << FINE)) as u64) << shift
}

impl Histogram {
    pub fn record(&mut self, time: Duration) {
        let nanos = time.as_nanos() as u64;
        self.counts[step_of(nanos)] += 1;
        self.longest = self.longest.max(nanos);
    }

    pub fn add(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.longest = self.longest.max(other.longest);
    }

    pub fn operations(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The time that a share of the operations did not exceed, in seconds: the start of its step, within 3 %.
    pub fn quantile(&self, share: f64) -> f64 {
        let wanted = (self.operations() as f64 * share).ceil().max(1.0) as u64;
        let mut passed = 0;
        for (step, count) in self.counts.iter().enumerate() {
            passed += count;
            if passed >= wanted {
                return start_of(step) as f64 / 1e9;
            }
        }
        0.0
    }

    pub fn summary(&self) -> Latencies {
        Latencies {
            operations: self.operations(),
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
            max: self.longest as f64 / 1e9,
        }
    }

    /// Steps that have counts, for a message between processes.
    pub fn pack(&self) -> PackedHistogram {
        let steps = self.counts.iter().enumerate();
        PackedHistogram {
            steps: steps
                .filter(|(_, count)| **count > 0)
                .map(|(step, count)| (step, *count))
                .collect(),
            longest: self.longest,
        }
    }
}

/// A histogram on its way to another process.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct PackedHistogram {
    steps: Vec<(usize, u64)>,
    longest: u64,
}

/// One histogram of all that were sent.
pub fn merge<'a>(all: impl IntoIterator<Item = &'a PackedHistogram>) -> Histogram {
    let mut sum = Histogram::default();
    for packed in all {
        for (step, count) in &packed.steps {
            sum.counts[*step] += count;
        }
        sum.longest = sum.longest.max(packed.longest);
    }
    sum
}

/// Times one operation after the other with one look at the clock each: the end of one is the start of the next.
pub struct Laps<'a> {
    halt: &'a StopFlag,
    last: Instant,
    pub histogram: Histogram,
}

impl Laps<'_> {
    /// Starts the clock of a worker that works until its end, or until the flag is raised.
    pub fn start(halt: &StopFlag) -> Laps<'_> {
        let histogram = Histogram::default();
        let last = Instant::now();
        Laps {
            halt,
            last,
            histogram,
        }
    }

    /// The time until now belongs to no operation.
    pub fn skip(&mut self) {
        self.last = Instant::now();
    }

    /// An operation is over. An error if there shall be no other.
    ///
    /// # Errors
    ///
    /// Another worker failed: this one shall stop.
    pub fn lap(&mut self) -> SuiteResult<()> {
        let now = Instant::now();
        self.histogram.record(now - self.last);
        self.last = now;
        self.check()
    }

    /// An error if there shall be no operation any more.
    ///
    /// # Errors
    ///
    /// Another worker failed: this one shall stop.
    pub fn check(&self) -> SuiteResult<()> {
        self.halt.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_starts_at_or_closely_below_each_of_its_values() {
        let mut last = 0;
        for power in 0..64 {
            for nanos in [1u64 << power, (1u64 << power) | ((1u64 << power) / 3)] {
                let step = step_of(nanos);
                let start = start_of(step);
                assert!(start <= nanos && nanos - start <= nanos / 32, "{nanos}");
                assert!(step >= last && step < STEPS);
                last = step;
            }
        }
        assert!(step_of(u64::MAX) < STEPS);
    }

    #[test]
    fn quantiles_are_those_of_the_times_counted() {
        let mut histogram = Histogram::default();
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        let said = merge([&histogram.pack()]).summary();
        assert_eq!(said.operations, 1000);
        for (found, expected) in [(said.p50, 500e-6), (said.p99, 990e-6), (said.p999, 999e-6)] {
            assert!((found / expected - 1.0).abs() < 0.032, "{found} {expected}");
        }
        assert_eq!(said.max, 1e-3);
    }
}
