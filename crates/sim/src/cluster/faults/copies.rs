//! Faults of the hosts that have the metadata: kills, power losses, freezes, orderly stops, lost directories.
//!
//! While a copy that counts keeps its memory nothing that was answered is lost, so none of them excuses the failure of a call.

use super::copy_links::{LinkFaults, copies};
use super::metadata::{wait_for_clients, wait_for_recovery};
use super::{copy_links, crash, millis, pause, wait_until};
use crate::cluster::metadata_copies::{COPIES, CopyHost, SeenMembership};
use crate::cluster::simulated_cluster::SimulatedCluster;
use gupfs_copies::Standing;
use gupfs_platform::Task;
use gupfs_platform::fake::FakeRandom;
use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

/// Longest time of a freeze, in milliseconds: a copy takes over during a long one.
const FREEZE_MAX: u64 = 12_000;

/// Longest absence of a host while another one that counts lives, and of others, in milliseconds.
const ABSENCE_MAX: u64 = 15_000;
const SHORT_ABSENCE: u64 = 2_000;

/// An orderly stop asks all clients for their leases.
const STOP_MAX: u64 = 15_000;

/// Within this time a disk of a copy that counts syncs, in milliseconds.
const SYNC_FAILS_WITHIN: u64 = 3_000;

/// More syncs than any seed has.
const NEVER: u64 = 1 << 40;

/// Longest wait until all copies count, in milliseconds: before a power loss of all, and when all faults are over.
const WHOLE_WITHIN: u64 = 20_000;
const HEALED_WITHIN: u64 = 120_000;

const COUNT_INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn start(cluster: &Arc<SimulatedCluster>, random: &FakeRandom) -> Vec<Task<()>> {
    let links = Arc::new(LinkFaults::default());
    let counted = cluster.clone();
    let counts = cluster.spawn("counts of copies", async move { count(counted).await });
    let (faulty, of_hosts, host_links) = (cluster.clone(), random.fork(), links.clone());
    let hosts = cluster.spawn("faults of copies", async move {
        inject(faulty, of_hosts, host_links).await
    });
    let mut tasks = copy_links::start(cluster, random, &links);
    tasks.extend([counts, hosts]);
    tasks
}

async fn count(cluster: Arc<SimulatedCluster>) {
    let mut seen = SeenMembership::default();
    while !cluster.is_over() {
        seen.look(copies(&cluster), &cluster.monitor);
        cluster.sleep(COUNT_INTERVAL).await;
    }
}

async fn inject(cluster: Arc<SimulatedCluster>, random: FakeRandom, links: Arc<LinkFaults>) {
    let copies = copies(&cluster);
    loop {
        pause(&cluster, &random, 14_000).await;
        if cluster.is_over() {
            break;
        }
        restart_left_out(&cluster).await;
        let any = &copies.hosts[random.below(COPIES as u64) as usize];
        let host = match copies.owner() {
            Some((owner, _)) if random.one_in(2) => owner,
            _ => any,
        };
        match random.below(16) {
            0..=2 => kill(&cluster, &random, host, false).await,
            3 | 4 => kill(&cluster, &random, host, true).await,
            5..=7 => freeze(&cluster, &random, host).await,
            8 | 9 => stop_owner(&cluster, &random).await,
            10 | 11 => lose_directory(&cluster, &random, host).await,
            12 | 13 => fail_sync_of(&cluster, &random, host).await,
            14 => {
                // Two at nearly the same time.
                kill(&cluster, &random, host, false).await;
                kill(&cluster, &random, any, false).await;
            }
            _ => lose_all(&cluster, &random, &links).await,
        }
    }
    links.wait_until_over(&cluster).await;
    let until = cluster.millis() + HEALED_WITHIN;
    while !copies.is_whole() || copies.hosts.iter().any(|host| host.is_reserved()) {
        let states = || copies.describe();
        assert!(
            cluster.millis() < until,
            "copies stay away: {:#?}",
            states()
        );
        restart_left_out(&cluster).await;
        cluster.sleep(COUNT_INTERVAL).await;
    }
}

/// An administrator starts processes again that were left out because they were slow.
async fn restart_left_out(cluster: &SimulatedCluster) {
    let copies = copies(cluster);
    let register = (copies.owner()).and_then(|(owner, _)| owner.process()?.copy.register());
    let left_out = register.iter().flat_map(|register| &register.members);
    let left_out = left_out.filter(|member| member.standing == Standing::LeftOut);
    for member in left_out {
        let mut hosts = copies.hosts.iter();
        let host = hosts.find(|host| {
            let process = host.process();
            process.is_some_and(|process| process.copy.host().state().run == member.run)
        });
        if let Some(host) = host
            && host.reserve()
        {
            let name = &host.host.name;
            cluster.record(format_args!("{name} was left out: started again"));
            cluster.monitor.count("copy left out");
            host.end(false).await;
            host.start().await;
            host.release();
        }
    }
}

/// Whether another process that counts runs.
fn another_counts(cluster: &SimulatedCluster, host: &CopyHost) -> bool {
    let counting = copies(cluster).counting().into_iter();
    let mut others = counting.filter(|other| other.number != host.number);
    others.any(|other| !other.is_reserved())
}

async fn kill(
    cluster: &Arc<SimulatedCluster>,
    random: &FakeRandom,
    host: &Arc<CopyHost>,
    with_power: bool,
) {
    if !host.reserve() {
        return;
    }
    if random.one_in(2) {
        crash(cluster, from_ref(&host.store.disk), random).await;
    }
    let another_counts = another_counts(cluster, host);
    let loses_power = with_power && another_counts;
    cluster.record(format_args!(
        "{} is killed, power loss: {loses_power}",
        host.host.name
    ));
    cluster.monitor.count(match loses_power {
        true => "power loss of a copy",
        false => "kill of a copy",
    });
    host.end(loses_power).await;
    restart_later(cluster, random, (host, another_counts));
}

/// Starts a process on the host after a while, and releases the host.
fn restart_later(
    cluster: &Arc<SimulatedCluster>,
    random: &FakeRandom,
    (host, another_counts): (&Arc<CopyHost>, bool),
) {
    let most = match another_counts {
        true => [1, 3_000, ABSENCE_MAX][random.below(3) as usize],
        false => SHORT_ABSENCE,
    };
    let (cluster_of_task, host, absence) = (cluster.clone(), host.clone(), millis(random, most));
    cluster.spawn("a copy starts", async move {
        cluster_of_task.sleep(absence).await;
        cluster_of_task.record(format_args!("{} starts", host.host.name));
        host.start().await;
        host.release();
    });
}

async fn freeze(cluster: &SimulatedCluster, random: &FakeRandom, host: &CopyHost) {
    if !host.reserve() {
        return;
    }
    let most = [2_000, FREEZE_MAX, FREEZE_MAX][random.below(3) as usize];
    let time = millis(random, most);
    cluster.record(format_args!("{} is frozen for {time:?}", host.host.name));
    cluster.monitor.count("freeze of a copy");
    host.freeze();
    cluster.sleep(time).await;
    host.thaw();
    host.release();
    cluster.record(format_args!("{} goes on", host.host.name));
}

async fn stop_owner(cluster: &Arc<SimulatedCluster>, random: &FakeRandom) {
    let Some((host, owned)) = copies(cluster).owner() else {
        return;
    };
    let (Some(process), true) = (host.process(), host.reserve()) else {
        return;
    };
    cluster.record(format_args!("{} is stopped in order", host.host.name));
    let another_counts = another_counts(cluster, host);
    owned.stop.notify_one();
    wait_until(cluster, STOP_MAX, || process.state.ended.get().is_some()).await;
    let ended = process.state.ended.get();
    cluster.record(format_args!("{} ends: {ended:?}", host.host.name));
    host.end(false).await;
    restart_later(cluster, random, (host, another_counts));
}

/// The directory of a copy is lost, while all count.
async fn lose_directory(
    cluster: &Arc<SimulatedCluster>,
    random: &FakeRandom,
    host: &Arc<CopyHost>,
) {
    let copies = copies(cluster);
    let is_owner = (copies.owner()).is_some_and(|(owner, _)| owner.number == host.number);
    if is_owner || !copies.is_whole() || !host.reserve() {
        return;
    }
    cluster.record(format_args!("{} loses its directory", host.host.name));
    cluster.monitor.count("directory of a copy lost");
    host.lose_directory().await;
    restart_later(cluster, random, (host, true));
}

/// A sync of a copy's disk fails: what the host has written and not synced may be gone. Its process ends by itself, or gets all
/// records again.
async fn fail_sync_of(cluster: &SimulatedCluster, random: &FakeRandom, host: &CopyHost) {
    if !another_counts(cluster, host) || host.is_reserved() {
        return;
    }
    let name = &host.host.name;
    let disk = &host.store.disk;
    disk.fail_sync(1 + random.below(20));
    let before = disk.counters().failed_syncs;
    let failed = || disk.counters().failed_syncs > before;
    wait_until(cluster, SYNC_FAILS_WITHIN, failed).await;
    if !failed() {
        disk.fail_sync(NEVER);
        return;
    }
    cluster.record(format_args!("a sync of the disk of {name} fails"));
    cluster.monitor.count("failed sync of a copy");
}

/// All hosts lose power. Before, all count for a while and no link fails, so that all have synced what was answered some seconds ago.
async fn lose_all(cluster: &Arc<SimulatedCluster>, random: &FakeRandom, links: &LinkFaults) {
    let copies = copies(cluster);
    links.begin_quiet(cluster).await;
    wait_until(cluster, WHOLE_WITHIN, || copies.is_whole()).await;
    let holds_clients = wait_for_clients(cluster, random).await;
    let reserved: Vec<_> = copies.hosts.iter().filter(|host| host.reserve()).collect();
    if copies.is_whole() && reserved.len() == COPIES {
        cluster.record(format_args!(
            "all copies lose power, clients stay: {holds_clients}"
        ));
        if let Some((owner, _)) = copies.owner() {
            crash(cluster, from_ref(&owner.store.disk), random).await;
        }
        for host in &reserved {
            host.end(true).await;
        }
        for host in &reserved {
            restart_later(cluster, random, (host, false));
        }
    } else {
        reserved.iter().for_each(|host| host.release());
    }
    if holds_clients {
        wait_for_recovery(cluster).await;
    }
    links.end_quiet();
}
