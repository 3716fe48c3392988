//! # faults: injects random faults into hosts, disks and connections
//!
//! Owns   one task for each kind of server, for the network, for the clients and for freezes, or one for all faults one at a time; each injects
//!        faults until the simulation ends.
//! Never  decides whether a fault excuses a failed call: `fault_record` knows which faults were injected.
//! Enter  at `start`; after the simulation at `end_all_faults`.

mod clients;
mod copies;
mod copy_links;
mod freezes;
mod metadata;
mod network;
mod objects;
mod one_at_a_time;
mod rot;

use super::fault_plan::FaultPlan;
use super::fault_record::DiskFault;
use super::redundancy::count_changes_of_members;
use super::simulated_cluster::SimulatedCluster;
use gupfs_platform::Task;
use gupfs_platform::fake::{ArbiterFaults, CallKind, FakeDisk, FakeRandom};
use std::sync::Arc;
use std::time::Duration;

/// Interval of the checks whether a disk has died.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Starts every kind of fault of the seed's plan, each in a task of its own, until the simulation ends.
pub fn start(cluster: &Arc<SimulatedCluster>, random: &FakeRandom) -> Vec<Task<()>> {
    let plan = cluster.fault_record.plan();
    cluster.record(format_args!("{plan:?}"));
    let mut tasks = Vec::new();
    // Every kind of fault forks the random source, also a kind that the plan lacks, so that the forks of the others do not
    // depend on the plan.
    let (faulty, task_random) = (cluster.clone(), random.fork());
    if cluster.metadata.copies().is_some() {
        tasks.extend(copies::start(cluster, &task_random));
    } else if plan.has_metadata_faults() {
        tasks.push(cluster.spawn("metadata faults", async move {
            metadata::inject(faulty, task_random).await
        }));
    }
    let (faulty, task_random) = (cluster.clone(), random.fork());
    if plan.has_object_faults() {
        tasks.push(cluster.spawn("object faults", async move {
            objects::inject(faulty, task_random, plan.has_client_faults()).await
        }));
    }
    let (faulty, task_random) = (cluster.clone(), random.fork());
    if plan.has_net_faults() {
        tasks.push(cluster.spawn("net faults", async move {
            network::inject(faulty, task_random).await
        }));
    }
    let (faulty, task_random) = (cluster.clone(), random.fork());
    if plan.has_client_faults() {
        tasks.push(cluster.spawn("client faults", async move {
            clients::inject(faulty, task_random).await
        }));
    }
    let (faulty, task_random) = (cluster.clone(), random.fork());
    if plan.has_freezes() {
        tasks.push(cluster.spawn("freezes", async move {
            freezes::inject(faulty, task_random).await
        }));
    }
    if plan == FaultPlan::OneAtATime {
        let (faulty, task_random) = (cluster.clone(), random.fork());
        tasks.push(cluster.spawn("one fault at a time", async move {
            one_at_a_time::inject(faulty, task_random).await
        }));
        let counted = cluster.clone();
        tasks.push(cluster.spawn("counts of stale members", async move {
            count_changes_of_members(counted).await
        }));
    }
    tasks
}

/// Frees disk space and heals all partitions. No fault is injected afterwards.
pub fn end_all_faults(cluster: &SimulatedCluster) {
    cluster.net.heal_all();
    if let Some(copies) = cluster.metadata.copies() {
        copies.arbiter.set_faults(ArbiterFaults::default());
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

/// A random duration of at most `most` milliseconds.
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

/// Crashes the process at a random call of one of its disks, often in the middle of an operation.
async fn crash(cluster: &SimulatedCluster, disks: &[FakeDisk], random: &FakeRandom) {
    let disk = &disks[random.below(disks.len() as u64) as usize];
    let kind = match random.below(4) {
        0 => CallKind::Sync,
        1 => CallKind::Any,
        _ => CallKind::Write,
    };
    disk.die_at(kind, 1 + random.below(30));
    wait_until(cluster, 2_000, || disk.is_dead()).await;
}

async fn wait_until(cluster: &SimulatedCluster, most: u64, condition: impl Fn() -> bool) {
    let until = cluster.millis() + most;
    while !condition() && cluster.millis() < until {
        cluster.sleep(POLL_INTERVAL).await;
    }
}

/// Lets one of the next `most` syncs of a disk fail, and gives the server up to a second to notice. The caller ends the disk's
/// fault.
async fn fail_sync(
    cluster: &SimulatedCluster,
    random: &FakeRandom,
    disk: &FakeDisk,
    (most, fault): (u64, DiskFault),
    report: impl FnOnce(),
) {
    cluster
        .fault_record
        .begin_disk_fault(fault, cluster.millis());
    disk.fail_sync(1 + random.below(most));
    let before = disk.counters().failed_syncs;
    let failed = || disk.counters().failed_syncs > before;
    wait_until(cluster, 3_000, failed).await;
    report();
    cluster.sleep(millis(random, 1_000)).await;
}
