//! The metrics page: every room's numbers under one naming.

use super::Parts;
use crate::metrics::{MetricsSource, MetricsText};
use gupfs_mds::MdsStatus;
use gupfs_mount::MountStats;
use gupfs_oss::AuthorizerStatus;
use gupfs_rpc::{ClientConnectionStatus, RpcServerStatus};
use gupfs_store::object::{OstState, OstStatus};
use std::time::Duration;

impl MetricsSource for Parts {
    async fn write(&self, text: &mut MetricsText) {
        text.gauge(
            "gupfs_info",
            "Always 1; the label tells the version.",
            &[("version", env!("CARGO_PKG_VERSION"))],
            1,
        );
        if let Some(mounted) = self.mount.get() {
            mount(text, &mounted.stats());
        }
        if let Some(mds) = &self.mds {
            metadata(text, &mds.status().await);
        }
        if let Some(oss) = &self.oss {
            let status = oss.status().await;
            targets(text, &status.targets);
            rights(text, &status.authorizer);
        }
        self.calls.write(text);
        let lines = self.lines.iter().flat_map(|lines| lines.status());
        connections(
            text,
            self.server.get().map(|server| server.status()).as_ref(),
            &self
                .line
                .iter()
                .map(|line| line.status())
                .chain(lines)
                .collect::<Vec<_>>(),
        );
    }
}

const OPERATIONS: &str = "gupfs_operations_total";
const OPERATIONS_HELP: &str = "Operations finished, the refused ones among them.";
const REFUSALS: &str = "gupfs_refusals_total";
const REFUSALS_HELP: &str = "Operations that ended with an error.";
const SECONDS: &str = "gupfs_operation_seconds";
const SECONDS_HELP: &str = "How long operations took.";
const QUEUE: &str = "gupfs_operations_under_way";
const QUEUE_HELP: &str = "Operations begun and not finished.";
const BYTES: &str = "gupfs_bytes_total";
const BYTES_HELP: &str = "Bytes of file content.";

/// One role's operations: (name, done, refused).
fn operations(text: &mut MetricsText, role: &str, ops: &[(&str, u64, u64)]) {
    for (op, done, _) in ops {
        text.counter(
            OPERATIONS,
            OPERATIONS_HELP,
            &[("role", role), ("op", op)],
            *done,
        );
    }
    for (op, _, refused) in ops {
        text.counter(
            REFUSALS,
            REFUSALS_HELP,
            &[("role", role), ("op", op)],
            *refused,
        );
    }
}

fn mount(text: &mut MetricsText, stats: &MountStats) {
    let occurred = || stats.ops.iter().filter(|op| op.done > 0);
    let ops: Vec<_> = occurred()
        .map(|op| (op.name, op.done, op.refused))
        .collect();
    operations(text, "mount", &ops);
    for op in occurred() {
        // Bucket n ends at 2ⁿ⁺¹ µs, the last nowhere.
        let last = op.buckets.len() - 1;
        let buckets = op.buckets.iter().enumerate().map(|(n, count)| {
            let end = (n < last).then(|| Duration::from_micros(2 << n));
            (end, *count)
        });
        let labels = [("role", "mount"), ("op", op.name)];
        text.histogram(SECONDS, SECONDS_HELP, &labels, buckets, op.total);
    }
    text.gauge(QUEUE, QUEUE_HELP, &[("role", "mount")], stats.under_way);
    let bytes = [("read", stats.read_bytes), ("written", stats.written_bytes)];
    for (direction, count) in bytes {
        text.counter(
            BYTES,
            BYTES_HELP,
            &[("role", "mount"), ("direction", direction)],
            count,
        );
    }
}

fn metadata(text: &mut MetricsText, status: &MdsStatus) {
    let ops: Vec<_> = status
        .ops
        .iter()
        .map(|op| (op.op, op.done, op.refused))
        .collect();
    operations(text, "mds", &ops);
    for op in &status.ops {
        let buckets = op.latency.buckets.iter().map(|(bound, count)| {
            let end = (*bound != u64::MAX).then(|| Duration::from_nanos(*bound));
            (end, *count)
        });
        let labels = [("role", "mds"), ("op", op.op)];
        let sum = Duration::from_nanos(op.latency.sum_nanos);
        text.histogram(SECONDS, SECONDS_HELP, &labels, buckets, sum);
    }
    text.gauge(QUEUE, QUEUE_HELP, &[("role", "mds")], status.under_way);
    let seqs = [
        ("staged", status.staged),
        ("committed", status.committed),
        ("durable", status.durable),
    ];
    for (state, seq) in seqs {
        text.gauge(
            "gupfs_mds_seq",
            "Number of the newest batch of each state.",
            &[("state", state)],
            seq.0,
        );
    }
    if let Some(inodes) = status.inodes {
        text.gauge("gupfs_mds_inodes", "Inodes in use.", &[], inodes);
    }
    if let Some(purging) = status.purging {
        text.gauge(
            "gupfs_mds_purging",
            "Removed files whose space is not given back yet.",
            &[],
            purging,
        );
    }
    text.gauge(
        "gupfs_mds_sessions",
        "Registered clients.",
        &[],
        status.sessions.len() as u64,
    );
}

fn targets(text: &mut MetricsText, targets: &[OstStatus]) {
    let named: Vec<(String, &OstStatus)> = targets
        .iter()
        .map(|target| (target.ost.to_string(), target))
        .collect();
    type Gauge = (&'static str, &'static str, fn(&OstStatus) -> u64);
    let gauges: [Gauge; 7] = [
        (
            "gupfs_ost_up",
            "1 if it serves, 0 if it is down.",
            |target| u64::from(target.state == OstState::Serving),
        ),
        (
            "gupfs_ost_size_bytes",
            "Size of the file system below.",
            |target| target.total,
        ),
        ("gupfs_ost_free_bytes", "Free there.", |target| target.free),
        (
            "gupfs_ost_available_bytes",
            "What writers may still take.",
            |target| target.available,
        ),
        ("gupfs_ost_objects", "Objects there are.", |target| {
            target.objects
        }),
        (
            "gupfs_ost_damaged_objects",
            "Objects known to be missing or damaged.",
            |target| target.damaged.len() as u64,
        ),
        (
            "gupfs_ost_under_way",
            "Operations begun and not answered.",
            |target| target.served.under_way,
        ),
    ];
    for (name, help, value) in gauges {
        for (ost, target) in &named {
            text.gauge(name, help, &[("ost", ost)], value(target));
        }
    }
    for (ost, target) in &named {
        let served = &target.served;
        let ops = [
            ("read", served.reads),
            ("write", served.writes),
            ("sync", served.syncs),
            ("change", served.changes),
            ("look", served.looks),
        ];
        for (op, count) in ops {
            text.counter(
                "gupfs_ost_operations_total",
                "Operations an OST was asked for.",
                &[("ost", ost), ("op", op)],
                count,
            );
        }
    }
    for (ost, target) in &named {
        let bytes = [
            ("read", target.served.bytes_read),
            ("written", target.served.bytes_written),
        ];
        for (direction, count) in bytes {
            text.counter(
                "gupfs_ost_bytes_total",
                "Bytes an OST read and wrote.",
                &[("ost", ost), ("direction", direction)],
                count,
            );
        }
    }
}

fn rights(text: &mut MetricsText, gate: &AuthorizerStatus) {
    let refused = [
        ("missing", gate.missing),
        ("forged", gate.forged),
        ("expired", gate.expired),
        ("fenced", gate.fenced),
        ("rights", gate.rights),
    ];
    for (why, count) in refused {
        text.counter(
            "gupfs_capability_refusals_total",
            "Requests of other processes that showed no right to what they asked.",
            &[("why", why)],
            count,
        );
    }
    text.counter(
        "gupfs_capabilities_verified_total",
        "Capabilities and passes that were verified, and are known since.",
        &[],
        gate.verified,
    );
}

fn connections(
    text: &mut MetricsText,
    server: Option<&RpcServerStatus>,
    lines: &[ClientConnectionStatus],
) {
    if let Some(server) = server {
        text.gauge(
            "gupfs_connections",
            "Processes that are connected to this one.",
            &[],
            server.connections.len() as u64,
        );
        text.gauge(
            "gupfs_strangers",
            "Connections that have proved nothing yet.",
            &[],
            server.unauthenticated as u64,
        );
        text.counter(
            "gupfs_turned_away_total",
            "Connections that were not let in.",
            &[],
            server.rejected,
        );
        text.counter(
            "gupfs_misspoken_total",
            "Connections that were ended because what came is no message.",
            &[],
            server.protocol_errors,
        );
        text.counter(
            "gupfs_busy_total",
            "Questions answered with busy.",
            &[],
            server.busy,
        );
    }
    for line in lines {
        text.gauge(
            "gupfs_line_up",
            "1 if the server at the other end is connected.",
            &[("to", &line.address)],
            u64::from(line.connected),
        );
    }
}
