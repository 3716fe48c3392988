//! Freezes of clients: a process stops as after SIGSTOP, while its clock, its connections and all other hosts go on.

use super::network::end_isolation;
use super::{millis, pause};
use crate::cluster::simulated_cluster::SimulatedCluster;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::limits::SERVER_TERM;
use std::sync::Arc;
use std::time::Duration;

/// A short freeze ends no session, whatever other faults occur during it.
const SHORT_FREEZE: u64 = 6_000;

/// A long one ends most sessions.
const LONG_FREEZE: u64 = 20_000;

pub(super) async fn inject(cluster: Arc<SimulatedCluster>, random: FakeRandom) {
    loop {
        pause(&cluster, &random, 20_000).await;
        if cluster.is_over() {
            return;
        }
        let number = random.below(cluster.client_hosts.len() as u64) as usize;
        let time = match random.one_in(2) {
            true => SERVER_TERM - Duration::from_secs(4) + millis(&random, LONG_FREEZE),
            false => millis(&random, SHORT_FREEZE),
        };
        freeze(&cluster, number, time).await;
    }
}

async fn freeze(cluster: &Arc<SimulatedCluster>, number: usize, time: Duration) {
    let client_host = &cluster.client_hosts[number];
    if !cluster.fault_record.reserve_client_fault() {
        return; // all clients must stay
    }
    if !client_host.reserve() {
        cluster.fault_record.end_client_fault();
        return; // another fault task has taken it down
    }
    cluster.record(format_args!("c{number} is frozen for {time:?}"));
    cluster.monitor.count(match time > SERVER_TERM {
        true => "freeze of a client beyond its term",
        false => "freeze of a client",
    });
    if time > Duration::from_millis(SHORT_FREEZE) {
        cluster.lose_unsent_bytes();
    }
    let begun = cluster.millis();
    let isolation = cluster.fault_record.client_isolated(number, begun);
    client_host.freeze();
    cluster.sleep(time).await;
    client_host.thaw();
    cluster
        .fault_record
        .isolation_ended(number, isolation, cluster.millis());
    cluster.record(format_args!("c{number} goes on"));
    end_isolation(cluster);
}
