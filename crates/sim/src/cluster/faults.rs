//! Injects random faults into hosts, disks and connections.

use super::host::Store;
use super::machine::Machine;
use super::plan::Kind;
use super::site::Site;
use super::troubles::{SYNCED, Trouble};
use gupfs_platform::fake::{CallKind, FakeDisk, FakeRandom};
use std::sync::Arc;
use std::time::Duration;

/// Interval at which the fault task checks a disk that is about to die.
const LOOK: Duration = Duration::from_millis(5);

/// Longest time that the start of a server takes when nothing blocks it, in milliseconds.
const START: u64 = 5_000;

/// Longest wait until all clients live and reach the metadata server, before the metadata server loses power, in
/// milliseconds.
const ALL_THERE: u64 = 20_000;

/// Time without client faults after the start of the metadata server, in milliseconds: by then every client that can
/// reconnect has.
const ALL_BACK: u64 = 40_000;

/// A network partition of at most this many milliseconds ends no session, whatever other faults occur during it.
const SHORT_CUT: u64 = 6_000;

/// Within this time a client learns whether its session lives, and has a new session if it does not.
const FINDS_BACK: Duration = Duration::from_secs(10);

/// A network partition of this length ends a session.
const LONG_CUT: Duration = Duration::from_secs(27);

fn millis(random: &FakeRandom, most: u64) -> Duration {
    Duration::from_micros(1 + random.below(most * 1000))
}

/// A random duration: mostly short, sometimes long.
fn span(random: &FakeRandom, most: u64) -> Duration {
    let scale = [100, 1_000, 10_000, 60_000][random.below(4) as usize];
    Duration::from_millis(100) + millis(random, scale.min(most))
}

/// Sleeps until the next fault. A seed with one kind of fault runs for a shorter time, so the pauses are shorter, too.
async fn pause(site: &Site, random: &FakeRandom, most: u64) {
    let most = match site.troubles.plan().only() {
        Some(_) => most / 2,
        None => most,
    };
    site.sleep(millis(random, most)).await;
}

/// Starts every kind of fault of the seed's plan, each on a task of its own, until the simulation ends.
pub fn start(site: &Arc<Site>, random: &FakeRandom) -> Vec<gupfs_platform::Task<()>> {
    let plan = site.troubles.plan();
    site.say(format_args!("{plan:?}"));
    let mut tasks = Vec::new();
    let (one, task_random) = (site.clone(), random.fork());
    if plan.has_metadata_faults() {
        tasks.push(site.spawn("metadata faults", async move {
            metadata(one, task_random).await
        }));
    }
    let (one, task_random) = (site.clone(), random.fork());
    if plan.has_object_faults() {
        tasks.push(site.spawn("object faults", async move {
            objects(one, task_random, plan.has_client_faults()).await
        }));
    }
    let (one, task_random) = (site.clone(), random.fork());
    if plan.has_net_faults() {
        tasks.push(site.spawn("net faults", async move { net(one, task_random).await }));
    }
    let (one, task_random) = (site.clone(), random.fork());
    if plan.has_client_faults() {
        tasks.push(site.spawn(
            "client faults",
            async move { clients(one, task_random).await },
        ));
    }
    tasks
}

async fn metadata(site: Arc<Site>, random: FakeRandom) {
    // In half of the seeds this server never loses power: there the checks of promises about kills allow no exception.
    let cuts_power = random.one_in(2);
    loop {
        pause(&site, &random, 16_000).await;
        if site.ends() {
            return;
        }
        let store = &site.metadata.store;
        let what = match site.troubles.plan().only() {
            Some(Kind::MetadataPower) => 1,
            Some(_) => 2,
            None => random.below(5),
        };
        match what {
            0 if cuts_power => {
                let all_stay = all_there(&site, &random).await;
                site.troubles.begins(Trouble::MetadataDisk, site.millis());
                store.disk.fail_sync(1 + random.below(20));
                let before = store.disk.counters().failed_syncs;
                let failed = || store.disk.counters().failed_syncs > before;
                wait_until(&site, 3_000, failed).await;
                site.say("a sync of the metadata server's disk fails");
                site.watch.count("failed sync of the metadata server");
                site.sleep(millis(&random, 1_000)).await;
                restart_metadata(&site, &random, Some(all_stay)).await;
                site.troubles.is_over(Trouble::MetadataDisk, site.millis());
                all_back(&site).await;
            }
            1 if cuts_power || site.troubles.plan().only().is_some() => {
                let all_stay = all_there(&site, &random).await;
                die(&site, &[store], &random).await;
                restart_metadata(&site, &random, Some(all_stay)).await;
                all_back(&site).await;
            }
            _ => {
                die(&site, &[store], &random).await;
                restart_metadata(&site, &random, None).await;
            }
        }
    }
}

/// Runs before a power loss of the metadata server: in most cases it waits until all clients live and reach the
/// server, and they do so until `all_back`, so that every change the server answered must be there afterwards. Returns
/// false if not.
async fn all_there(site: &Site, random: &FakeRandom) -> bool {
    if site.troubles.plan().only().is_none() && random.one_in(4) {
        return false;
    }
    let until = site.millis() + ALL_THERE;
    while !site.troubles.all_stay() {
        if site.millis() >= until || site.ends() {
            return false;
        }
        site.sleep(Duration::from_millis(50)).await;
    }
    // By now the last changes of dead clients are on the disk.
    site.sleep(Duration::from_millis(SYNCED)).await;
    true
}

/// Returns when every client that the metadata server waits for has reconnected.
async fn all_back(site: &Site) {
    let until = site.millis() + ALL_BACK;
    while site.millis() < until {
        site.sleep(Duration::from_millis(200)).await;
        let Some(mds) = site.metadata.mds() else {
            continue;
        };
        if mds.status().await.missing.is_empty() {
            break;
        }
    }
    // By now the server has applied the replayed requests and answered them.
    site.sleep(Duration::from_secs(1)).await;
    site.troubles.may_be_disturbed();
}

async fn objects(site: Arc<Site>, random: FakeRandom, ends_clients: bool) {
    let cuts_power = random.one_in(2);
    loop {
        pause(&site, &random, 12_000).await;
        if site.ends() {
            return;
        }
        let which = random.below(site.osses.len() as u64) as usize;
        let oss = &site.osses[which];
        let target = &oss.targets[random.below(oss.targets.len() as u64) as usize];
        let what = match site.troubles.plan().only() {
            Some(Kind::ObjectPower) => 1,
            Some(Kind::FullDisk) => 2,
            Some(_) => 3,
            None => random.below(6),
        };
        let cuts_power = cuts_power || site.troubles.plan().only().is_some();
        match what {
            0 if cuts_power => {
                site.troubles.begins(Trouble::ObjectDisk, site.millis());
                target.store.disk.fail_sync(1 + random.below(5));
                let before = target.store.disk.counters().failed_syncs;
                let failed = || target.store.disk.counters().failed_syncs > before;
                wait_until(&site, 3_000, failed).await;
                site.say(format_args!("a sync of a disk of oss{which} fails"));
                site.watch.count("failed sync of an object server");
                site.sleep(millis(&random, 1_000)).await;
                restart_objects(&site, which, &random, true).await;
                site.troubles.is_over(Trouble::ObjectDisk, site.millis());
            }
            1 if cuts_power => {
                let stores: Vec<&Store> = oss.targets.iter().map(|target| &target.store).collect();
                die(&site, &stores, &random).await;
                // In half of the cases a client that shares the power supply fails, too: the unsynced bytes that it
                // kept for its write leases are lost with it.
                let client = random.below(2 * site.machines.len() as u64) as usize;
                let machine = site.machines.get(client);
                let may_end = ends_clients && machine.is_some() && site.troubles.disturbs();
                let machine = machine.filter(|machine| may_end && machine.take());
                if may_end && machine.is_none() {
                    site.troubles.is_undisturbed();
                }
                if let Some(machine) = machine {
                    site.say(format_args!("c{client} loses power"));
                    site.watch
                        .count("power loss of a client and an object server");
                    machine.end().await;
                }
                restart_objects(&site, which, &random, true).await;
                if let Some(machine) = machine {
                    start_client(&site, machine);
                }
            }
            2 => {
                site.say(format_args!("a disk of oss{which} is nearly full"));
                site.watch.count("full disk");
                site.troubles.begins(Trouble::Full, site.millis());
                target.store.fill(random.below(200_000)).await;
                site.sleep(millis(&random, 6_000)).await;
                target.store.make_room();
                site.troubles.is_over(Trouble::Full, site.millis());
            }
            _ => {
                let stores: Vec<&Store> = oss.targets.iter().map(|target| &target.store).collect();
                die(&site, &stores, &random).await;
                restart_objects(&site, which, &random, false).await;
            }
        }
    }
}

/// The process dies at a random call of one of its disks, so also in the middle of an operation.
async fn die(site: &Site, stores: &[&Store], random: &FakeRandom) {
    let store = stores[random.below(stores.len() as u64) as usize];
    let kind = match random.below(4) {
        0 => CallKind::Sync,
        1 => CallKind::Any,
        _ => CallKind::Write,
    };
    store.disk.die_at(kind, 1 + random.below(30));
    wait_until(site, 2_000, || store.disk.is_dead()).await;
}

async fn wait_until(site: &Site, most: u64, there: impl Fn() -> bool) {
    let until = site.millis() + most;
    while !there() && site.millis() < until {
        site.sleep(LOOK).await;
    }
}

/// `power_cut`: None for a kill; for a power loss, whether all clients live and reach the server throughout.
async fn restart_metadata(site: &Site, random: &FakeRandom, power_cut: Option<bool>) {
    let undoes = power_cut == Some(false);
    let mut power_cut = power_cut.is_some();
    loop {
        if power_cut {
            site.troubles.metadata_cut(site.millis(), undoes);
            site.cut_names(undoes);
            site.watch.count(match undoes {
                true => "power loss of the metadata server while a client is absent",
                false => "power loss of the metadata server while all clients stay",
            });
        }
        site.say(match power_cut {
            true => "the metadata server loses power",
            false => "the metadata server is killed",
        });
        site.watch.count(match power_cut {
            true => "power loss of the metadata server",
            false => "kill of the metadata server",
        });
        site.metadata.end(power_cut).await;
        site.sleep(millis(random, 4_000)).await;
        let dies = random.one_in(6);
        if dies {
            (site.metadata.store.disk).die_at(CallKind::Any, 1 + random.below(120));
        }
        let begun = site.millis();
        let started = site.metadata.start().await;
        let found = site.metadata.mds().map(|mds| mds.recovery().clone());
        site.say(format_args!(
            "the metadata server starts: {started:?} {found:?}"
        ));
        if !dies {
            started.expect("the metadata server starts when its disk works");
            let took = site.millis() - begun;
            assert!(took < START, "the metadata server took {took} ms to start");
            return;
        }
        wait_until(site, 1_000, || site.metadata.store.disk.is_dead()).await;
        site.watch.count("crash during recovery");
        power_cut &= random.one_in(2);
    }
}

async fn restart_objects(site: &Site, which: usize, random: &FakeRandom, power_cut: bool) {
    let oss = &site.osses[which];
    if power_cut {
        site.troubles.object_cut();
        site.cut_bytes();
    }
    site.say(format_args!("oss{which} ends, power loss: {power_cut}"));
    site.watch.count(match power_cut {
        true => "power loss of an object server",
        false => "kill of an object server",
    });
    oss.end(power_cut).await;
    site.sleep(millis(random, 4_000)).await;
    let started = oss.start().await;
    site.say(format_args!("oss{which} starts: {started:?}"));
    started.expect("the object server starts when its disks work");
}

/// Breaks connections, and partitions hosts for a while.
async fn net(site: Arc<Site>, random: FakeRandom) {
    loop {
        pause(&site, &random, 8_000).await;
        if site.ends() {
            return;
        }
        let only = site.troubles.plan().only();
        let client = random.below(site.machines.len() as u64) as usize;
        let oss = random.below(site.osses.len() as u64);
        let (one, other) = match random.below(5) {
            _ if only == Some(Kind::LongCuts) => (format!("c{client}"), "mds".to_string()),
            0 | 1 => (format!("c{client}"), "mds".to_string()),
            2 | 3 => (format!("c{client}"), format!("oss{oss}")),
            _ => (format!("oss{oss}"), "mds".to_string()),
        };
        if only != Some(Kind::LongCuts) && random.one_in(2) {
            // Many resets in a row: some of them break the connection while a reply is in transit.
            let times = 1 + random.below(25);
            site.say(format_args!("{times} resets between {one} and {other}"));
            for _ in 0..times {
                site.net.reset(&one, &other);
                site.sleep(millis(&random, 40)).await;
            }
            continue;
        }
        let concerns_metadata = other == "mds" && one.starts_with('c');
        if concerns_metadata && !site.troubles.disturbs() {
            continue; // not now
        }
        let way = random.below(3);
        let time = match only {
            Some(Kind::LongCuts) => LONG_CUT + millis(&random, 10_000),
            Some(_) => millis(&random, SHORT_CUT),
            None => span(&random, 60_000),
        };
        site.say(format_args!(
            "partition between {one} and {other}, direction {way}, {time:?}"
        ));
        site.watch.count(match way {
            0 => "network partition",
            _ => "network partition in one direction",
        });
        match way {
            0 => site.net.partition(&one, &other),
            1 => site.net.partition_one_way(&one, &other),
            _ => site.net.partition_one_way(&other, &one),
        }
        if concerns_metadata {
            site.troubles.cut_off(client, site.millis());
        }
        // The client receives nothing from any server, but its requests still reach the object servers: they arrive
        // after its session has ended.
        let alone = concerns_metadata && random.one_in(2);
        let ways = || (0..site.osses.len()).map(|oss| format!("oss{oss}"));
        if alone {
            site.watch.count("client partitioned from all servers");
            ways().for_each(|oss| site.net.partition_one_way(&one, &oss));
        }
        site.sleep(time).await;
        if alone {
            ways().for_each(|oss| site.net.heal(&one, &oss));
        }
        site.net.heal(&one, &other);
        if concerns_metadata {
            site.troubles.back(client, site.millis());
            let there = site.clone();
            site.spawn("a client reconnects", async move {
                there.sleep(FINDS_BACK).await;
                there.troubles.is_undisturbed();
            });
        }
    }
}

/// Starts the client; it counts as dead until it has a session.
fn start_client(site: &Arc<Site>, machine: &Arc<Machine>) {
    machine.start();
    let (there, machine) = (site.clone(), machine.clone());
    site.spawn("a client starts", async move {
        machine.alive().await;
        there.troubles.is_undisturbed();
    });
}

async fn clients(site: Arc<Site>, random: FakeRandom) {
    loop {
        pause(&site, &random, 30_000).await;
        if site.ends() {
            return;
        }
        let which = random.below(site.machines.len() as u64) as usize;
        let machine = &site.machines[which];
        let sets_clock = match site.troubles.plan().only() {
            Some(kind) => kind == Kind::Clocks,
            None => random.one_in(3),
        };
        if sets_clock {
            let hosts = site.machines.iter().map(|machine| &machine.host);
            let hosts = hosts.chain(site.osses.iter().map(|oss| &oss.host));
            let hosts: Vec<_> = hosts.chain([&site.metadata.host]).collect();
            let host = hosts[random.below(hosts.len() as u64) as usize];
            let seconds = random.below(7_200) as i64 - 3_600;
            site.say(format_args!(
                "the wall clock of {} jumps {seconds} s",
                host.name
            ));
            site.watch.count("clock jump");
            host.jump(seconds);
            continue;
        }
        if !site.troubles.disturbs() {
            continue; // not now
        }
        if !machine.take() {
            site.troubles.is_undisturbed();
            continue; // another fault task has already taken it down
        }
        site.say(format_args!("c{which} is killed"));
        site.watch.count("kill of a client");
        machine.end().await;
        site.sleep(span(&random, 30_000)).await;
        start_client(&site, machine);
    }
}

/// Frees disk space and heals all partitions: from here on nothing fails.
pub fn mend(site: &Site) {
    site.net.heal_all();
    for (client, _) in site.machines.iter().enumerate() {
        site.troubles.back(client, site.millis());
    }
    let targets = site.osses.iter().flat_map(|oss| &oss.targets);
    targets.for_each(|target| target.store.make_room());
    let stores = site.osses.iter().flat_map(|oss| oss.disks());
    let dead = |disk: &FakeDisk| disk.is_dead();
    assert!(
        !stores.into_iter().any(|disk| dead(&disk)),
        "no disk is dead at the end"
    );
}
