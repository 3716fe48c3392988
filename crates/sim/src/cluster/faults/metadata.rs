//! Faults of the metadata server: kills, power losses, and a sync that fails.

use super::{crash, fail_sync, millis, pause, wait_until};
use crate::cluster::fault_plan::FaultKind;
use crate::cluster::fault_record::{DiskFault, SYNCED_AFTER};
use crate::cluster::metadata_host::MetadataHost;
use crate::cluster::simulated_cluster::SimulatedCluster;
use gupfs_platform::fake::{CallKind, FakeRandom};
use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

/// Longest time that the start of a server takes if no fault delays it, in milliseconds.
const START_TIME_MAX: u64 = 5_000;

/// Longest wait, before a power loss of the metadata server, until all clients live and reach it, in milliseconds.
const WAIT_FOR_CLIENTS: u64 = 20_000;

/// Time without client faults after a start of the metadata server, in milliseconds. Within it every client that can reconnect
/// has done so.
const RECOVERY_TIME: u64 = 40_000;

pub(super) async fn inject(cluster: Arc<SimulatedCluster>, random: FakeRandom) {
    let store = &single(&cluster).store;
    // In half of the seeds this server never loses power. There the checks of promises about kills need no exception.
    let cuts_power = random.one_in(2);
    loop {
        pause(&cluster, &random, 16_000).await;
        if cluster.is_over() {
            return;
        }
        let only = cluster.fault_record.plan().only();
        let fault = match only {
            Some(FaultKind::MetadataPower) => 1,
            Some(_) => 2,
            None => random.below(5),
        };
        match fault {
            0 if cuts_power => {
                let clients_stay = wait_for_clients(&cluster, &random).await;
                let report = || {
                    cluster.record("a sync of the metadata server's disk fails");
                    cluster.monitor.count("failed sync of the metadata server");
                };
                let fault = (20, DiskFault::MetadataDisk);
                fail_sync(&cluster, &random, &store.disk, fault, report).await;
                restart(&cluster, &random, Some(clients_stay)).await;
                cluster
                    .fault_record
                    .end_disk_fault(DiskFault::MetadataDisk, cluster.millis());
                wait_for_recovery(&cluster).await;
            }
            1 if cuts_power || only.is_some() => {
                let clients_stay = wait_for_clients(&cluster, &random).await;
                crash(&cluster, from_ref(&store.disk), &random).await;
                restart(&cluster, &random, Some(clients_stay)).await;
                wait_for_recovery(&cluster).await;
            }
            _ => {
                crash(&cluster, from_ref(&store.disk), &random).await;
                restart(&cluster, &random, None).await;
            }
        }
    }
}

/// The server is killed or loses power while all clients live and reach it; returns when it serves them again.
pub(super) async fn fail_beside_clients(cluster: &SimulatedCluster, random: &FakeRandom) {
    let loses_power = random.one_in(2);
    if loses_power {
        assert!(cluster.fault_record.hold_clients(), "all clients live");
        cluster.sleep(Duration::from_millis(SYNCED_AFTER)).await;
    }
    crash(cluster, from_ref(&single(cluster).store.disk), random).await;
    restart(cluster, random, loses_power.then_some(true)).await;
    wait_for_recovery(cluster).await;
}

fn single(cluster: &SimulatedCluster) -> &MetadataHost {
    let single = cluster.metadata.single();
    single.expect("these faults are of a metadata server without copies")
}

/// Called before a power loss of the metadata server. In most cases it waits until all clients live and reach the server, and
/// keeps that so until `wait_for_recovery`; then every answered change must survive. Returns false if a client may be absent.
pub(super) async fn wait_for_clients(cluster: &SimulatedCluster, random: &FakeRandom) -> bool {
    if cluster.fault_record.plan().only().is_none() && random.one_in(4) {
        return false;
    }
    let until = cluster.millis() + WAIT_FOR_CLIENTS;
    while !cluster.fault_record.hold_clients() {
        if cluster.millis() >= until || cluster.is_over() {
            return false;
        }
        cluster.sleep(Duration::from_millis(50)).await;
    }
    // After this time the last changes of dead clients are on the disk.
    cluster.sleep(Duration::from_millis(SYNCED_AFTER)).await;
    true
}

/// Returns when every client that the metadata server waits for has reconnected.
pub(super) async fn wait_for_recovery(cluster: &SimulatedCluster) {
    let until = cluster.millis() + RECOVERY_TIME;
    while cluster.millis() < until {
        cluster.sleep(Duration::from_millis(200)).await;
        let Some(mds) = cluster.metadata.mds() else {
            continue;
        };
        // One that ends meanwhile has no reply.
        let status = tokio::time::timeout(Duration::from_secs(1), mds.status()).await;
        if status.is_ok_and(|status| status.missing.is_empty()) {
            break;
        }
    }
    // After this time the server has applied the replayed requests and answered them.
    cluster.sleep(Duration::from_secs(1)).await;
    cluster.fault_record.release_clients();
}

/// Ends the server and starts it again. `power_loss`: None for a kill; for a power loss, whether all clients live and reach the
/// server throughout.
async fn restart(cluster: &SimulatedCluster, random: &FakeRandom, power_loss: Option<bool>) {
    let server = single(cluster);
    let undoes = power_loss == Some(false);
    let mut power_loss = power_loss.is_some();
    loop {
        if power_loss {
            cluster.note_metadata_power_loss(cluster.millis(), undoes);
        }
        cluster.record(match power_loss {
            true => "the metadata server loses power",
            false => "the metadata server is killed",
        });
        cluster.monitor.count(match power_loss {
            true => "power loss of the metadata server",
            false => "kill of the metadata server",
        });
        server.end(power_loss).await;
        cluster.sleep(millis(random, 4_000)).await;
        let crashes = random.one_in(6);
        if crashes {
            (server.store.disk).die_at(CallKind::Any, 1 + random.below(120));
        }
        let started_at = cluster.millis();
        let started = server.start().await;
        let recovery = cluster.metadata.mds().map(|mds| mds.recovery().clone());
        cluster.record(format_args!(
            "the metadata server starts: {started:?} {recovery:?}"
        ));
        if !crashes {
            started.expect("the metadata server starts when its disk works");
            let took = cluster.millis() - started_at;
            assert!(
                took < START_TIME_MAX,
                "the metadata server took {took} ms to start"
            );
            return;
        }
        wait_until(cluster, 1_000, || server.store.disk.is_dead()).await;
        cluster.monitor.count("crash during recovery");
        power_loss &= random.one_in(2);
    }
}
