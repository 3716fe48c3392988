//! Faults of the object servers: kills, power losses, syncs that fail, and full disks.

use super::clients::start_client;
use super::{crash, fail_sync, millis, pause};
use crate::cluster::call_arguments::{caller, create_mode, no_flags, read_write};
use crate::cluster::fault_plan::FaultKind;
use crate::cluster::fault_record::DiskFault;
use crate::cluster::object_host::HostedTarget;
use crate::cluster::simulated_cluster::SimulatedCluster;
use gupfs_client::AllocateMode;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::Name;
use std::sync::Arc;

/// Most bytes that a program allocates in one call to fill the disks.
const FILL_STEP: u64 = 400_000;

/// `ends_clients`: the seed's plan has faults of clients.
pub(super) async fn inject(cluster: Arc<SimulatedCluster>, random: FakeRandom, ends_clients: bool) {
    let cuts_power = random.one_in(2);
    loop {
        pause(&cluster, &random, 12_000).await;
        if cluster.is_over() {
            return;
        }
        let number = random.below(cluster.osses.len() as u64) as usize;
        let oss = &cluster.osses[number];
        let target = &oss.targets[random.below(oss.targets.len() as u64) as usize];
        let only = cluster.fault_record.plan().only();
        let fault = match only {
            Some(FaultKind::ObjectPower) => 1,
            Some(FaultKind::FullDisk) => 2,
            Some(_) => 3,
            None => random.below(6),
        };
        let cuts_power = cuts_power || only.is_some();
        match fault {
            0 if cuts_power => {
                let report = || {
                    cluster.record(format_args!("a sync of a disk of oss{number} fails"));
                    cluster.monitor.count("failed sync of an object server");
                };
                let fault = (5, DiskFault::ObjectDisk);
                cluster.lose_unsent_bytes();
                fail_sync(&cluster, &random, &target.store.disk, fault, report).await;
                restart(&cluster, number, &random, true).await;
                cluster
                    .fault_record
                    .end_disk_fault(DiskFault::ObjectDisk, cluster.millis());
            }
            1 if cuts_power => lose_power(&cluster, number, &random, ends_clients).await,
            2 if cluster.write_behind && only.is_some() => fill_as_client(&cluster, &random).await,
            // Another program takes space of the disk. Where clients write behind, that may cost them unsent bytes at any time: the space may
            // be reserved.
            2 if !cluster.write_behind => fill_disk(&cluster, number, target, &random).await,
            _ => {
                match random.one_in(4) {
                    true => oss.announce_stop().await,
                    false => crash(&cluster, &oss.disks(), &random).await,
                }
                restart(&cluster, number, &random, false).await;
            }
        }
    }
}

/// The servers' host loses power. In half of the cases a client's host loses power with it, so that the unsynced bytes which
/// the client kept for its write leases are lost, too.
async fn lose_power(
    cluster: &Arc<SimulatedCluster>,
    number: usize,
    random: &FakeRandom,
    ends_clients: bool,
) {
    crash(cluster, &cluster.osses[number].disks(), random).await;
    let client = random.below(2 * cluster.client_hosts.len() as u64) as usize;
    let client_host = cluster.client_hosts.get(client);
    let may_end =
        ends_clients && client_host.is_some() && cluster.fault_record.reserve_client_fault();
    let client_host = client_host.filter(|client_host| may_end && client_host.reserve());
    if may_end && client_host.is_none() {
        cluster.fault_record.end_client_fault();
    }
    if let Some(client_host) = client_host {
        cluster.record(format_args!("c{client} loses power"));
        cluster
            .monitor
            .count("power loss of a client and an object server");
        cluster.lose_unsent_bytes();
        client_host.end().await;
    }
    restart(cluster, number, random, true).await;
    if let Some(client_host) = client_host {
        start_client(cluster, client_host);
    }
}

async fn fill_disk(
    cluster: &SimulatedCluster,
    number: usize,
    target: &HostedTarget,
    random: &FakeRandom,
) {
    cluster.record(format_args!("a disk of oss{number} is nearly full"));
    cluster.monitor.count("full disk");
    cluster
        .fault_record
        .begin_disk_fault(DiskFault::Full, cluster.millis());
    target.store.leave_free(random.below(200_000)).await;
    cluster.sleep(millis(random, 6_000)).await;
    target.store.restore_capacity();
    cluster
        .fault_record
        .end_disk_fault(DiskFault::Full, cluster.millis());
}

/// A program allocates all space of all disks that no session has reserved, and frees it again.
async fn fill_as_client(cluster: &SimulatedCluster, random: &FakeRandom) {
    let (_, client) = cluster.client_hosts[0].wait_for_client().await;
    cluster.record("a program fills all disks");
    cluster.monitor.count("small disks filled by a client");
    (cluster.fault_record).begin_disk_fault(DiskFault::Full, cluster.millis());
    let name = Name::new(format!("filler{}", random.u64()).as_bytes()).expect("a short name");
    let (caller, root) = (caller(), client.root());
    let (mode, open) = (create_mode(), read_write());
    let made = client.create(&caller, root, &name, mode, true, open, no_flags());
    let file = made.await.expect("no fault concerns the metadata server");
    let file = file.file;
    let (mut end, until) = (0, cluster.millis() + 6_000);
    while cluster.millis() < until && !cluster.is_over() {
        let allocate = AllocateMode::Allocate { keep_size: false };
        let len = 1 + random.below(FILL_STEP);
        match client.allocate(&file, allocate, end, len, false).await {
            Ok(()) => end += len,
            Err(_) => cluster.sleep(millis(random, 100)).await,
        }
        for oss in &cluster.osses {
            let checked = oss.check_reserved_space().await;
            checked.expect("reserved space is free");
        }
    }
    let removed = client.unlink(&caller, root, &name).await;
    removed.expect("no fault concerns the metadata server");
    let closed = client.release(file.id()).await;
    cluster.record(format_args!("the program closes {end} bytes: {closed:?}"));
    cluster
        .fault_record
        .end_disk_fault(DiskFault::Full, cluster.millis());
}

async fn restart(cluster: &SimulatedCluster, number: usize, random: &FakeRandom, power_loss: bool) {
    let oss = &cluster.osses[number];
    if power_loss {
        cluster.fault_record.object_power_loss();
        cluster.lose_bytes();
    }
    cluster.record(format_args!("oss{number} ends, power loss: {power_loss}"));
    cluster.monitor.count(match power_loss {
        true => "power loss of an object server",
        false => "kill of an object server",
    });
    oss.end(power_loss).await;
    cluster.sleep(millis(random, 4_000)).await;
    let started = oss.start().await;
    cluster.record(format_args!("oss{number} starts: {started:?}"));
    started.expect("the object server starts when its disks work");
}
