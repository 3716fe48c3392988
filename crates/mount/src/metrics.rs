//! Metrics of FUSE requests: count, errors, latency.

use crate::fuse_op::{ALL_OPS, FuseOp};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of the histogram: [2ⁿ, 2ⁿ⁺¹) microseconds, the first from 0, the last without an upper bound (above 2 minutes).
pub const BUCKETS: usize = 28;

/// Lock-free counters, one set for each operation.
pub struct OpMetrics {
    ops: [OpCounters; ALL_OPS.len()],
    pub read_bytes: AtomicU64,
    pub written_bytes: AtomicU64,
    under_way: AtomicU64,
}

#[derive(Default)]
struct OpCounters {
    done: AtomicU64,
    refused: AtomicU64,
    nanos: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for OpMetrics {
    fn default() -> OpMetrics {
        OpMetrics {
            ops: std::array::from_fn(|_| OpCounters::default()),
            read_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
        }
    }
}

/// One operation's figures.
#[derive(Clone, Debug)]
pub struct OpStats {
    pub name: &'static str,
    pub done: u64,
    pub refused: u64,
    pub total: Duration,
    /// Count of each bucket; bucket n ends at 2ⁿ⁺¹ µs.
    pub buckets: [u64; BUCKETS],
}

#[derive(Clone, Debug)]
pub struct MountStats {
    pub ops: Vec<OpStats>,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Requests in progress.
    pub under_way: u64,
}

impl OpMetrics {
    pub(crate) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self, op: FuseOp, took: Duration, refused: bool) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        let row = &self.ops[op as usize];
        row.done.fetch_add(1, Ordering::Relaxed);
        if refused {
            row.refused.fetch_add(1, Ordering::Relaxed);
        }
        row.nanos
            .fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
        row.buckets[bucket_of(took)].fetch_add(1, Ordering::Relaxed);
    }

    pub fn stats(&self) -> MountStats {
        let ops = ALL_OPS
            .iter()
            .zip(&self.ops)
            .map(|((_, name), row)| OpStats {
                name,
                done: row.done.load(Ordering::Relaxed),
                refused: row.refused.load(Ordering::Relaxed),
                total: Duration::from_nanos(row.nanos.load(Ordering::Relaxed)),
                buckets: std::array::from_fn(|bucket| row.buckets[bucket].load(Ordering::Relaxed)),
            })
            .collect();
        MountStats {
            ops,
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            under_way: self.under_way.load(Ordering::Relaxed),
        }
    }
}

fn bucket_of(took: Duration) -> usize {
    let micros = took.as_micros() as u64;
    (micros.max(1).ilog2() as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_falls_into_the_bucket_of_its_power_of_two() {
        let at = |micros| bucket_of(Duration::from_micros(micros));
        assert_eq!(
            [at(0), at(1), at(2), at(3), at(4), at(1 << 40)],
            [0, 0, 1, 1, 2, BUCKETS - 1]
        );
    }

    #[test]
    fn stats_return_the_counters() {
        let metrics = OpMetrics::default();
        metrics.begin();
        metrics.end(FuseOp::Lookup, Duration::from_micros(5), true);
        let stats = metrics.stats();
        assert_eq!(
            (stats.ops[0].done, stats.ops[0].refused, stats.under_way),
            (1, 1, 0)
        );
        assert_eq!(stats.ops[0].buckets[2], 1);
    }
}
