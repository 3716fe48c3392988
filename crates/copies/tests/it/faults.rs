//! Faults of hosts, of the network and of the arbiter.

use super::cluster::{Cluster, HOSTS};
use super::host::Host;
use gupfs_platform::fake::{ArbiterFaults, FakeRandom};
use gupfs_proto::CopyId;
use gupfs_proto::copy::CopiesChange;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

async fn pause(random: &FakeRandom, most: u64) {
    tokio::time::sleep(Duration::from_millis(random.below(most))).await;
}

fn reserve(host: &Host) -> bool {
    !host.is_reserved.swap(true, SeqCst)
}

/// Faults of hosts, one after the other.
pub async fn of_hosts(cluster: Arc<Cluster>, random: FakeRandom) {
    while !cluster.is_over.load(SeqCst) {
        pause(&random, 14_000).await;
        let owner = cluster.hosts.iter().find(|host| host.owned().is_some());
        let any = &cluster.hosts[random.below(HOSTS as u64) as usize];
        let host = match owner {
            Some(owner) if random.one_in(2) => owner,
            _ => any,
        };
        match random.below(12) {
            0 | 1 => kill(&cluster, &random, host, false).await,
            2 => kill(&cluster, &random, host, true).await,
            3 | 4 => freeze(&cluster, &random, host).await,
            5 => stop(&cluster, &random, host).await,
            6 => lose_all(&cluster, &random).await,
            7 | 9 => wipe(&cluster, host).await,
            8 => {
                // Two at nearly the same time.
                kill(&cluster, &random, host, random.one_in(2)).await;
                kill(&cluster, &random, any, random.one_in(2)).await;
            }
            _ => {}
        }
    }
}

async fn kill(cluster: &Arc<Cluster>, random: &FakeRandom, host: &Arc<Host>, power: bool) {
    if !reserve(host) {
        return;
    }
    println!("  {} is killed, power loss: {power}", host.name);
    cluster.count(match power {
        true => "power loss",
        false => "kill",
    });
    if power {
        cluster.has_lost_power.store(true, SeqCst);
    }
    host.kill(power).await;
    restart_later(cluster, random, host);
}

fn restart_later(cluster: &Arc<Cluster>, random: &FakeRandom, host: &Arc<Host>) {
    let (cluster, host, random) = (cluster.clone(), host.clone(), random.fork());
    tokio::spawn(async move {
        match random.below(3) {
            0 => {}
            1 => pause(&random, 3_000).await,
            _ => pause(&random, 20_000).await,
        }
        cluster.start(&host).await;
        host.is_reserved.store(false, SeqCst);
    });
}

async fn freeze(cluster: &Arc<Cluster>, random: &FakeRandom, host: &Arc<Host>) {
    if !reserve(host) {
        return;
    }
    println!("  {} is frozen", host.name);
    cluster.count("freeze");
    host.freeze();
    match random.below(3) {
        0 => pause(random, 2_000).await,
        _ => pause(random, 12_000).await,
    }
    host.thaw();
    host.is_reserved.store(false, SeqCst);
}

/// The owner stops in order.
async fn stop(cluster: &Arc<Cluster>, random: &FakeRandom, host: &Arc<Host>) {
    let Some((_, owned)) = host.owned() else {
        return;
    };
    let to = &cluster.hosts[random.below(HOSTS as u64) as usize];
    let change = CopiesChange::Move {
        to: CopyId(to.number as u64 + 1),
    };
    if random.one_in(2)
        && let Ok(Ok(())) = limited(owned.ownership.administer(&change)).await
    {
        println!("  {} moves the metadata to {}", host.name, to.name);
        cluster.count("move");
    } else {
        println!("  {} stops in order", host.name);
        cluster.count("orderly stop");
        owned.stop.notify_one();
    }
    pause(random, 3_000).await;
}

/// The host may be frozen meanwhile.
async fn limited<T>(doing: impl Future<Output = T>) -> Result<T, tokio::time::error::Elapsed> {
    tokio::time::timeout(Duration::from_secs(2), doing).await
}

async fn lose_all(cluster: &Arc<Cluster>, random: &FakeRandom) {
    let reserved: Vec<_> = cluster.hosts.iter().filter(|host| reserve(host)).collect();
    if reserved.len() == HOSTS {
        println!("  all lose power");
        cluster.count("power loss of all");
        cluster.has_lost_power.store(true, SeqCst);
        for host in &reserved {
            host.kill(true).await;
        }
    }
    for host in reserved {
        match host.process() {
            Some(_) => host.is_reserved.store(false, SeqCst),
            None => restart_later(cluster, random, host),
        }
    }
}

/// The directory of a copy is deleted; the others count.
async fn wipe(cluster: &Arc<Cluster>, host: &Arc<Host>) {
    if host.owned().is_some() || !cluster.is_whole().await || !reserve(host) {
        return;
    }
    println!("  {} loses its directory", host.name);
    cluster.count("directory lost");
    cluster.has_lost_power.store(true, SeqCst);
    host.wipe().await;
    cluster.start(host).await;
    host.is_reserved.store(false, SeqCst);
}

/// Partitions between hosts, whole or in one direction.
pub async fn of_network(cluster: Arc<Cluster>, random: FakeRandom) {
    while !cluster.is_over.load(SeqCst) {
        pause(&random, 20_000).await;
        let a = random.below(HOSTS as u64) as usize;
        let b = (a + 1 + random.below(HOSTS as u64 - 1) as usize) % HOSTS;
        let [a, b] = [a, b].map(|host| cluster.hosts[host].name.clone());
        match random.below(4) {
            0 => cluster.net.partition_one_way(&a, &b),
            1 => {
                for host in cluster.hosts.iter().filter(|host| host.name != a) {
                    cluster.net.partition(&a, &host.name);
                }
            }
            _ => cluster.net.partition(&a, &b),
        }
        println!("  {a} is cut off from {b}");
        cluster.count("partition");
        pause(&random, 9_000).await;
        cluster.net.heal_all();
    }
}

/// The arbiter is away, slow, or silent about what it did.
pub async fn of_arbiter(cluster: Arc<Cluster>, random: FakeRandom) {
    let usual = ArbiterFaults {
        delay: Duration::from_millis(5),
        no_reply: [0, 0, 40, 10][random.below(4) as usize],
        watch_lag: Duration::from_millis([1, 300, 2_000][random.below(3) as usize]),
        is_down: false,
    };
    cluster.arbiter.set_faults(usual);
    while !cluster.is_over.load(SeqCst) {
        pause(&random, 25_000).await;
        match random.below(3) {
            0 => {
                println!("  the arbiter is away");
                cluster.count("arbiter away");
                cluster.arbiter.set_faults(ArbiterFaults {
                    is_down: true,
                    ..usual
                });
                pause(&random, 9_000).await;
                cluster.arbiter.set_faults(usual);
            }
            1 => cluster.arbiter.change_leader(),
            _ => {}
        }
    }
}
