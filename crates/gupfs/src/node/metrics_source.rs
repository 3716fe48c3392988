//! The metrics of all roles of a process.

use super::Parts;
use crate::metrics::{MetricsSource, MetricsText};
use gupfs_client::ClientStatus;
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
            "Always 1; the label is the version.",
            &[("version", env!("CARGO_PKG_VERSION"))],
            1,
        );
        if let Some(mounted) = self.mount.get() {
            mount(text, &mounted.stats());
        }
        if let Some(client) = &self.client {
            client_leases(text, &client.status());
        }
        if let Some(mds) = self.mds.get() {
            metadata(text, &mds.status().await);
        }
        if let Some(oss) = &self.oss {
            let status = oss.status().await;
            targets(text, &status.targets);
            authorizer(text, &status.authorizer);
        }
        self.calls.write(text);
        let oss_connections = self.oss_connections.iter();
        let oss_connections = oss_connections.flat_map(|connections| connections.status());
        connections(
            text,
            self.server.get().map(|server| server.status()).as_ref(),
            &self
                .mds_connection
                .iter()
                .map(|connection| connection.status())
                .chain(oss_connections)
                .collect::<Vec<_>>(),
        );
    }
}

const OPERATIONS: &str = "gupfs_operations_total";
const OPERATIONS_HELP: &str = "Finished operations, including failed ones.";
const REFUSALS: &str = "gupfs_refusals_total";
const REFUSALS_HELP: &str = "Operations that ended with an error.";
const SECONDS: &str = "gupfs_operation_seconds";
const SECONDS_HELP: &str = "Duration of operations.";
const QUEUE: &str = "gupfs_operations_under_way";
const QUEUE_HELP: &str = "Operations in progress.";
const BYTES: &str = "gupfs_bytes_total";
const BYTES_HELP: &str = "Bytes of file data.";

/// The operations of one role: (name, finished, failed).
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
        // Bucket n ends at 2ⁿ⁺¹ µs, the last has no end.
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

fn client_leases(text: &mut MetricsText, client: &ClientStatus) {
    if !client.leases_accepted {
        return;
    }
    let counts = &client.counts;
    for (by, count) in [
        ("lease", counts.lease_hits),
        ("server", counts.lease_misses),
    ] {
        text.counter(
            "gupfs_client_answers_total",
            "Operations that leases on metadata can answer, by who answered them.",
            &[("by", by)],
            count,
        );
    }
    text.counter(
        "gupfs_client_lease_revocations_total",
        "Revocations of leases on metadata.",
        &[],
        counts.lease_revocations,
    );
    text.gauge(
        "gupfs_client_leased_values",
        "Values that leases on metadata let this client answer.",
        &[],
        client.leased_values as u64,
    );
    text.gauge(
        "gupfs_client_kernel_attributes",
        "Inodes whose attributes the kernel may have by leases.",
        &[],
        client.kernel_attributes as u64,
    );
    text.gauge(
        "gupfs_client_kernel_pages",
        "Files of which the kernel may have pages by leases.",
        &[],
        client.kernel_pages as u64,
    );
    text.gauge(
        "gupfs_client_cached_bytes",
        "Bytes of files that the client keeps by leases.",
        &[],
        client.cached_bytes as u64,
    );
    text.gauge(
        "gupfs_client_unsent_bytes",
        "Bytes that programs have written and object servers do not have yet.",
        &[],
        client.unsent_bytes as u64,
    );
    let reserved = client.reservations.iter();
    text.gauge(
        "gupfs_client_reserved_bytes",
        "Space that OSTs keep for bytes which the client sends later.",
        &[],
        reserved.map(|target| target.reserved_bytes).sum(),
    );
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
            "Removed files whose objects are not removed yet.",
            &[],
            purging,
        );
    }
    let scrub = &status.scrub;
    let gauges = [
        (
            "gupfs_scrub_verified_bytes",
            "Bytes that scrubs have verified since the start; each copy counts.",
            scrub.bytes_verified,
        ),
        (
            "gupfs_scrub_repaired_blocks",
            "Damaged blocks that were repaired from another copy since the start.",
            scrub.blocks_repaired,
        ),
        (
            "gupfs_scrub_damaged_objects",
            "Objects with damage that nothing can repair.",
            scrub.damaged,
        ),
    ];
    for (name, help, value) in gauges {
        text.gauge(name, help, &[], value);
    }
    text.gauge(
        "gupfs_mds_sessions",
        "Registered sessions.",
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
    let gauges: [Gauge; 8] = [
        (
            "gupfs_ost_up",
            "1 if the OST serves, 0 if it is down.",
            |target| u64::from(target.state == OstState::Serving),
        ),
        (
            "gupfs_ost_size_bytes",
            "Size of the file system that the OST lies on.",
            |target| target.total,
        ),
        (
            "gupfs_ost_free_bytes",
            "Free space of the file system that the OST lies on.",
            |target| target.free,
        ),
        (
            "gupfs_ost_available_bytes",
            "Space that writes may use.",
            |target| target.available,
        ),
        (
            "gupfs_ost_reserved_bytes",
            "Space that the OST keeps for bytes which clients send later.",
            |target| target.reserved_bytes,
        ),
        ("gupfs_ost_objects", "Number of objects.", |target| {
            target.objects
        }),
        (
            "gupfs_ost_damaged_objects",
            "Objects that are known to be missing or damaged.",
            |target| target.damaged.len() as u64,
        ),
        ("gupfs_ost_under_way", "Operations in progress.", |target| {
            target.served.under_way
        }),
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
                "Operations that the OST executed.",
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
                "Bytes that the OST read and wrote.",
                &[("ost", ost), ("direction", direction)],
                count,
            );
        }
    }
}

fn authorizer(text: &mut MetricsText, status: &AuthorizerStatus) {
    let refused = [
        ("missing", status.missing),
        ("forged", status.forged),
        ("expired", status.expired),
        ("fenced", status.fenced),
        ("rights", status.rights),
    ];
    for (why, count) in refused {
        text.counter(
            "gupfs_capability_refusals_total",
            "Requests of other processes that the OST refused because of their credentials.",
            &[("why", why)],
            count,
        );
    }
    text.counter(
        "gupfs_capabilities_verified_total",
        "Capabilities whose MAC was verified.",
        &[],
        status.verified,
    );
}

fn connections(
    text: &mut MetricsText,
    server: Option<&RpcServerStatus>,
    client_connections: &[ClientConnectionStatus],
) {
    if let Some(server) = server {
        text.gauge(
            "gupfs_connections",
            "Accepted connections.",
            &[],
            server.connections.len() as u64,
        );
        text.gauge(
            "gupfs_strangers",
            "Accepted connections whose handshake is not over.",
            &[],
            server.unauthenticated as u64,
        );
        text.counter(
            "gupfs_turned_away_total",
            "Connections that were rejected in the handshake.",
            &[],
            server.rejected,
        );
        text.counter(
            "gupfs_misspoken_total",
            "Connections that were closed because of an invalid message.",
            &[],
            server.protocol_errors,
        );
        text.counter(
            "gupfs_busy_total",
            "Requests that got the reply busy.",
            &[],
            server.busy,
        );
    }
    for connection in client_connections {
        text.gauge(
            "gupfs_line_up",
            "1 if the connection to the server is established.",
            &[("to", &connection.address)],
            u64::from(connection.connected),
        );
    }
}
