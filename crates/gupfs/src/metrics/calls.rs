//! How long the OSTs took for the client: told by the client call by call.

use super::MetricsText;
use gupfs_client::{CalledServer, Observer, ServerCall};
use gupfs_mds::stats::LatencyHistogram;
use gupfs_proto::OstId;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// One row for each OST and kind of call that occurred. Rows are only ever added, so a call takes the lock shared.
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
        // The metadata server counts and times by itself.
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
    fn row(&self, ost: OstId, what: &'static str) -> Arc<Row> {
        if let Some(row) = self.rows.read().get(&(ost, what)) {
            return row.clone();
        }
        self.rows.write().entry((ost, what)).or_default().clone()
    }

    pub fn write(&self, text: &mut MetricsText) {
        let rows: Vec<_> = self
            .rows
            .read()
            .iter()
            .map(|((ost, what), row)| (ost.to_string(), *what, row.clone()))
            .collect();
        for (ost, what, row) in &rows {
            let labels = [("ost", ost.as_str()), ("op", *what)];
            let help = "Calls to an OST that it refused.";
            text.counter(
                "gupfs_ost_refusals_total",
                help,
                &labels,
                row.refused.load(Relaxed),
            );
        }
        for (ost, what, row) in &rows {
            let labels = [("ost", ost.as_str()), ("op", *what)];
            let seen = row.took.snapshot();
            text.histogram(
                "gupfs_ost_call_seconds",
                "How long an OST took to answer, as its client saw it.",
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
