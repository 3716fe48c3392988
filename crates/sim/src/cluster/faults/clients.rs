//! Faults of the clients' hosts: kills of clients, and jumps of wall clocks.

use super::{pause, span};
use crate::cluster::client_host::ClientHost;
use crate::cluster::fault_plan::FaultKind;
use crate::cluster::simulated_cluster::SimulatedCluster;
use gupfs_platform::fake::FakeRandom;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// Starts the client; it counts as absent until it has a session.
pub(super) fn start_client(cluster: &Arc<SimulatedCluster>, client_host: &Arc<ClientHost>) {
    client_host.start();
    let (cluster_of_task, client_host) = (cluster.clone(), client_host.clone());
    cluster.spawn("a client starts", async move {
        client_host.wait_for_client().await;
        cluster_of_task.fault_record.end_client_fault();
    });
}

pub(super) async fn inject(cluster: Arc<SimulatedCluster>, random: FakeRandom) {
    loop {
        pause(&cluster, &random, 30_000).await;
        if cluster.is_over() {
            return;
        }
        let number = random.below(cluster.client_hosts.len() as u64) as usize;
        let client_host = &cluster.client_hosts[number];
        let sets_clock = match cluster.fault_record.plan().only() {
            Some(kind) => kind == FaultKind::Clocks,
            None => random.one_in(3),
        };
        if sets_clock {
            set_clock(&cluster, &random);
            continue;
        }
        if !cluster.fault_record.reserve_client_fault() {
            continue; // all clients must stay
        }
        if !client_host.reserve() {
            cluster.fault_record.end_client_fault();
            continue; // another fault task has already taken it down
        }
        cluster.record(format_args!("c{number} is killed"));
        cluster.monitor.count("kill of a client");
        cluster.lose_unsent_bytes();
        client_host.end().await;
        cluster.sleep(span(&random, 30_000)).await;
        start_client(&cluster, client_host);
    }
}

/// Shifts the wall clock of a random host.
fn set_clock(cluster: &SimulatedCluster, random: &FakeRandom) {
    let clients = cluster.client_hosts.iter();
    let hosts = clients.map(|client_host| &client_host.host);
    let hosts = hosts.chain(cluster.osses.iter().map(|oss| &oss.host));
    let hosts: Vec<_> = hosts.chain(cluster.metadata.hosts()).collect();
    let host = hosts[random.below(hosts.len() as u64) as usize];
    if cluster.metadata.host_names().contains(&host.name) {
        cluster.is_metadata_clock_set.store(true, SeqCst);
    }
    let seconds = random.below(7_200) as i64 - 3_600;
    cluster.record(format_args!(
        "the wall clock of {} jumps {seconds} s",
        host.name
    ));
    cluster.monitor.count("clock jump");
    host.shift_wall_clock(seconds);
}
