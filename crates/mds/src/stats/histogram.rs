//! A histogram of durations in powers of two: two atomic additions a record, no lock.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Bucket `i` counts durations below 2^(i + FIRST) ns that are not in a lower one: 256 ns to 137 s, and one for the rest.
const BUCKETS: usize = 30;
const FIRST: u32 = 8;

#[derive(Default)]
pub struct LatencyHistogram {
    buckets: [AtomicU64; BUCKETS + 1],
    nanos: AtomicU64,
}

/// A histogram at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct HistogramSnapshot {
    pub count: u64,
    /// The sum of all durations.
    pub sum_nanos: u64,
    /// (upper bound in nanoseconds, durations below it and not in an earlier bucket), only buckets that counted.
    /// `u64::MAX` bounds the last.
    pub buckets: Vec<(u64, u64)>,
}

impl LatencyHistogram {
    pub fn record(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bits = u64::BITS - nanos.leading_zeros();
        let bucket = (bits.saturating_sub(FIRST) as usize).min(BUCKETS);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
    }

    /// Not a consistent snapshot while other threads record: sums may be a few records ahead of counts.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let buckets: Vec<(u64, u64)> = self
            .buckets
            .iter()
            .enumerate()
            .map(|(i, count)| (bound(i), count.load(Relaxed)))
            .filter(|(_, count)| *count > 0)
            .collect();
        HistogramSnapshot {
            count: buckets.iter().map(|(_, count)| count).sum(),
            sum_nanos: self.nanos.load(Relaxed),
            buckets,
        }
    }
}

fn bound(bucket: usize) -> u64 {
    if bucket == BUCKETS {
        u64::MAX
    } else {
        1 << (bucket as u32 + FIRST)
    }
}

impl HistogramSnapshot {
    /// A duration that this share (0 to 1) of the records did not exceed, as the upper bound of its bucket; zero if there
    /// are no records.
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bound, count) in &self.buckets {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(*bound);
            }
        }
        Duration::ZERO
    }

    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.sum_nanos.checked_div(self.count).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket_of(nanos: u64) -> u64 {
        let histogram = LatencyHistogram::default();
        histogram.record(Duration::from_nanos(nanos));
        histogram.snapshot().buckets[0].0
    }

    #[test]
    fn a_duration_is_below_its_buckets_bound_and_not_below_the_one_before() {
        assert_eq!(bucket_of(0), 256);
        assert_eq!(bucket_of(255), 256);
        assert_eq!(bucket_of(256), 512);
        assert_eq!(bucket_of(1_000_000), 1 << 20);
        assert_eq!(bucket_of((1 << 37) - 1), 1 << 37);
        assert_eq!(bucket_of(1 << 37), u64::MAX);
    }

    #[test]
    fn quantiles_and_mean_come_from_the_counts() {
        let histogram = LatencyHistogram::default();
        for _ in 0..99 {
            histogram.record(Duration::from_nanos(1_000));
        }
        histogram.record(Duration::from_nanos(1_000_000));
        let seen = histogram.snapshot();
        assert_eq!(seen.quantile(0.5), Duration::from_nanos(1_024));
        assert_eq!(seen.quantile(0.99), Duration::from_nanos(1_024));
        assert_eq!(seen.quantile(1.0), Duration::from_nanos(1 << 20));
        assert_eq!(seen.mean(), Duration::from_nanos(10_990));
        assert_eq!(HistogramSnapshot::default().quantile(0.5), Duration::ZERO);
    }
}
