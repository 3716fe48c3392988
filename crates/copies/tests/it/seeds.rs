//! Runs the seeds, and checks what the copies have at rest.

use super::cluster::{Cluster, HOSTS};
use super::{faults, program};
use bytes::Bytes;
use gupfs_copies::Standing;
use gupfs_platform::fake::{ArbiterFaults, FakeRandom};
use gupfs_proto::copy::CopyLogState;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Of each, at least so many in the seeds of the test.
const LEAST: [(&str, u64); 12] = [
    ("owners", 400),
    ("elected", 50),
    ("deposed and silent", 100),
    ("kill", 100),
    ("power loss", 50),
    ("power loss of all", 50),
    ("freeze", 100),
    ("move", 15),
    ("orderly stop", 50),
    ("directory lost", 30),
    ("arbiter away", 100),
    ("left out", 20),
];

const SECONDS: u64 = 90;

/// The longest time from the end of all faults until all copies count.
const HEALED_AFTER: u64 = 120;

async fn run_seed(seed: u64) -> Arc<Cluster> {
    let cluster = Cluster::new(seed);
    for host in &cluster.hosts {
        cluster.start(host).await;
        if host.number == 0 {
            while host.owned().is_none() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
    let random = &cluster.random;
    let mut tasks = Vec::new();
    tasks.push(tokio::spawn(change_key_list(
        cluster.clone(),
        random.fork(),
    )));
    for _ in 0..3 {
        tasks.push(tokio::spawn(program::run(cluster.clone(), random.fork())));
    }
    tasks.push(tokio::spawn(faults::of_hosts(
        cluster.clone(),
        random.fork(),
    )));
    tasks.push(tokio::spawn(faults::of_network(
        cluster.clone(),
        random.fork(),
    )));
    tasks.push(tokio::spawn(faults::of_arbiter(
        cluster.clone(),
        random.fork(),
    )));
    let administrator = tokio::spawn(restart_left_out(cluster.clone()));
    let marks = tokio::spawn(note_whole(cluster.clone()));
    tokio::time::sleep(Duration::from_secs(SECONDS)).await;
    cluster.is_over.store(true, SeqCst);
    for task in tasks {
        task.await.expect("no task panics");
    }
    marks.abort();
    rest(&cluster).await;
    administrator.abort();
    cluster
}

/// An administrator changes the list of the clients' keys where the metadata is owned.
async fn change_key_list(cluster: Arc<Cluster>, random: FakeRandom) {
    while !cluster.is_over.load(SeqCst) {
        tokio::time::sleep(Duration::from_millis(random.below(9_000))).await;
        if let Some(owner) = cluster.hosts.iter().find(|host| host.owned().is_some()) {
            let list = Bytes::from(random.u64().to_string());
            *owner.key_list.lock() = Some(list);
        }
    }
}

/// An administrator starts processes again that were left out because they were slow.
pub async fn restart_left_out(cluster: Arc<Cluster>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let members = cluster.register().await.map(|register| register.members);
        for member in members.into_iter().flatten() {
            let host = &cluster.hosts[member.id.0 as usize - 1];
            let process = host.process();
            let runs = process.is_some_and(|process| process.copy.host().state().run == member.run);
            let is_left_out = member.standing == Standing::LeftOut && runs;
            if is_left_out && !host.is_reserved.swap(true, SeqCst) {
                println!("  {} was left out: started again", host.name);
                cluster.count("left out");
                host.kill(false).await;
                cluster.start(host).await;
                host.is_reserved.store(false, SeqCst);
            }
        }
    }
}

/// Notes when all copies count: nothing was lost then.
async fn note_whole(cluster: Arc<Cluster>) {
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let is_whole = cluster.is_whole().await;
        let reserved = |host: &Arc<super::host::Host>| host.is_reserved.load(SeqCst);
        if is_whole && !cluster.hosts.iter().any(reserved) {
            cluster.has_lost_power.store(false, SeqCst);
        }
    }
}

/// Without faults all copies count soon, and have the same.
async fn rest(cluster: &Arc<Cluster>) {
    cluster.net.heal_all();
    cluster.arbiter.set_faults(ArbiterFaults::default());
    let mut waited = 0;
    while !cluster.is_whole().await || cluster.hosts.iter().any(|host| host.process().is_none()) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        waited += 1;
        if waited > HEALED_AFTER {
            let register = cluster.register().await;
            let states: Vec<_> = (cluster.hosts.iter())
                .map(|host| host.process().map(|process| process.copy.host().state()))
                .collect();
            panic!("not whole after {waited} s: {register:?} {states:?}");
        }
    }
    let mut owners = cluster.hosts.iter();
    let owned_host = owners
        .find(|host| host.owned().is_some())
        .expect("an owner");
    let (_, owned) = owned_host.owned().expect("an owner");
    let last = owned.kv.last_seq();
    owned.kv.wait_durable(last).await.expect("the owner serves");
    let records = owned
        .kv
        .scan(Bytes::new(), Bytes::from_static(b"z"), usize::MAX);
    let records = records.expect("the index can be read");
    let numbers: BTreeSet<u64> = (records.iter())
        .filter_map(|(key, _)| std::str::from_utf8(&key[1..]).ok()?.parse().ok())
        .collect();
    {
        let told = cluster.told.lock();
        let missing: Vec<&u64> = (told.answered.iter())
            .filter(|number| !numbers.contains(number))
            .collect();
        assert!(missing.is_empty(), "answered and lost: {missing:?}");
        assert!(told.answered.len() > 100, "{} answers", told.answered.len());
    }
    // Everything is said to be durable by a later record.
    let all = BTreeMap::from_iter(records);
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let ends =
            cluster
                .hosts
                .iter()
                .filter_map(|host| match host.process()?.copy.host().state().log {
                    CopyLogState::Open { end, applied, .. } => Some((end, applied)),
                    _ => None,
                });
        let ends: Vec<_> = ends.collect();
        assert_eq!(ends.len(), HOSTS - 1);
        let written = owned.kv.written();
        let list = owned_host.key_list.lock().clone();
        let same_list = (cluster.hosts.iter()).all(|host| *host.key_list.lock() == list);
        if same_list
            && ends
                .iter()
                .all(|(end, applied)| *end == written && *applied == last)
        {
            for host in &cluster.hosts {
                let Some(copy) = host.process().and_then(|it| it.copy.host().copy()) else {
                    continue;
                };
                let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
                let found = copy.index().scan(everything, usize::MAX);
                assert!(BTreeMap::from_iter(found.unwrap()) == all, "{}", host.name);
            }
            return;
        }
    }
    panic!("the copies do not become equal");
}

pub fn simulate<T>(run: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(async { tokio::time::timeout(Duration::from_secs(36_000), run).await })
        .expect("a future waited forever")
}

#[test]
fn one_host_at_a_time_answers_and_nothing_answered_is_lost() {
    // With one seed its log is shown, too.
    if std::env::var("GUPFS_SEED").is_ok() {
        let _ = tracing_subscriber::fmt()
            .without_time()
            .with_ansi(false)
            .with_max_level(tracing::Level::INFO)
            .try_init();
    }
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    let seeds = std::env::var("GUPFS_SEED")
        .ok()
        .and_then(|it| it.parse().ok());
    let seeds = seeds.map_or(0..200, |seed: u64| seed..seed + 1);
    let is_whole_run = seeds.end - seeds.start > 1;
    for seed in seeds {
        println!("seed {seed}");
        let cluster = simulate(run_seed(seed));
        let seen = cluster.seen.lock();
        let told = cluster.told.lock();
        let own = [
            ("owners", seen.owners),
            ("elected", seen.elected),
            ("deposed and silent", seen.deposed_silent),
            ("answers", told.answered.len() as u64),
            ("reads", told.reads),
        ];
        for (name, count) in own
            .into_iter()
            .chain(seen.counts.iter().map(|(k, v)| (*k, *v)))
        {
            *all.entry(name).or_default() += count;
        }
    }
    println!("{all:?}");
    for (name, least) in LEAST.iter().filter(|_| is_whole_run) {
        assert!(
            all.get(name).is_some_and(|count| count >= least),
            "{name}: {all:?}"
        );
    }
}
