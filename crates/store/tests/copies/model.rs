//! Random work and faults, and what a program has been told.

use super::cluster::{Cluster, HOSTS, pause};
use super::host::Role;
use super::shipper::Shipper;
use bytes::Bytes;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::Seq;
use gupfs_store::index::Index;
use gupfs_store::kv::{Kv, KvBatch};
use gupfs_store::log::{CopySet, StopMode};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// What programs know of the store.
#[derive(Default)]
struct Told {
    /// The batches by seq, from 1.
    staged: Vec<KvBatch>,
    answered: u64,
    durable: u64,
}

impl Told {
    /// Returns the batch's seq.
    fn add(&mut self, batch: KvBatch) -> u64 {
        self.staged.push(batch);
        self.staged.len() as u64
    }

    fn note_answered(&mut self, seq: Seq) {
        self.answered = self.answered.max(seq.0);
    }

    fn note_durable(&mut self, seq: Seq) {
        self.durable = self.durable.max(seq.0);
    }

    /// What the store has after this many batches.
    fn records(&self, last: u64) -> Vec<(Bytes, Bytes)> {
        let mut records = BTreeMap::new();
        for (key, value) in self.staged[..last as usize].iter().flatten() {
            match value {
                Some(value) => records.insert(key.clone(), value.clone()),
                None => records.remove(key),
            };
        }
        records.into_iter().collect()
    }
}

fn batch(random: &FakeRandom) -> KvBatch {
    let update = |_| {
        let key = Bytes::from(format!("k{}", random.below(40)));
        let mut value = vec![0; random.below(400) as usize];
        random.fill(&mut value);
        (key, (!random.one_in(8)).then(|| Bytes::from(value)))
    };
    (0..random.below(3) + 1).map(update).collect()
}

async fn write(kv: &Kv, random: &FakeRandom, told: &Mutex<Told>) {
    for _ in 0..random.below(40) {
        let batch = batch(random);
        let Ok(seq) = kv.stage(0, batch.clone()) else {
            return;
        };
        if kv.closed().is_some() {
            return;
        }
        assert_eq!(told.lock().add(batch), seq.0);
        if random.one_in(2) {
            if kv.wait_committed(seq).await.is_err() {
                return;
            }
            told.lock().note_answered(seq);
        }
        if random.one_in(8) {
            if kv.wait_durable(seq).await.is_err() {
                return;
            }
            told.lock().note_durable(seq);
        }
        if random.one_in(30) {
            tokio::time::sleep(Duration::from_millis(random.below(200))).await;
        }
    }
}

/// Several programs write, until they are interrupted or have enough.
async fn work(cluster: &Cluster, kv: &Kv, told: &Mutex<Told>) {
    let random = &cluster.random;
    let writing = async {
        tokio::join!(
            write(kv, random, told),
            write(kv, random, told),
            write(kv, random, told)
        )
    };
    let interrupted = async {
        let most = random.below(400);
        pause(random, most).await;
        if random.one_in(2) {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    };
    tokio::select! {
        biased;
        _ = writing => {}
        () = interrupted => {}
    }
}

fn scan(kv: &Kv) -> Vec<(Bytes, Bytes)> {
    kv.scan(Bytes::new(), Bytes::from_static(b"z"), 1000)
        .unwrap()
}

/// The new owner has everything that programs were told, and nothing else.
fn check(kv: &Kv, last: u64, told: &Mutex<Told>, all_lost_power: bool) -> bool {
    let mut told = told.lock();
    let needed = if all_lost_power {
        told.durable
    } else {
        told.answered.max(told.durable)
    };
    assert!(last >= needed, "{last} of {needed} answered batches");
    assert!(
        last <= told.staged.len() as u64,
        "batches that were never staged"
    );
    let has_lost = last < told.answered;
    told.answered = told.answered.min(last);
    same("the new owner", &scan(kv), &told.records(last));
    told.staged.truncate(last as usize);
    has_lost
}

fn same(whose: &str, found: &[(Bytes, Bytes)], expected: &[(Bytes, Bytes)]) {
    let [here, there] = [found, expected].map(|records| records.iter().cloned().collect());
    let [here, there]: [BTreeMap<Bytes, Bytes>; 2] = [here, there];
    let keys = here.keys().chain(there.keys());
    let differ: Vec<&Bytes> = keys
        .filter(|key| here.get(*key) != there.get(*key))
        .collect();
    assert!(differ.is_empty(), "{whose} differs in {differ:?}");
}

async fn begin(cluster: &Arc<Cluster>) -> Arc<Kv> {
    for host in &cluster.hosts {
        host.open_copy(None).await.unwrap();
    }
    {
        let mut register = cluster.register.lock();
        register.epoch = 1;
        register.counting = (0..HOSTS)
            .map(|host| (host, cluster.hosts[host].run()))
            .collect();
    }
    let first = &cluster.hosts[0];
    first.stop_copy().await.unwrap();
    let copies = CopySet::new(Arc::new(Shipper::new(cluster.clone())));
    first.become_owner(1, copies).await.unwrap();
    first.kv().unwrap()
}

/// What the next owner has to expect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aftermath {
    OneFailed,
    AllLostPower,
    /// Nothing failed, and a copy takes over in any case: it takes the owner for dead.
    Deposed,
}

fn fail(cluster: &Cluster) -> Aftermath {
    let random = &cluster.random;
    let owner = cluster.register.lock().owner;
    let any = random.below(HOSTS as u64) as usize;
    match random.below(12) {
        0..=3 => cluster.hosts[owner].kill(random.one_in(2)),
        4 | 5 => cluster.hosts[any].kill(random.one_in(2)),
        6 => cluster.hosts[owner].is_cut.store(true, SeqCst),
        7 => cluster.hosts[any].is_cut.store(true, SeqCst),
        8 => {
            for host in &cluster.hosts {
                host.kill(true);
            }
            return Aftermath::AllLostPower;
        }
        9 => return Aftermath::Deposed,
        _ => {}
    }
    Aftermath::OneFailed
}

/// Has a copy take over if the owner does not serve, is cut off, or is to be deposed; returns the owner's store, if there is one.
async fn own(cluster: &Arc<Cluster>, told: &Mutex<Told>, aftermath: Aftermath) -> Option<Arc<Kv>> {
    let owner = cluster.register.lock().owner;
    let former = cluster.hosts[owner].kv().filter(|kv| kv.closed().is_none());
    let is_cut = cluster.hosts[owner].is_cut.load(SeqCst);
    let next = match aftermath {
        Aftermath::AllLostPower => longest(cluster).await,
        Aftermath::OneFailed | Aftermath::Deposed => with_memory(cluster),
    };
    if former.is_some() && !is_cut && (aftermath != Aftermath::Deposed || next.is_none()) {
        return former;
    }
    let next = next?;
    // A former owner that lives goes on meanwhile.
    let writing = async {
        if let Some(former) = &former {
            let writing = write(former, &cluster.random, told);
            cluster.hosts[owner].while_it_runs(writing).await;
        }
    };
    let (took, ()) = tokio::join!(cluster.take_over(next), writing);
    let last = took.unwrap();
    let kv = cluster.hosts[next].kv().unwrap();
    let all_lost = aftermath == Aftermath::AllLostPower;
    let has_lost = check(&kv, last, told, all_lost);
    let former = former.filter(|_| cluster.hosts[owner].kv().is_some());
    if let Some(former) = former
        && let Ok(seq) = former.stage(0, batch(&cluster.random))
    {
        assert!(former.wait_committed(seq).await.is_err());
        assert!(former.wait_durable(seq).await.is_err());
        cluster.seen.lock().deposed += 1;
    }
    let mut seen = cluster.seen.lock();
    seen.all_lost += u64::from(all_lost);
    seen.answered_lost_with_all += u64::from(has_lost);
    Some(kv)
}

/// A copy that counts and has kept its memory, and that can be reached.
fn with_memory(cluster: &Cluster) -> Option<usize> {
    let is_able = |host: &usize| {
        let it = &cluster.hosts[*host];
        it.copy().is_some() && cluster.has_memory(*host) && !it.is_cut.load(SeqCst)
    };
    let able: Vec<usize> = (0..HOSTS).filter(is_able).collect();
    (!able.is_empty()).then(|| able[cluster.random.below(able.len() as u64) as usize])
}

/// All hosts that counted start again, and the one with the longest log is the next owner.
async fn longest(cluster: &Cluster) -> Option<usize> {
    let counted: Vec<usize> = cluster.register.lock().counting.keys().copied().collect();
    for host in &counted {
        cluster.hosts[*host].is_cut.store(false, SeqCst);
        cluster.hosts[*host].open_copy(None).await.unwrap();
        let run = cluster.hosts[*host].run();
        cluster.register.lock().counting.insert(*host, run);
    }
    let end = |host: &usize| cluster.hosts[*host].copy().unwrap().end().last;
    counted.into_iter().max_by_key(end)
}

/// Hosts that were away come back.
async fn heal(cluster: &Cluster) {
    let owner = cluster.register.lock().owner;
    for (number, host) in cluster.hosts.iter().enumerate() {
        host.is_cut.store(false, SeqCst);
        if number == owner {
            continue;
        }
        if let Role::Owner(_) = &*host.role.lock() {
            // Deposed.
        } else if !host.is_down() && cluster.has_memory(number) {
            continue;
        }
        host.kill(false);
        cluster.rejoin(number).await;
    }
}

async fn run_seed(seed: u64) -> (Arc<Cluster>, u64) {
    let cluster = Cluster::new(seed);
    let told = Mutex::new(Told::default());
    let mut kv = begin(&cluster).await;
    for _ in 0..8 {
        work(&cluster, &kv, &told).await;
        let aftermath = fail(&cluster);
        pause(&cluster.random, 20).await;
        drop(kv);
        kv = match own(&cluster, &told, aftermath).await {
            Some(kv) => kv,
            // No copy that counts is left: the store waits for the host that has it.
            None => return (cluster, 0),
        };
        if cluster.random.one_in(2) {
            heal(&cluster).await;
        }
    }
    heal(&cluster).await;
    rest(&cluster, &kv, &told).await;
    let hash = told.lock().staged.len() as u64;
    (cluster, hash)
}

/// Without faults all copies become equal to the owner's store, byte for byte.
async fn rest(cluster: &Cluster, kv: &Kv, told: &Mutex<Told>) {
    for _ in 0..3 {
        let batch = batch(&cluster.random);
        let seq = kv.stage(0, batch.clone()).unwrap();
        told.lock().staged.push(batch);
        kv.wait_durable(seq).await.unwrap();
    }
    let seen_before = kv.stats().log.segments;
    cluster.seen.lock().rolled += seen_before;
    kv.stop(StopMode::Clean).await.unwrap();
    let last = kv.last_seq();
    let records = told.lock().records(last.0);
    cluster.seen.lock().batches += last.0;
    let owner = cluster.register.lock().owner;
    let mut ends = Vec::new();
    for (number, host) in cluster.hosts.iter().enumerate() {
        let counts = cluster.has_memory(number);
        if let Some(copy) = host.copy()
            && counts
        {
            while copy.applied() < last {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            ends.push(copy.end());
        }
        if counts || number == owner {
            let index = Index::fake(host.index.lock().clone());
            let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
            let found = index.view().scan(everything, 1000).unwrap();
            same(&format!("host {number}"), &found, &records);
        }
    }
    assert!(ends.windows(2).all(|two| two[0] == two[1]), "{ends:?}");
}

fn simulate<T>(run: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(async { tokio::time::timeout(Duration::from_secs(36_000), run).await })
        .expect("a future waited forever")
}

#[test]
fn whatever_host_is_lost_another_one_has_all_that_was_answered() {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    let seeds = std::env::var("GUPFS_SEED")
        .ok()
        .and_then(|it| it.parse().ok());
    let seeds = seeds.map_or(0..1000, |seed: u64| seed..seed + 1);
    for seed in seeds {
        println!("seed {seed}");
        let (cluster, _) = simulate(run_seed(seed));
        let seen = cluster.seen.lock();
        for (name, count) in seen.counts() {
            *all.entry(name).or_default() += count;
        }
    }
    println!("{all:?}");
    for (name, least) in super::cluster::LEAST {
        assert!(all[name] >= least, "{name}: {all:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in 0..20 {
        let run = || simulate(run_seed(seed)).1;
        assert_eq!(run(), run(), "seed {seed}");
    }
}
