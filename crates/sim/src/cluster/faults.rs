//! What befalls hosts, disks and connections, by chance.

use super::host::Store;
use super::machine::Machine;
use super::plan::Kind;
use super::site::Site;
use super::troubles::{SYNCED, Trouble};
use gupfs_platform::fake::{CallKind, FakeRandom, FakeDisk};
use std::sync::Arc;
use std::time::Duration;

/// How often a disk that is to die is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A start of a server that nothing keeps from it takes no longer.
const START: u64 = 5_000;

/// How long it is waited for that all clients live and reach the metadata server, before its power is cut.
const ALL_THERE: u64 = 20_000;

/// How long clients are left in peace after the metadata server has started: by then all are back that will be.
const ALL_BACK: u64 = 40_000;

/// A cut as short as this ends no session, whatever else comes with it.
const SHORT_CUT: u64 = 6_000;

/// In this time a client knows whether its session lives, and has another if not.
const FINDS_BACK: Duration = Duration::from_secs(10);

/// A cut as long as this ends a session.
const LONG_CUT: Duration = Duration::from_secs(27);

fn millis(dice: &FakeRandom, most: u64) -> Duration {
    Duration::from_micros(1 + dice.below(most * 1000))
}

/// Mostly short, now and then long.
fn span(dice: &FakeRandom, most: u64) -> Duration {
    let scale = [100, 1_000, 10_000, 60_000][dice.below(4) as usize];
    Duration::from_millis(100) + millis(dice, scale.min(most))
}

/// Until the next fault: where there is one kind alone the story is shorter, too.
async fn pause(site: &Site, dice: &FakeRandom, most: u64) {
    let most = match site.troubles.plan().only() {
        Some(_) => most / 2,
        None => most,
    };
    site.sleep(millis(dice, most)).await;
}

/// Begins them all, each on a task of its own, until the site ends.
pub fn start(site: &Arc<Site>, dice: &FakeRandom) -> Vec<gupfs_platform::Task<()>> {
    let plan = site.troubles.plan();
    site.say(format_args!("{plan:?}"));
    let mut tasks = Vec::new();
    let (one, throws) = (site.clone(), dice.fork());
    if plan.has_metadata_faults() {
        tasks.push(site.spawn(
            "metadata faults",
            async move { metadata(one, throws).await },
        ));
    }
    let (one, throws) = (site.clone(), dice.fork());
    if plan.has_object_faults() {
        tasks.push(site.spawn("object faults", async move {
            objects(one, throws, plan.has_client_faults()).await
        }));
    }
    let (one, throws) = (site.clone(), dice.fork());
    if plan.has_net_faults() {
        tasks.push(site.spawn("net faults", async move { net(one, throws).await }));
    }
    let (one, throws) = (site.clone(), dice.fork());
    if plan.has_client_faults() {
        tasks.push(site.spawn("client faults", async move { clients(one, throws).await }));
    }
    tasks
}

async fn metadata(site: Arc<Site>, dice: FakeRandom) {
    // Half of the seeds never cut this server's power: there what is promised after kills is judged without excuse.
    let cuts_power = dice.one_in(2);
    loop {
        pause(&site, &dice, 16_000).await;
        if site.ends() {
            return;
        }
        let store = &site.metadata.store;
        let what = match site.troubles.plan().only() {
            Some(Kind::MetadataPower) => 1,
            Some(_) => 2,
            None => dice.below(5),
        };
        match what {
            0 if cuts_power => {
                let all_stay = all_there(&site, &dice).await;
                site.troubles.begins(Trouble::MetadataDisk, site.millis());
                store.disk.fail_sync(1 + dice.below(20));
                let before = store.disk.counters().failed_syncs;
                let failed = || store.disk.counters().failed_syncs > before;
                wait_until(&site, 3_000, failed).await;
                site.say("the metadata server's disk fails its sync");
                site.watch.saw("failing sync of the metadata server");
                site.sleep(millis(&dice, 1_000)).await;
                restart_metadata(&site, &dice, Some(all_stay)).await;
                site.troubles.is_over(Trouble::MetadataDisk, site.millis());
                all_back(&site).await;
            }
            1 if cuts_power || site.troubles.plan().only().is_some() => {
                let all_stay = all_there(&site, &dice).await;
                die(&site, &[store], &dice).await;
                restart_metadata(&site, &dice, Some(all_stay)).await;
                all_back(&site).await;
            }
            _ => {
                die(&site, &[store], &dice).await;
                restart_metadata(&site, &dice, None).await;
            }
        }
    }
}

/// Before the metadata server's power is cut: in most cases all clients live and reach it, and do so until `all_back`, so that
/// whatever it answered is to be there afterwards. False if not.
async fn all_there(site: &Site, dice: &FakeRandom) -> bool {
    if site.troubles.plan().only().is_none() && dice.one_in(4) {
        return false;
    }
    let until = site.millis() + ALL_THERE;
    while !site.troubles.all_stay() {
        if site.millis() >= until || site.ends() {
            return false;
        }
        site.sleep(Duration::from_millis(50)).await;
    }
    // What dead clients did last is on the disk.
    site.sleep(Duration::from_millis(SYNCED)).await;
    true
}

/// Returns when the metadata server has heard all whom it waits for.
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
    // What they said again is made again, and answered.
    site.sleep(Duration::from_secs(1)).await;
    site.troubles.may_be_disturbed();
}

async fn objects(site: Arc<Site>, dice: FakeRandom, ends_clients: bool) {
    let cuts_power = dice.one_in(2);
    loop {
        pause(&site, &dice, 12_000).await;
        if site.ends() {
            return;
        }
        let which = dice.below(site.osses.len() as u64) as usize;
        let oss = &site.osses[which];
        let target = &oss.targets[dice.below(oss.targets.len() as u64) as usize];
        let what = match site.troubles.plan().only() {
            Some(Kind::ObjectPower) => 1,
            Some(Kind::FullDisk) => 2,
            Some(_) => 3,
            None => dice.below(6),
        };
        let cuts_power = cuts_power || site.troubles.plan().only().is_some();
        match what {
            0 if cuts_power => {
                site.troubles.begins(Trouble::ObjectDisk, site.millis());
                target.store.disk.fail_sync(1 + dice.below(5));
                let before = target.store.disk.counters().failed_syncs;
                let failed = || target.store.disk.counters().failed_syncs > before;
                wait_until(&site, 3_000, failed).await;
                site.say(format_args!("a disk of oss{which} fails its sync"));
                site.watch.saw("failing sync of an object server");
                site.sleep(millis(&dice, 1_000)).await;
                restart_objects(&site, which, &dice, true).await;
                site.troubles.is_over(Trouble::ObjectDisk, site.millis());
            }
            1 if cuts_power => {
                let stores: Vec<&Store> = oss.targets.iter().map(|target| &target.store).collect();
                die(&site, &stores, &dice).await;
                // A client of the same room, in half of the cases: what it held and had not synced is lost with it.
                let client = dice.below(2 * site.machines.len() as u64) as usize;
                let machine = site.machines.get(client);
                let may_end = ends_clients && machine.is_some() && site.troubles.disturbs();
                let machine = machine.filter(|machine| may_end && machine.take());
                if may_end && machine.is_none() {
                    site.troubles.is_undisturbed();
                }
                if let Some(machine) = machine {
                    site.say(format_args!("c{client} loses power"));
                    site.watch.saw("power cut of a client and an object server");
                    machine.end().await;
                }
                restart_objects(&site, which, &dice, true).await;
                if let Some(machine) = machine {
                    start_client(&site, machine);
                }
            }
            2 => {
                site.say(format_args!("a disk of oss{which} is nearly full"));
                site.watch.saw("full disk");
                site.troubles.begins(Trouble::Full, site.millis());
                target.store.fill(dice.below(200_000)).await;
                site.sleep(millis(&dice, 6_000)).await;
                target.store.make_room();
                site.troubles.is_over(Trouble::Full, site.millis());
            }
            _ => {
                let stores: Vec<&Store> = oss.targets.iter().map(|target| &target.store).collect();
                die(&site, &stores, &dice).await;
                restart_objects(&site, which, &dice, false).await;
            }
        }
    }
}

/// The process dies at some call of one of its disks, not just when everything rests.
async fn die(site: &Site, stores: &[&Store], dice: &FakeRandom) {
    let store = stores[dice.below(stores.len() as u64) as usize];
    let kind = match dice.below(4) {
        0 => CallKind::Sync,
        1 => CallKind::Any,
        _ => CallKind::Write,
    };
    store.disk.die_at(kind, 1 + dice.below(30));
    wait_until(site, 2_000, || store.disk.is_dead()).await;
}

async fn wait_until(site: &Site, most: u64, there: impl Fn() -> bool) {
    let until = site.millis() + most;
    while !there() && site.millis() < until {
        site.sleep(LOOK).await;
    }
}

/// `power_cut`: whether all clients stay.
async fn restart_metadata(site: &Site, dice: &FakeRandom, power_cut: Option<bool>) {
    let undoes = power_cut == Some(false);
    let mut power_cut = power_cut.is_some();
    loop {
        if power_cut {
            site.troubles.metadata_cut(site.millis(), undoes);
            site.cut_names(undoes);
            site.watch.saw(match undoes {
                true => "power cut of the metadata server beside others",
                false => "power cut of the metadata server alone",
            });
        }
        site.say(match power_cut {
            true => "the metadata server loses power",
            false => "the metadata server is killed",
        });
        site.watch.saw(match power_cut {
            true => "power cut of the metadata server",
            false => "kill of the metadata server",
        });
        site.metadata.end(power_cut).await;
        site.sleep(millis(dice, 4_000)).await;
        let dies = dice.one_in(6);
        if dies {
            (site.metadata.store.disk).die_at(CallKind::Any, 1 + dice.below(120));
        }
        let begun = site.millis();
        let started = site.metadata.start().await;
        let found = site.metadata.mds().map(|mds| mds.recovery().clone());
        site.say(format_args!(
            "the metadata server starts: {started:?} {found:?}"
        ));
        if !dies {
            started.expect("nothing keeps the metadata server from its start");
            let took = site.millis() - begun;
            assert!(took < START, "the start took {took} ms");
            return;
        }
        wait_until(site, 1_000, || site.metadata.store.disk.is_dead()).await;
        site.watch.saw("crash in a recovery");
        power_cut &= dice.one_in(2);
    }
}

async fn restart_objects(site: &Site, which: usize, dice: &FakeRandom, power_cut: bool) {
    let oss = &site.osses[which];
    if power_cut {
        site.troubles.object_cut();
        site.cut_bytes();
    }
    site.say(format_args!("oss{which} ends, power cut: {power_cut}"));
    site.watch.saw(match power_cut {
        true => "power cut of an object server",
        false => "kill of an object server",
    });
    oss.end(power_cut).await;
    site.sleep(millis(dice, 4_000)).await;
    let started = oss.start().await;
    site.say(format_args!("oss{which} starts: {started:?}"));
    started.expect("nothing keeps the object server from its start");
}

/// Connections break, and hosts cannot be reached for a while.
async fn net(site: Arc<Site>, dice: FakeRandom) {
    loop {
        pause(&site, &dice, 8_000).await;
        if site.ends() {
            return;
        }
        let only = site.troubles.plan().only();
        let client = dice.below(site.machines.len() as u64) as usize;
        let oss = dice.below(site.osses.len() as u64);
        let (one, other) = match dice.below(5) {
            _ if only == Some(Kind::LongCuts) => (format!("c{client}"), "mds".to_string()),
            0 | 1 => (format!("c{client}"), "mds".to_string()),
            2 | 3 => (format!("c{client}"), format!("oss{oss}")),
            _ => (format!("oss{oss}"), "mds".to_string()),
        };
        if only != Some(Kind::LongCuts) && dice.one_in(2) {
            // Again and again: some break while an answer is on its way.
            let times = 1 + dice.below(25);
            site.say(format_args!("{times} resets between {one} and {other}"));
            for _ in 0..times {
                site.net.reset(&one, &other);
                site.sleep(millis(&dice, 40)).await;
            }
            continue;
        }
        let concerns_metadata = other == "mds" && one.starts_with('c');
        if concerns_metadata && !site.troubles.disturbs() {
            continue; // not now
        }
        let way = dice.below(3);
        let time = match only {
            Some(Kind::LongCuts) => LONG_CUT + millis(&dice, 10_000),
            Some(_) => millis(&dice, SHORT_CUT),
            None => span(&dice, 60_000),
        };
        site.say(format_args!(
            "a cut between {one} and {other}, way {way}, {time:?}"
        ));
        site.watch.saw(match way {
            0 => "cut",
            _ => "cut of one way",
        });
        match way {
            0 => site.net.partition(&one, &other),
            1 => site.net.partition_one_way(&one, &other),
            _ => site.net.partition_one_way(&other, &one),
        }
        if concerns_metadata {
            site.troubles.cut_off(client, site.millis());
        }
        // A client that hears nobody: what it asks of object servers arrives when its session is over.
        let alone = concerns_metadata && dice.one_in(2);
        let ways = || (0..site.osses.len()).map(|oss| format!("oss{oss}"));
        if alone {
            site.watch.saw("client cut off from all servers");
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
            site.spawn("a client finds back", async move {
                there.sleep(FINDS_BACK).await;
                there.troubles.is_undisturbed();
            });
        }
    }
}

/// The client is dead no more when it has a session.
fn start_client(site: &Arc<Site>, machine: &Arc<Machine>) {
    machine.start();
    let (there, machine) = (site.clone(), machine.clone());
    site.spawn("a client starts", async move {
        machine.alive().await;
        there.troubles.is_undisturbed();
    });
}

async fn clients(site: Arc<Site>, dice: FakeRandom) {
    loop {
        pause(&site, &dice, 30_000).await;
        if site.ends() {
            return;
        }
        let which = dice.below(site.machines.len() as u64) as usize;
        let machine = &site.machines[which];
        let sets_clock = match site.troubles.plan().only() {
            Some(kind) => kind == Kind::Clocks,
            None => dice.one_in(3),
        };
        if sets_clock {
            let hosts = site.machines.iter().map(|machine| &machine.host);
            let hosts = hosts.chain(site.osses.iter().map(|oss| &oss.host));
            let hosts: Vec<_> = hosts.chain([&site.metadata.host]).collect();
            let host = hosts[dice.below(hosts.len() as u64) as usize];
            let seconds = dice.below(7_200) as i64 - 3_600;
            site.say(format_args!("the wall of {} jumps {seconds} s", host.name));
            site.watch.saw("clock jump");
            host.jump(seconds);
            continue;
        }
        if !site.troubles.disturbs() {
            continue; // not now
        }
        if !machine.take() {
            site.troubles.is_undisturbed();
            continue; // it is down
        }
        site.say(format_args!("c{which} is killed"));
        site.watch.saw("kill of a client");
        machine.end().await;
        site.sleep(span(&dice, 30_000)).await;
        start_client(&site, machine);
    }
}

/// Disks with room, and no cut: from here on nothing fails.
pub fn mend(site: &Site) {
    site.net.heal_all();
    for (client, _) in site.machines.iter().enumerate() {
        site.troubles.back(client, site.millis());
    }
    let targets = site.osses.iter().flat_map(|oss| &oss.targets);
    targets.for_each(|target| target.store.make_room());
    let stores = site.osses.iter().flat_map(|oss| oss.disks());
    let dead = |disk: &FakeDisk| disk.is_dead();
    assert!(!stores.into_iter().any(|disk| dead(&disk)), "all run");
}
