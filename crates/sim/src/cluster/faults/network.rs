//! Faults of the network: connections that break, and partitions.

use super::{millis, pause, span};
use crate::cluster::fault_plan::FaultKind;
use crate::cluster::simulated_cluster::SimulatedCluster;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::limits::{CLIENT_TERM, RENEW_INTERVAL};
use std::sync::Arc;
use std::time::Duration;

/// A network partition of at most this many milliseconds ends no session, whatever other faults occur during it.
const SHORT_PARTITION: u64 = 6_000;

/// Within this time a client learns whether its session has ended, and has a new one if so.
const RECONNECTS_WITHIN: Duration = Duration::from_secs(10);

/// A network partition of this length ends a session.
const LONG_PARTITION: Duration = Duration::from_secs(27);

/// Shorter than the time between the end of a client's term and the end of its session.
const LOSS_INTERVAL: Duration = Duration::from_secs(1);

/// Breaks connections, and partitions hosts for a while.
pub(super) async fn inject(cluster: Arc<SimulatedCluster>, random: FakeRandom) {
    loop {
        pause(&cluster, &random, 8_000).await;
        if cluster.is_over() {
            return;
        }
        let only = cluster.fault_record.plan().only();
        let client = random.below(cluster.client_hosts.len() as u64) as usize;
        let oss = random.below(cluster.osses.len() as u64);
        let metadata = || cluster.metadata.host_names();
        let hosts = match random.below(5) {
            _ if only == Some(FaultKind::LongPartitions) => (format!("c{client}"), metadata()),
            0 | 1 => (format!("c{client}"), metadata()),
            2 | 3 => (format!("c{client}"), vec![format!("oss{oss}")]),
            _ => (format!("oss{oss}"), metadata()),
        };
        if only != Some(FaultKind::LongPartitions) && random.one_in(2) {
            let (one, others) = hosts;
            let other = match others.len() {
                1 => 0,
                several => random.below(several as u64) as usize,
            };
            let other = others[other].clone();
            reset_connections(&cluster, &random, &(one, other)).await;
            continue;
        }
        let isolates_client = hosts.1 == metadata() && hosts.0.starts_with('c');
        if isolates_client && !cluster.fault_record.reserve_client_fault() {
            continue; // all clients must stay
        }
        let isolated = isolates_client.then_some(client);
        partition(&cluster, &random, &hosts, isolated).await;
    }
}

/// Many resets in a row: some of them break the connection while a reply is in transit.
pub(super) async fn reset_connections(
    cluster: &SimulatedCluster,
    random: &FakeRandom,
    (one, other): &(String, String),
) {
    let times = 1 + random.below(25);
    cluster.record(format_args!("{times} resets between {one} and {other}"));
    for _ in 0..times {
        cluster.net.reset(one, other);
        cluster.sleep(millis(random, 40)).await;
    }
}

/// Partitions a host from some others for a while. `isolated`: the client that does not reach the metadata server meanwhile.
async fn partition(
    cluster: &Arc<SimulatedCluster>,
    random: &FakeRandom,
    (one, others): &(String, Vec<String>),
    isolated: Option<usize>,
) {
    let direction = random.below(3);
    let time = match cluster.fault_record.plan().only() {
        Some(FaultKind::LongPartitions) => LONG_PARTITION + millis(random, 10_000),
        Some(_) => millis(random, SHORT_PARTITION),
        None => span(random, 60_000),
    };
    cluster.record(format_args!(
        "partition between {one} and {others:?}, direction {direction}, {time:?}"
    ));
    cluster.monitor.count(match direction {
        0 => "network partition",
        _ => "network partition in one direction",
    });
    for other in others {
        match direction {
            0 => cluster.net.partition(one, other),
            1 => cluster.net.partition_one_way(one, other),
            _ => cluster.net.partition_one_way(other, one),
        }
    }
    if isolated.is_some() && time > Duration::from_millis(SHORT_PARTITION) {
        cluster.lose_unsent_bytes();
    }
    let isolation = isolated.map(|client| {
        let record = &cluster.fault_record;
        (client, record.client_isolated(client, cluster.millis()))
    });
    // The client receives nothing from any server, but its requests still reach the object servers: they arrive after its session
    // has ended.
    let from_all_servers = isolated.is_some() && random.one_in(2);
    let osses = || (0..cluster.osses.len()).map(|oss| format!("oss{oss}"));
    if from_all_servers {
        cluster.monitor.count("client partitioned from all servers");
        osses().for_each(|oss| cluster.net.partition_one_way(one, &oss));
    }
    let sleep = cluster.sleep(time);
    match from_all_servers && time > Duration::from_millis(SHORT_PARTITION) {
        true => lose_writes_of_isolated_client(cluster, sleep).await,
        false => sleep.await,
    }
    if from_all_servers {
        osses().for_each(|oss| cluster.net.heal(one, &oss));
    }
    for other in others {
        cluster.net.heal(one, other);
    }
    if let Some((client, number)) = isolation {
        cluster
            .fault_record
            .isolation_ended(client, number, cluster.millis());
        end_isolation(cluster);
    }
}

/// A client that reaches no server still answers writes until its term ends. Its session ends a little later, and what it has not sent is lost
/// then: at some time between the two.
async fn lose_writes_of_isolated_client(
    cluster: &Arc<SimulatedCluster>,
    sleep: impl Future<Output = ()>,
) {
    let losing = async {
        cluster.sleep(CLIENT_TERM - 2 * RENEW_INTERVAL).await;
        loop {
            cluster.sleep(LOSS_INTERVAL).await;
            cluster.lose_unsent_bytes();
        }
    };
    tokio::select! {
        biased;
        () = sleep => {}
        () = losing => {}
    }
}

/// Counts a client as present again once it must have reconnected.
pub(super) fn end_isolation(cluster: &Arc<SimulatedCluster>) {
    let reconnecting = cluster.clone();
    cluster.spawn("a client reconnects", async move {
        reconnecting.sleep(RECONNECTS_WITHIN).await;
        reconnecting.fault_record.end_client_fault();
    });
}
