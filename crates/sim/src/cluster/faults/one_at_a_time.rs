//! One fault at a time, in a cluster whose files are mirrored: the next one comes when the former one is over and every stripe has all its
//! members again. So no call may fail, and no answered byte may be lost.

use super::clients::start_client;
use super::network::reset_connections;
use super::{crash, metadata, millis, rot, wait_until};
use crate::cluster::redundancy::{is_whole, resync_status, stale_files, unequal_members};
use crate::cluster::simulated_cluster::SimulatedCluster;
use gupfs_platform::fake::{CallKind, FakeDisk, FakeRandom};
use std::sync::Arc;
use std::time::Duration;

/// Longest absence of a server, and longest partition, in milliseconds: longer than clients wait for a silent member, and shorter than a
/// session lives.
const ABSENCE_MAX: u64 = 12_000;

/// How long a server leaves a client's requests waiting, in milliseconds.
const STALL_MIN: u64 = 10_000;
const STALL_MAX: u64 = 20_000;

/// Clients give a silent member up after 4.5 s.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(5_500);

/// A server's resync begins within this time, in milliseconds.
const RESYNC_BEGINS_WITHIN: u64 = 10_000;

/// Longest time with a full disk, in milliseconds.
const FULL_MAX: u64 = 6_000;

/// In milliseconds, how long a client that is killed may have written what only some servers got.
const LAST_WRITES: u64 = 500;

/// After this time the session of a killed client has ended, and its files have been recovered.
const SESSION_ENDED_AFTER: Duration = Duration::from_secs(26);

/// After a fault clients that write behind have sent what they had, and given up what does not reach a member.
const SETTLED_AFTER: Duration = Duration::from_secs(7);

/// Without a fault, and while programs pause, members become full within this time, in milliseconds.
const WHOLE_WITHIN: u64 = 90_000;

pub(super) async fn inject(cluster: Arc<SimulatedCluster>, random: FakeRandom) {
    let mut last = 0;
    loop {
        // Often at once: what is not durable on members that have just become full is lost.
        let pause = [200, 4_000][random.below(2) as usize];
        cluster.sleep(millis(&random, pause)).await;
        if cluster.is_over() {
            return;
        }
        let number = next_server(&cluster, &random, last);
        last = number;
        match random.below(20) {
            0..8 => fail_server(&cluster, &random, number).await,
            8..10 => partition(&cluster, &random, number).await,
            10..13 => stall(&cluster, &random, number).await,
            13 | 14 => metadata::fail_beside_clients(&cluster, &random).await,
            15..18 => rot::rot_and_repair(&cluster, &random, number).await,
            18 if !cluster.write_behind => kill_client(&cluster, &random).await,
            _ => fill_disk(&cluster, &random, number).await,
        }
        wait_until_whole(&cluster).await;
    }
}

/// Mostly another one than the last time, so that both members of a stripe are lost in turn.
fn next_server(cluster: &SimulatedCluster, random: &FakeRandom, last: usize) -> usize {
    let servers = cluster.osses.len();
    match random.one_in(3) {
        true => random.below(servers as u64) as usize,
        false => (last + 1 + random.below(servers as u64 - 1) as usize) % servers,
    }
}

/// The server is killed or loses power, or a sync of one of its disks fails; it starts again after a while.
async fn fail_server(cluster: &SimulatedCluster, random: &FakeRandom, number: usize) {
    let oss = &cluster.osses[number];
    let disks = oss.disks();
    let fault = random.below(5);
    let power_loss = match fault {
        0 => {
            let disk = &disks[random.below(disks.len() as u64) as usize];
            cluster.record(format_args!("a sync of a disk of oss{number} fails"));
            cluster.fault_record.single_object_failure(true);
            disk.fail_sync(1 + random.below(3));
            let before = disk.counters().failed_syncs;
            let failed = || disk.counters().failed_syncs > before;
            wait_until(cluster, 3_000, failed).await;
            cluster.sleep(millis(random, 3_000)).await;
            true
        }
        1 => {
            crash(cluster, &disks, random).await;
            false
        }
        2 => {
            cluster.osses[number].announce_stop().await;
            cluster.sleep(millis(random, 50)).await;
            false
        }
        _ => {
            crash(cluster, &disks, random).await;
            true
        }
    };
    cluster.record(format_args!("oss{number} ends, power loss: {power_loss}"));
    cluster.monitor.count(match power_loss {
        true => "power loss of an object server",
        false => "kill of an object server",
    });
    let absence = [2_000, ABSENCE_MAX][random.below(2) as usize];
    restart(cluster, number, power_loss, millis(random, absence)).await;
    if random.one_in(3) {
        fail_during_resync(cluster, random, number).await;
    }
}

async fn restart(cluster: &SimulatedCluster, number: usize, power_loss: bool, absence: Duration) {
    let oss = &cluster.osses[number];
    cluster.fault_record.single_object_failure(power_loss);
    oss.end(power_loss).await;
    cluster.sleep(absence).await;
    let started = oss.start().await;
    started.expect("the object server starts when its disks work");
    cluster.record(format_args!("oss{number} starts"));
}

/// The server fails again while its members are brought up to date.
async fn fail_during_resync(cluster: &SimulatedCluster, random: &FakeRandom, number: usize) {
    pause_programs(cluster).await;
    let resyncs = || cluster.monitor.rare_events().times("resync of a member");
    let before = resyncs();
    wait_until(cluster, RESYNC_BEGINS_WITHIN, || resyncs() > before).await;
    for target in &cluster.osses[number].targets {
        let kind = [CallKind::Sync, CallKind::Any][random.below(2) as usize];
        target.store.disk.die_at(kind, 1 + random.below(6));
    }
    let disks = cluster.osses[number].disks();
    wait_until(cluster, 2_000, || disks.iter().any(FakeDisk::is_dead)).await;
    let power_loss = random.one_in(2);
    cluster.record(format_args!(
        "oss{number} ends during a resync, power loss: {power_loss}"
    ));
    restart(cluster, number, power_loss, millis(random, 1_000)).await;
}

/// A client or the metadata server does not reach the object server, or gets nothing from it.
async fn partition(cluster: &SimulatedCluster, random: &FakeRandom, number: usize) {
    let one = match random.below(4) {
        0 => "mds".to_string(),
        _ => format!("c{}", random.below(cluster.client_hosts.len() as u64)),
    };
    let other = format!("oss{number}");
    if random.one_in(4) {
        return reset_connections(cluster, random, &(one, other)).await;
    }
    cluster.fault_record.single_object_failure(false);
    let (direction, time) = (random.below(3), millis(random, ABSENCE_MAX));
    cluster.record(format_args!(
        "partition between {one} and {other}, direction {direction}, {time:?}"
    ));
    match direction {
        0 => cluster.net.partition(&one, &other),
        1 => cluster.net.partition_one_way(&one, &other),
        _ => cluster.net.partition_one_way(&other, &one),
    }
    cluster.sleep(time).await;
    cluster.net.heal(&one, &other);
}

/// The server leaves the requests of one client waiting, and executes them at last. Meanwhile the client gives them up, a resync brings the
/// members up to date, and others write them.
async fn stall(cluster: &Arc<SimulatedCluster>, random: &FakeRandom, number: usize) {
    let client = random.below(cluster.client_hosts.len() as u64) as usize;
    let time = STALL_MIN + random.below(STALL_MAX - STALL_MIN);
    let until = cluster.millis() + time;
    cluster.record(format_args!(
        "oss{number} leaves requests of c{client} waiting for {time} ms"
    ));
    cluster.monitor.count("requests left waiting");
    cluster.fault_record.single_object_failure(false);
    (cluster.monitor).stall(client, number, Duration::from_millis(time));
    cluster.sleep(GIVEN_UP_AFTER).await;
    pause_programs(cluster).await;
    while !stale_files(cluster).is_empty() && cluster.millis() < until {
        cluster.sleep(Duration::from_millis(100)).await;
    }
    cluster.program_pause.end();
    let left = until.saturating_sub(cluster.millis());
    cluster.sleep(Duration::from_millis(left)).await;
}

async fn kill_client(cluster: &Arc<SimulatedCluster>, random: &FakeRandom) {
    let number = random.below(cluster.client_hosts.len() as u64) as usize;
    let client_host = &cluster.client_hosts[number];
    let reserved = cluster.fault_record.reserve_client_fault() && client_host.reserve();
    assert!(reserved, "no other fault concerns a client");
    // Its last writes reach the other servers only.
    let unreached = (random.one_in(2)).then(|| random.below(cluster.osses.len() as u64) as usize);
    if let Some(oss) = unreached {
        cluster.monitor.stall(number, oss, 2 * SESSION_ENDED_AFTER);
        cluster.sleep(millis(random, LAST_WRITES)).await;
    }
    cluster.record(format_args!(
        "c{number} is killed, its last writes have not reached {unreached:?}"
    ));
    cluster.monitor.count("kill of a client");
    client_host.end().await;
    if let Some(oss) = unreached {
        (cluster.monitor).stall(number, oss, Duration::ZERO);
    }
    cluster.sleep(SESSION_ENDED_AFTER).await;
    start_client(cluster, client_host);
    client_host.wait_for_client().await;
}

/// Another program takes the space of a disk for a while.
async fn fill_disk(cluster: &SimulatedCluster, random: &FakeRandom, number: usize) {
    let targets = &cluster.osses[number].targets;
    let target = &targets[random.below(targets.len() as u64) as usize];
    cluster.record(format_args!("a disk of oss{number} is nearly full"));
    cluster.monitor.count("full disk");
    cluster.fault_record.single_object_failure(false);
    target.store.leave_free(random.below(200_000)).await;
    cluster.sleep(millis(random, FULL_MAX)).await;
    target.store.restore_capacity();
}

/// Lets programs pause until all servers serve and no member is stale; then all members are equal.
async fn wait_until_whole(cluster: &Arc<SimulatedCluster>) {
    pause_programs(cluster).await;
    cluster.sleep(SETTLED_AFTER).await;
    let until = cluster.millis() + WHOLE_WITHIN;
    while !is_whole(cluster).await {
        assert!(
            cluster.millis() < until,
            "not all members are full again: {:?}, {:?}",
            stale_files(cluster),
            resync_status(cluster).await
        );
        cluster.sleep(Duration::from_millis(200)).await;
    }
    // Some may be changing at this moment.
    for attempt in 0.. {
        let unequal = unequal_members(cluster).await;
        if unequal.is_empty() {
            break;
        }
        assert!(attempt < 3, "all are full: {unequal:#?}");
        cluster.sleep(Duration::from_secs(1)).await;
    }
    cluster.record("all members are full and equal");
    cluster.program_pause.end();
}

/// Returns when no program is in a call; all have closed their files soon after.
async fn pause_programs(cluster: &SimulatedCluster) {
    let pause = &cluster.program_pause;
    pause.begin();
    while !pause.is_quiet() {
        cluster.sleep(Duration::from_millis(50)).await;
    }
}
