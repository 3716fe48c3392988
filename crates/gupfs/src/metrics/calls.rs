//! The durations of the client's calls to OSTs.

use super::MetricsText;
use gupfs_client::{CalledServer, Observer, ServerCall};
use gupfs_mds::stats::LatencyHistogram;
use gupfs_proto::OstId;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A row for each OST and kind of call that occurred. No row is removed, so a call needs only a read lock.
#[derive(Default)]
pub struct Calls {
    rows: RwLock<BTreeMap<(OstId, &'static str), Arc<Row>>>,
}

#[derive(Default)]
struct Row {
    refused: AtomicU64,
    took: LatencyHistogram,
}

impl Observer for Calls {
    fn call_finished(&self, call: &ServerCall, took: Duration, succeeded: bool) {
        // The metadata server measures its operations itself.
        let CalledServer::Ost(ost) = call.server else {
            return;
        };
        let row = self.row(ost, call.operation);
        row.took.record(took);
        if !succeeded {
            row.refused.fetch_add(1, Relaxed);
        }
    }
}

impl Calls {
    fn row(&self, ost: OstId, operation: &'static str) -> Arc<Row> {
        if let Some(row) = self.rows.read().get(&(ost, operation)) {
            return row.clone();
        }
        self.rows
            .write()
            .entry((ost, operation))
            .or_default()
            .clone()
    }

    pub fn write(&self, text: &mut MetricsText) {
        let rows: Vec<_> = self
            .rows
            .read()
            .iter()
            .map(|((ost, operation), row)| (ost.to_string(), *operation, row.clone()))
            .collect();
        for (ost, operation, row) in &rows {
            let labels = [("ost", ost.as_str()), ("op", *operation)];
            let help = "Calls that an OST refused.";
            text.counter(
                "gupfs_ost_refusals_total",
                help,
                &labels,
                row.refused.load(Relaxed),
            );
        }
        for (ost, operation, row) in &rows {
            let labels = [("ost", ost.as_str()), ("op", *operation)];
            let seen = row.took.snapshot();
            text.histogram(
                "gupfs_ost_call_seconds",
                "Duration of calls to an OST, measured by the client.",
                &labels,
                seen.buckets.iter().map(|(bound, count)| {
                    (
                        (*bound != u64::MAX).then(|| Duration::from_nanos(*bound)),
                        *count,
                    )
                }),
                Duration::from_nanos(seen.sum_nanos),
            );
        }
    }
}
