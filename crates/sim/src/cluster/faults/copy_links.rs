//! Faults of the links between the hosts that have the metadata, of their links to others, and of their arbiter.

use super::{millis, pause};
use crate::cluster::metadata_copies::{COPIES, CopyHost, MetadataCopies};
use crate::cluster::simulated_cluster::SimulatedCluster;
use gupfs_platform::Task;
use gupfs_platform::fake::{ArbiterFaults, FakeRandom};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Longest time of a fault, in milliseconds: a copy takes over during a long one.
const TIME_MAX: u64 = 9_000;

/// A partition of a client of at most this many milliseconds ends no session.
const SHORT_PARTITION: u64 = 6_000;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) fn copies(cluster: &SimulatedCluster) -> &MetadataCopies {
    let copies = cluster.metadata.copies();
    copies.expect("these faults are of a metadata server with copies")
}

/// The faults of links that last now.
#[derive(Default)]
pub(super) struct LinkFaults {
    number: AtomicU64,
    is_quiet: AtomicBool,
    /// Tasks that inject them.
    tasks: AtomicU64,
}

impl LinkFaults {
    /// Returns when no link fails; none does until `end_quiet`.
    pub async fn begin_quiet(&self, cluster: &SimulatedCluster) {
        self.is_quiet.store(true, SeqCst);
        while self.number.load(SeqCst) > 0 {
            cluster.sleep(POLL_INTERVAL).await;
        }
    }

    pub fn end_quiet(&self) {
        self.is_quiet.store(false, SeqCst);
    }

    /// Returns when no link fails any more.
    pub async fn wait_until_over(&self, cluster: &SimulatedCluster) {
        while self.tasks.load(SeqCst) > 0 {
            cluster.sleep(POLL_INTERVAL).await;
        }
    }

    /// Begins a fault; false if none may begin now.
    fn begin(&self) -> bool {
        if self.is_quiet.load(SeqCst) {
            return false;
        }
        self.number.fetch_add(1, SeqCst);
        true
    }

    fn end(&self) {
        self.number.fetch_sub(1, SeqCst);
    }
}

pub(super) fn start(
    cluster: &Arc<SimulatedCluster>,
    random: &FakeRandom,
    links: &Arc<LinkFaults>,
) -> Vec<Task<()>> {
    links.tasks.store(2, SeqCst);
    let (faulty, of_links, all) = (cluster.clone(), random.fork(), links.clone());
    let net = cluster.spawn("links of copies", async move {
        fail_links(&faulty, &of_links, &all).await;
        all.tasks.fetch_sub(1, SeqCst);
    });
    let (faulty, of_arbiter, all) = (cluster.clone(), random.fork(), links.clone());
    let arbiter = cluster.spawn("arbiter", async move {
        fail_arbiter(&faulty, &of_arbiter, &all).await;
        all.tasks.fetch_sub(1, SeqCst);
    });
    vec![net, arbiter]
}

async fn fail_links(cluster: &SimulatedCluster, random: &FakeRandom, links: &LinkFaults) {
    loop {
        pause(cluster, random, 16_000).await;
        if cluster.is_over() {
            return;
        }
        if !links.begin() {
            continue;
        }
        let copies = copies(cluster);
        let any = &copies.hosts[random.below(COPIES as u64) as usize];
        let host = match copies.owner() {
            Some((owner, _)) if random.one_in(2) => owner,
            _ => any,
        };
        fail_links_of(cluster, random, host).await;
        links.end();
    }
}

/// Some links of a host fail for a while.
async fn fail_links_of(cluster: &SimulatedCluster, random: &FakeRandom, host: &CopyHost) {
    let mut time = millis(random, [1_000, TIME_MAX][random.below(2) as usize]);
    let other_copies = || {
        let others = copies(cluster).hosts.iter();
        let others = others.filter(|other| other.number != host.number);
        others.map(|other| other.host.name.clone())
    };
    let clients = || (0..cluster.client_hosts.len()).map(|client| format!("c{client}"));
    let osses = || (0..cluster.osses.len()).map(|oss| format!("oss{oss}"));
    let what = random.below(6);
    let mut others: Vec<String> = match what {
        0 => other_copies().take(1).collect(),
        1 => other_copies().collect(),
        2 => clients().collect(),
        3 => osses().collect(),
        4 => Vec::new(),
        _ => other_copies().chain(clients()).chain(osses()).collect(),
    };
    if what == 0 && random.one_in(2) {
        others = other_copies().skip(1).collect();
    }
    if matches!(what, 2 | 3 | 5) {
        time = time.min(Duration::from_millis(SHORT_PARTITION));
    }
    let loses_arbiter = what >= 4;
    let direction = random.below(3);
    let name = &host.host.name;
    cluster.record(format_args!(
        "{name} is cut off from {others:?}, arbiter {loses_arbiter}, direction {direction}, {time:?}"
    ));
    cluster.monitor.count(match what {
        0 | 1 => "partition between copies",
        2 => "copy partitioned from the clients",
        3 => "copy partitioned from the object servers",
        4 => "copy cut off from the arbiter",
        _ => "copy cut off from all",
    });
    for other in &others {
        match direction {
            0 => cluster.net.partition(name, other),
            1 => cluster.net.partition_one_way(name, other),
            _ => cluster.net.partition_one_way(other, name),
        }
    }
    host.arbiter.set_cut_off(loses_arbiter);
    cluster.sleep(time).await;
    host.arbiter.set_cut_off(false);
    for other in &others {
        cluster.net.heal(name, other);
    }
}

/// The arbiter is slow, silent about what it did, or away.
async fn fail_arbiter(cluster: &SimulatedCluster, random: &FakeRandom, links: &LinkFaults) {
    let arbiter = &copies(cluster).arbiter;
    let usual = ArbiterFaults {
        delay: Duration::from_millis(5),
        no_reply: [0, 0, 40, 10][random.below(4) as usize],
        watch_lag: Duration::from_millis([1, 300, 2_000][random.below(3) as usize]),
        is_down: false,
    };
    arbiter.set_faults(usual);
    loop {
        pause(cluster, random, 25_000).await;
        if cluster.is_over() {
            arbiter.set_faults(ArbiterFaults::default());
            return;
        }
        if random.one_in(3) {
            arbiter.change_leader();
            continue;
        }
        if !links.begin() {
            continue;
        }
        let time = millis(random, TIME_MAX);
        cluster.record(format_args!("the arbiter is away for {time:?}"));
        cluster.monitor.count("arbiter away");
        arbiter.set_faults(ArbiterFaults {
            is_down: true,
            ..usual
        });
        cluster.sleep(time).await;
        arbiter.set_faults(usual);
        links.end();
    }
}
