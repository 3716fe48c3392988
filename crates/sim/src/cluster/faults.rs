//! Injects random faults into hosts, disks and connections.

use super::client_host::ClientHost;
use super::fault_plan::FaultKind;
use super::fault_record::{DiskFault, SYNCED_AFTER};
use super::host::Store;
use super::simulated_cluster::SimulatedCluster;
use gupfs_platform::fake::{CallKind, FakeDisk, FakeRandom};
use std::sync::Arc;
use std::time::Duration;

/// Interval at which the fault task checks a disk that is about to die.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Longest time that the start of a server takes when nothing blocks it, in milliseconds.
const START_TIME_MAX: u64 = 5_000;

/// Longest wait until all clients live and reach the metadata server, before the metadata server loses power, in
/// milliseconds.
const WAIT_FOR_CLIENTS: u64 = 20_000;

/// Time without client faults after the start of the metadata server, in milliseconds: by then every client that can
/// reconnect has.
const RECOVERY_TIME: u64 = 40_000;

/// A network partition of at most this many milliseconds ends no session, whatever other faults occur during it.
const SHORT_PARTITION: u64 = 6_000;

/// Within this time a client learns whether its session lives, and has a new session if it does not.
const RECONNECTS_WITHIN: Duration = Duration::from_secs(10);

/// A network partition of this length ends a session.
const LONG_PARTITION: Duration = Duration::from_secs(27);

fn millis(random: &FakeRandom, most: u64) -> Duration {
    Duration::from_micros(1 + random.below(most * 1000))
}

/// A random duration: mostly short, sometimes long.
fn span(random: &FakeRandom, most: u64) -> Duration {
    let scale = [100, 1_000, 10_000, 60_000][random.below(4) as usize];
    Duration::from_millis(100) + millis(random, scale.min(most))
}

/// Sleeps until the next fault. A seed with one kind of fault runs for a shorter time, so the pauses are shorter, too.
async fn pause(cluster: &SimulatedCluster, random: &FakeRandom, most: u64) {
    let most = match cluster.fault_record.plan().only() {
        Some(_) => most / 2,
        None => most,
    };
    cluster.sleep(millis(random, most)).await;
}

/// Starts every kind of fault of the seed's plan, each on a task of its own, until the simulation ends.
pub fn start(
    cluster: &Arc<SimulatedCluster>,
    random: &FakeRandom,
) -> Vec<gupfs_platform::Task<()>> {
    let plan = cluster.fault_record.plan();
    cluster.record(format_args!("{plan:?}"));
    let mut tasks = Vec::new();
    let (one, task_random) = (cluster.clone(), random.fork());
    if plan.has_metadata_faults() {
        tasks.push(cluster.spawn("metadata faults", async move {
            metadata(one, task_random).await
        }));
    }
    let (one, task_random) = (cluster.clone(), random.fork());
    if plan.has_object_faults() {
        tasks.push(cluster.spawn("object faults", async move {
            objects(one, task_random, plan.has_client_faults()).await
        }));
    }
    let (one, task_random) = (cluster.clone(), random.fork());
    if plan.has_net_faults() {
        tasks.push(cluster.spawn("net faults", async move { net(one, task_random).await }));
    }
    let (one, task_random) = (cluster.clone(), random.fork());
    if plan.has_client_faults() {
        tasks.push(cluster.spawn(
            "client faults",
            async move { clients(one, task_random).await },
        ));
    }
    tasks
}

async fn metadata(cluster: Arc<SimulatedCluster>, random: FakeRandom) {
    // In half of the seeds this server never loses power: there the checks of promises about kills allow no exception.
    let cuts_power = random.one_in(2);
    loop {
        pause(&cluster, &random, 16_000).await;
        if cluster.is_over() {
            return;
        }
        let store = &cluster.metadata.store;
        let fault_kind = match cluster.fault_record.plan().only() {
            Some(FaultKind::MetadataPower) => 1,
            Some(_) => 2,
            None => random.below(5),
        };
        match fault_kind {
            0 if cuts_power => {
                let hold_clients = wait_for_clients(&cluster, &random).await;
                cluster
                    .fault_record
                    .begin_disk_fault(DiskFault::MetadataDisk, cluster.millis());
                store.disk.fail_sync(1 + random.below(20));
                let before = store.disk.counters().failed_syncs;
                let failed = || store.disk.counters().failed_syncs > before;
                wait_until(&cluster, 3_000, failed).await;
                cluster.record("a sync of the metadata server's disk fails");
                cluster.monitor.count("failed sync of the metadata server");
                cluster.sleep(millis(&random, 1_000)).await;
                restart_metadata(&cluster, &random, Some(hold_clients)).await;
                cluster
                    .fault_record
                    .end_disk_fault(DiskFault::MetadataDisk, cluster.millis());
                wait_for_recovery(&cluster).await;
            }
            1 if cuts_power || cluster.fault_record.plan().only().is_some() => {
                let hold_clients = wait_for_clients(&cluster, &random).await;
                die(&cluster, &[store], &random).await;
                restart_metadata(&cluster, &random, Some(hold_clients)).await;
                wait_for_recovery(&cluster).await;
            }
            _ => {
                die(&cluster, &[store], &random).await;
                restart_metadata(&cluster, &random, None).await;
            }
        }
    }
}

/// Runs before a power loss of the metadata server: in most cases it waits until all clients live and reach the
/// server, and they do so until `wait_for_recovery`, so that every change the server answered must be there afterwards. Returns
/// false if not.
async fn wait_for_clients(cluster: &SimulatedCluster, random: &FakeRandom) -> bool {
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
    // By now the last changes of dead clients are on the disk.
    cluster.sleep(Duration::from_millis(SYNCED_AFTER)).await;
    true
}

/// Returns when every client that the metadata server waits for has reconnected.
async fn wait_for_recovery(cluster: &SimulatedCluster) {
    let until = cluster.millis() + RECOVERY_TIME;
    while cluster.millis() < until {
        cluster.sleep(Duration::from_millis(200)).await;
        let Some(mds) = cluster.metadata.mds() else {
            continue;
        };
        if mds.status().await.missing.is_empty() {
            break;
        }
    }
    // By now the server has applied the replayed requests and answered them.
    cluster.sleep(Duration::from_secs(1)).await;
    cluster.fault_record.release_clients();
}

async fn objects(cluster: Arc<SimulatedCluster>, random: FakeRandom, ends_clients: bool) {
    let cuts_power = random.one_in(2);
    loop {
        pause(&cluster, &random, 12_000).await;
        if cluster.is_over() {
            return;
        }
        let which = random.below(cluster.osses.len() as u64) as usize;
        let oss = &cluster.osses[which];
        let target = &oss.targets[random.below(oss.targets.len() as u64) as usize];
        let fault_kind = match cluster.fault_record.plan().only() {
            Some(FaultKind::ObjectPower) => 1,
            Some(FaultKind::FullDisk) => 2,
            Some(_) => 3,
            None => random.below(6),
        };
        let cuts_power = cuts_power || cluster.fault_record.plan().only().is_some();
        match fault_kind {
            0 if cuts_power => {
                cluster
                    .fault_record
                    .begin_disk_fault(DiskFault::ObjectDisk, cluster.millis());
                target.store.disk.fail_sync(1 + random.below(5));
                let before = target.store.disk.counters().failed_syncs;
                let failed = || target.store.disk.counters().failed_syncs > before;
                wait_until(&cluster, 3_000, failed).await;
                cluster.record(format_args!("a sync of a disk of oss{which} fails"));
                cluster.monitor.count("failed sync of an object server");
                cluster.sleep(millis(&random, 1_000)).await;
                restart_objects(&cluster, which, &random, true).await;
                cluster
                    .fault_record
                    .end_disk_fault(DiskFault::ObjectDisk, cluster.millis());
            }
            1 if cuts_power => {
                let stores: Vec<&Store> = oss.targets.iter().map(|target| &target.store).collect();
                die(&cluster, &stores, &random).await;
                // In half of the cases a client that shares the power supply fails, too: the unsynced bytes that it
                // kept for its write leases are lost with it.
                let client = random.below(2 * cluster.client_hosts.len() as u64) as usize;
                let client_host = cluster.client_hosts.get(client);
                let may_end = ends_clients
                    && client_host.is_some()
                    && cluster.fault_record.reserve_client_fault();
                let client_host =
                    client_host.filter(|client_host| may_end && client_host.reserve());
                if may_end && client_host.is_none() {
                    cluster.fault_record.end_client_fault();
                }
                if let Some(client_host) = client_host {
                    cluster.record(format_args!("c{client} loses power"));
                    cluster
                        .monitor
                        .count("power loss of a client and an object server");
                    client_host.end().await;
                }
                restart_objects(&cluster, which, &random, true).await;
                if let Some(client_host) = client_host {
                    start_client(&cluster, client_host);
                }
            }
            2 => {
                cluster.record(format_args!("a disk of oss{which} is nearly full"));
                cluster.monitor.count("full disk");
                cluster
                    .fault_record
                    .begin_disk_fault(DiskFault::Full, cluster.millis());
                target.store.leave_free(random.below(200_000)).await;
                cluster.sleep(millis(&random, 6_000)).await;
                target.store.restore_capacity();
                cluster
                    .fault_record
                    .end_disk_fault(DiskFault::Full, cluster.millis());
            }
            _ => {
                let stores: Vec<&Store> = oss.targets.iter().map(|target| &target.store).collect();
                die(&cluster, &stores, &random).await;
                restart_objects(&cluster, which, &random, false).await;
            }
        }
    }
}

/// The process dies at a random call of one of its disks, so also in the middle of an operation.
async fn die(cluster: &SimulatedCluster, stores: &[&Store], random: &FakeRandom) {
    let store = stores[random.below(stores.len() as u64) as usize];
    let kind = match random.below(4) {
        0 => CallKind::Sync,
        1 => CallKind::Any,
        _ => CallKind::Write,
    };
    store.disk.die_at(kind, 1 + random.below(30));
    wait_until(cluster, 2_000, || store.disk.is_dead()).await;
}

async fn wait_until(cluster: &SimulatedCluster, most: u64, there: impl Fn() -> bool) {
    let until = cluster.millis() + most;
    while !there() && cluster.millis() < until {
        cluster.sleep(POLL_INTERVAL).await;
    }
}

/// `power_loss`: None for a kill; for a power loss, whether all clients live and reach the server throughout.
async fn restart_metadata(
    cluster: &SimulatedCluster,
    random: &FakeRandom,
    power_loss: Option<bool>,
) {
    let undoes = power_loss == Some(false);
    let mut power_loss = power_loss.is_some();
    loop {
        if power_loss {
            cluster
                .fault_record
                .metadata_power_loss(cluster.millis(), undoes);
            cluster.lose_names(undoes);
            cluster.monitor.count(match undoes {
                true => "power loss of the metadata server while a client is absent",
                false => "power loss of the metadata server while all clients stay",
            });
        }
        cluster.record(match power_loss {
            true => "the metadata server loses power",
            false => "the metadata server is killed",
        });
        cluster.monitor.count(match power_loss {
            true => "power loss of the metadata server",
            false => "kill of the metadata server",
        });
        cluster.metadata.end(power_loss).await;
        cluster.sleep(millis(random, 4_000)).await;
        let dies = random.one_in(6);
        if dies {
            (cluster.metadata.store.disk).die_at(CallKind::Any, 1 + random.below(120));
        }
        let begun = cluster.millis();
        let started = cluster.metadata.start().await;
        let found = cluster.metadata.mds().map(|mds| mds.recovery().clone());
        cluster.record(format_args!(
            "the metadata server starts: {started:?} {found:?}"
        ));
        if !dies {
            started.expect("the metadata server starts when its disk works");
            let took = cluster.millis() - begun;
            assert!(
                took < START_TIME_MAX,
                "the metadata server took {took} ms to start"
            );
            return;
        }
        wait_until(cluster, 1_000, || cluster.metadata.store.disk.is_dead()).await;
        cluster.monitor.count("crash during recovery");
        power_loss &= random.one_in(2);
    }
}

async fn restart_objects(
    cluster: &SimulatedCluster,
    which: usize,
    random: &FakeRandom,
    power_loss: bool,
) {
    let oss = &cluster.osses[which];
    if power_loss {
        cluster.fault_record.object_power_loss();
        cluster.lose_bytes();
    }
    cluster.record(format_args!("oss{which} ends, power loss: {power_loss}"));
    cluster.monitor.count(match power_loss {
        true => "power loss of an object server",
        false => "kill of an object server",
    });
    oss.end(power_loss).await;
    cluster.sleep(millis(random, 4_000)).await;
    let started = oss.start().await;
    cluster.record(format_args!("oss{which} starts: {started:?}"));
    started.expect("the object server starts when its disks work");
}

/// Breaks connections, and partitions hosts for a while.
async fn net(cluster: Arc<SimulatedCluster>, random: FakeRandom) {
    loop {
        pause(&cluster, &random, 8_000).await;
        if cluster.is_over() {
            return;
        }
        let only = cluster.fault_record.plan().only();
        let client = random.below(cluster.client_hosts.len() as u64) as usize;
        let oss = random.below(cluster.osses.len() as u64);
        let (one, other) = match random.below(5) {
            _ if only == Some(FaultKind::LongPartitions) => {
                (format!("c{client}"), "mds".to_string())
            }
            0 | 1 => (format!("c{client}"), "mds".to_string()),
            2 | 3 => (format!("c{client}"), format!("oss{oss}")),
            _ => (format!("oss{oss}"), "mds".to_string()),
        };
        if only != Some(FaultKind::LongPartitions) && random.one_in(2) {
            // Many resets in a row: some of them break the connection while a reply is in transit.
            let times = 1 + random.below(25);
            cluster.record(format_args!("{times} resets between {one} and {other}"));
            for _ in 0..times {
                cluster.net.reset(&one, &other);
                cluster.sleep(millis(&random, 40)).await;
            }
            continue;
        }
        let concerns_metadata = other == "mds" && one.starts_with('c');
        if concerns_metadata && !cluster.fault_record.reserve_client_fault() {
            continue; // not now
        }
        let way = random.below(3);
        let time = match only {
            Some(FaultKind::LongPartitions) => LONG_PARTITION + millis(&random, 10_000),
            Some(_) => millis(&random, SHORT_PARTITION),
            None => span(&random, 60_000),
        };
        cluster.record(format_args!(
            "partition between {one} and {other}, direction {way}, {time:?}"
        ));
        cluster.monitor.count(match way {
            0 => "network partition",
            _ => "network partition in one direction",
        });
        match way {
            0 => cluster.net.partition(&one, &other),
            1 => cluster.net.partition_one_way(&one, &other),
            _ => cluster.net.partition_one_way(&other, &one),
        }
        if concerns_metadata {
            cluster.fault_record.isolated(client, cluster.millis());
        }
        // The client receives nothing from any server, but its requests still reach the object servers: they arrive
        // after its session has ended.
        let alone = concerns_metadata && random.one_in(2);
        let ways = || (0..cluster.osses.len()).map(|oss| format!("oss{oss}"));
        if alone {
            cluster.monitor.count("client partitioned from all servers");
            ways().for_each(|oss| cluster.net.partition_one_way(&one, &oss));
        }
        cluster.sleep(time).await;
        if alone {
            ways().for_each(|oss| cluster.net.heal(&one, &oss));
        }
        cluster.net.heal(&one, &other);
        if concerns_metadata {
            cluster.fault_record.reconnected(client, cluster.millis());
            let there = cluster.clone();
            cluster.spawn("a client reconnects", async move {
                there.sleep(RECONNECTS_WITHIN).await;
                there.fault_record.end_client_fault();
            });
        }
    }
}

/// Starts the client; it counts as dead until it has a session.
fn start_client(cluster: &Arc<SimulatedCluster>, client_host: &Arc<ClientHost>) {
    client_host.start();
    let (there, client_host) = (cluster.clone(), client_host.clone());
    cluster.spawn("a client starts", async move {
        client_host.wait_for_client().await;
        there.fault_record.end_client_fault();
    });
}

async fn clients(cluster: Arc<SimulatedCluster>, random: FakeRandom) {
    loop {
        pause(&cluster, &random, 30_000).await;
        if cluster.is_over() {
            return;
        }
        let which = random.below(cluster.client_hosts.len() as u64) as usize;
        let client_host = &cluster.client_hosts[which];
        let sets_clock = match cluster.fault_record.plan().only() {
            Some(kind) => kind == FaultKind::Clocks,
            None => random.one_in(3),
        };
        if sets_clock {
            let hosts = cluster
                .client_hosts
                .iter()
                .map(|client_host| &client_host.host);
            let hosts = hosts.chain(cluster.osses.iter().map(|oss| &oss.host));
            let hosts: Vec<_> = hosts.chain([&cluster.metadata.host]).collect();
            let host = hosts[random.below(hosts.len() as u64) as usize];
            let seconds = random.below(7_200) as i64 - 3_600;
            cluster.record(format_args!(
                "the wall clock of {} jumps {seconds} s",
                host.name
            ));
            cluster.monitor.count("clock jump");
            host.shift_wall_clock(seconds);
            continue;
        }
        if !cluster.fault_record.reserve_client_fault() {
            continue; // not now
        }
        if !client_host.reserve() {
            cluster.fault_record.end_client_fault();
            continue; // another fault task has already taken it down
        }
        cluster.record(format_args!("c{which} is killed"));
        cluster.monitor.count("kill of a client");
        client_host.end().await;
        cluster.sleep(span(&random, 30_000)).await;
        start_client(&cluster, client_host);
    }
}

/// Frees disk space and heals all partitions: from here on nothing fails.
pub fn end_all_faults(cluster: &SimulatedCluster) {
    cluster.net.heal_all();
    for (client, _) in cluster.client_hosts.iter().enumerate() {
        cluster.fault_record.reconnected(client, cluster.millis());
    }
    let targets = cluster.osses.iter().flat_map(|oss| &oss.targets);
    targets.for_each(|target| target.store.restore_capacity());
    let stores = cluster.osses.iter().flat_map(|oss| oss.disks());
    let dead = |disk: &FakeDisk| disk.is_dead();
    assert!(
        !stores.into_iter().any(|disk| dead(&disk)),
        "no disk is dead at the end"
    );
}
