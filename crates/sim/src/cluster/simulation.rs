//! The simulation of one seed: programs work while hosts, disks and connections fail; then all faults end and the cluster
//! becomes idle.

use super::call_arguments::{caller, create_mode, no_flags, read_write};
use super::fault_plan::{FaultKind, FaultPlan};
use super::history_program::HistoryProgram;
use super::metadata_servers::MetadataKind;
use super::private_dir::PrivateDirProgram;
use super::shared_dir::SharedDirProgram;
use super::shared_state::{FILE_BLOCKS, RECORDS_OF_BLOCK, SharedState, repeated_value};
use super::simulated_cluster::SimulatedCluster;
use super::{administrator, attacker, conversions, faults, rebalances, redundancy};
use crate::event_log::EventLog;
use crate::seeds::SeedRun;
use gupfs_client::{Client, WriteOptions};
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::meta::WritePosition;
use gupfs_proto::{InodeId, Name};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Time with faults, in milliseconds. With a single kind of fault, faults come twice as often.
const FAULT_TIME: u64 = 75_000;
const FAULT_TIME_OF_ONE_KIND: u64 = 25_000;

/// So long that sessions end, some clients' twice.
const FAULT_TIME_OF_LONG_PARTITIONS: u64 = 60_000;

/// So long that each seed has several faults of one server after the other.
const FAULT_TIME_OF_ONE_AT_A_TIME: u64 = 150_000;

/// Number of files that all programs write.
const SHARED: usize = 2;

/// Without faults the cluster is idle after this time.
const IDLE_AFTER: Duration = Duration::from_secs(400);

/// # Panics
/// When a promise is broken; the last events are printed.
pub fn run(seed: u64, verbose: bool) -> SeedRun {
    let plan = (FaultPlan::of(seed), MetadataKind::Single);
    run_plan(seed, plan, verbose)
}

/// The same with mirrored files, and faults that hit one server, disk, link or client at a time.
///
/// # Panics
/// As `run`.
pub fn run_one_fault_at_a_time(seed: u64, verbose: bool) -> SeedRun {
    let plan = (FaultPlan::OneAtATime, MetadataKind::Single);
    run_plan(seed, plan, verbose)
}

/// The same with a metadata server that has copies on three hosts: one of them takes over when the owner fails.
///
/// # Panics
/// As `run`.
pub fn run_with_copies(seed: u64, verbose: bool) -> SeedRun {
    let plan = (FaultPlan::with_copies(seed), MetadataKind::Copies);
    run_plan(seed, plan, verbose)
}

fn run_plan(seed: u64, kinds: (FaultPlan, MetadataKind), verbose: bool) -> SeedRun {
    crate::process::on_paused_time(async {
        let (plan, _) = kinds;
        let cluster = SimulatedCluster::start(seed, kinds, EventLog::new(verbose)).await;
        let (_, client) = cluster.client_hosts[0].wait_for_client().await;
        let random = FakeRandom::new(seed ^ 0xc1_5eed);
        let mut programs = start_programs(&cluster, &client, &random).await;
        programs.extend(faults::start(&cluster, &random));
        let (one, attacker_random) = (cluster.clone(), random.fork());
        let attacker = cluster.attacker.clone();
        programs.push(cluster.spawn("attacker", async move {
            attacker::work(one, attacker, attacker_random).await;
        }));
        if administrator::is_there(seed) && plan != FaultPlan::OneAtATime {
            let one = cluster.clone();
            programs.push(cluster.spawn("administrator", async move {
                administrator::work(one, random).await;
            }));
        } else if conversions::is_there(seed) && plan != FaultPlan::OneAtATime {
            let one = cluster.clone();
            programs.push(cluster.spawn("conversions", async move {
                conversions::work(one, random).await;
            }));
        }
        if rebalances::is_there(seed) && plan != FaultPlan::OneAtATime {
            let (one, random) = (cluster.clone(), FakeRandom::new(seed ^ 0xba1_a4ce));
            programs.push(cluster.spawn("rebalances", async move {
                rebalances::work(one, random).await;
            }));
        }
        let fault_time = match cluster.fault_record.plan().only() {
            None if plan == FaultPlan::OneAtATime => FAULT_TIME_OF_ONE_AT_A_TIME,
            None => FAULT_TIME,
            Some(FaultKind::LongPartitions | FaultKind::Freezes | FaultKind::MetadataCopies) => {
                FAULT_TIME_OF_LONG_PARTITIONS
            }
            Some(_) => FAULT_TIME_OF_ONE_KIND,
        };
        let until = cluster.millis() + fault_time;
        while cluster.millis() < until {
            cluster.sleep(Duration::from_secs(1)).await;
            cluster.check_access();
        }
        cluster.is_over.store(true, SeqCst);
        for program in programs {
            let ended = program.await;
            assert!(
                ended.is_ok(),
                "seed {seed}: a program found a promise broken (see above)"
            );
        }
        cluster
            .call_history
            .lock()
            .check(cluster.client_hosts.len(), &cluster.monitor);
        cluster.check_access();
        wait_until_idle(&cluster).await;
        cluster.check_access();
        let rare_events = cluster.monitor.rare_events();
        SeedRun {
            events: cluster.take_events(),
            rare_events,
        }
    })
}

/// Creates directories and files and makes them durable; then starts a program of each kind on each host.
async fn start_programs(
    cluster: &Arc<SimulatedCluster>,
    client: &Arc<Client>,
    random: &FakeRandom,
) -> Vec<gupfs_platform::Task<()>> {
    cluster.set_small_layout(client).await;
    let mut private_programs = Vec::new();
    for number in 0..cluster.client_hosts.len() {
        let dir = mkdir(client, &format!("own{number}")).await;
        private_programs.push(PrivateDirProgram::new(cluster, number, dir, random.fork()));
    }
    let dir = mkdir(client, "shared").await;
    let mut files = Vec::new();
    for number in 0..SHARED {
        let value = cluster.value();
        let bytes = repeated_value(value, FILE_BLOCKS);
        let ino = create(client, &format!("file{number}"), bytes).await;
        files.push((ino, value));
    }
    let (value, records) = (cluster.value(), 2 * RECORDS_OF_BLOCK);
    let log = create(client, "log", repeated_value(value, 2)).await;
    client.sync_all().await.expect("no fault is injected yet");
    *cluster.shared_state.lock() = SharedState::new(dir, &files, (log, value, records));
    let published: Vec<_> = private_programs
        .iter()
        .map(PrivateDirProgram::published)
        .collect();
    let mut tasks = Vec::new();
    for mut program in private_programs {
        tasks.push(cluster.spawn("private directory", async move { program.work().await }));
    }
    for number in 0..cluster.client_hosts.len() {
        let mut others = published.clone();
        others.remove(number);
        let mut shared_program = SharedDirProgram::new(cluster, number, random.fork(), others);
        tasks.push(cluster.spawn(
            "shared directory",
            async move { shared_program.work().await },
        ));
        let mut history_program = HistoryProgram::new(cluster, number, random.fork());
        tasks.push(cluster.spawn("call history", async move { history_program.work().await }));
    }
    tasks
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a short name")
}

async fn mkdir(client: &Arc<Client>, text: &str) -> InodeId {
    let (caller, name) = (caller(), name(text));
    let made = client.mkdir(&caller, client.root(), &name, create_mode());
    made.await.expect("no fault is injected yet").ino
}

async fn create(client: &Arc<Client>, text: &str, bytes: Vec<u8>) -> InodeId {
    let (caller, name) = (caller(), name(text));
    let root = client.root();
    let made = client.create(
        &caller,
        root,
        &name,
        create_mode(),
        true,
        read_write(),
        no_flags(),
    );
    let file = made.await.expect("no fault is injected yet").file;
    if !bytes.is_empty() {
        let len = bytes.len() as u64;
        let done = client.write(
            &file,
            WritePosition::Offset(0),
            bytes.into(),
            WriteOptions::default(),
        );
        assert_eq!(done.await.map(|done| done.written), Ok(len));
    }
    let synced = client.fsync(&file, false).await;
    synced.expect("no fault is injected yet");
    let closed = client.release(file.id()).await;
    closed.expect("no fault is injected yet");
    file.ino()
}

/// Runs after the last fault: stops the clients in order, and waits until the objects of removed files are purged.
async fn wait_until_idle(cluster: &Arc<SimulatedCluster>) {
    faults::end_all_faults(cluster);
    let idle_since = cluster.millis();
    let late = || cluster.millis() - idle_since > IDLE_AFTER.as_millis() as u64;
    for (number, client_host) in cluster.client_hosts.iter().enumerate() {
        let (instance_number, client) = client_host.wait_for_client().await;
        let stopped = client_host.run(instance_number, client.stop()).await;
        cluster.record(format_args!("c{number} stops: {stopped:?}"));
        assert!(!late(), "c{number} does not stop");
    }
    let mds = cluster.metadata.mds().expect("the metadata server runs");
    loop {
        let status = mds.status().await;
        if status.purging == Some(0) && status.sweep.left == 0 {
            break;
        }
        let (purging, purge, targets) = (&status.purging, &status.purge, &status.targets);
        assert!(
            !late(),
            "{purging:?} files are not purged: {purge:?}, {targets:?}"
        );
        cluster.sleep(Duration::from_millis(500)).await;
    }
    if cluster.is_mirrored {
        redundancy::check_at_rest(cluster, late).await;
    }
    if let Some(copies) = cluster.metadata.copies() {
        while !copies.are_equal() {
            assert!(
                !late(),
                "the copies do not become equal: {:#?}",
                copies.describe()
            );
            cluster.sleep(Duration::from_millis(100)).await;
        }
    }
    mds.stop().await.expect("no fault is injected");
}
