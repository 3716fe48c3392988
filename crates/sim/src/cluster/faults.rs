//! What befalls hosts, disks and connections, by chance.

use super::host::Store;
use super::site::Site;
use super::troubles::Trouble;
use gupfs_world::fake::{CallKind, FakeDice, FakeDisk};
use std::sync::Arc;
use std::time::Duration;

/// How often a disk that is to die is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A start of a server that nothing keeps from it takes no longer.
const START: u64 = 5_000;

fn millis(dice: &FakeDice, most: u64) -> Duration {
    Duration::from_micros(1 + dice.below(most * 1000))
}

/// Mostly short, now and then long.
fn span(dice: &FakeDice, most: u64) -> Duration {
    let scale = [100, 1_000, 10_000, 60_000][dice.below(4) as usize];
    Duration::from_millis(100) + millis(dice, scale.min(most))
}

/// Begins them all, each on a task of its own, until the site ends.
pub fn start(site: &Arc<Site>, dice: &FakeDice) -> Vec<gupfs_world::Task<()>> {
    let calm = dice.below(4);
    let mut tasks = Vec::new();
    let (one, throws) = (site.clone(), dice.fork());
    if calm != 0 {
        tasks.push(site.spawn(
            "metadata faults",
            async move { metadata(one, throws).await },
        ));
    }
    let (one, throws) = (site.clone(), dice.fork());
    if calm != 1 {
        tasks.push(site.spawn("object faults", async move {
            objects(one, throws, calm != 2).await
        }));
    }
    let (one, throws) = (site.clone(), dice.fork());
    tasks.push(site.spawn("net faults", async move { net(one, throws).await }));
    let (one, throws) = (site.clone(), dice.fork());
    if calm != 2 {
        tasks.push(site.spawn("client faults", async move { clients(one, throws).await }));
    }
    tasks
}

async fn metadata(site: Arc<Site>, dice: FakeDice) {
    // Half of the seeds never cut this server's power: there what is promised after kills is judged without excuse.
    let cuts_power = dice.one_in(2);
    loop {
        site.sleep(millis(&dice, 16_000)).await;
        if site.ends() {
            return;
        }
        let store = &site.metadata.store;
        match dice.below(5) {
            0 if cuts_power => {
                site.troubles.is_there(Trouble::MetadataDisk, site.millis());
                store.disk.fail_sync(1 + dice.below(20));
                let before = store.disk.counters().failed_syncs;
                let failed = || store.disk.counters().failed_syncs > before;
                wait_until(&site, 3_000, failed).await;
                site.say("the metadata server's disk fails its sync");
                site.troubles.is_there(Trouble::MetadataDisk, site.millis());
                site.watch.saw("failing sync of the metadata server");
                site.sleep(millis(&dice, 1_000)).await;
                restart_metadata(&site, &dice, true).await;
            }
            1 if cuts_power => {
                die(&site, &[store], &dice).await;
                restart_metadata(&site, &dice, true).await;
            }
            _ => {
                die(&site, &[store], &dice).await;
                restart_metadata(&site, &dice, false).await;
            }
        }
    }
}

async fn objects(site: Arc<Site>, dice: FakeDice, ends_clients: bool) {
    let cuts_power = dice.one_in(2);
    loop {
        site.sleep(millis(&dice, 12_000)).await;
        if site.ends() {
            return;
        }
        let which = dice.below(site.osses.len() as u64) as usize;
        let oss = &site.osses[which];
        let target = &oss.targets[dice.below(oss.targets.len() as u64) as usize];
        match dice.below(6) {
            0 if cuts_power => {
                site.troubles.is_there(Trouble::ObjectDisk, site.millis());
                target.store.disk.fail_sync(1 + dice.below(5));
                let before = target.store.disk.counters().failed_syncs;
                let failed = || target.store.disk.counters().failed_syncs > before;
                wait_until(&site, 3_000, failed).await;
                site.say(format_args!("a disk of oss{which} fails its sync"));
                site.troubles.is_there(Trouble::ObjectDisk, site.millis());
                site.watch.saw("failing sync of an object server");
                site.sleep(millis(&dice, 1_000)).await;
                restart_objects(&site, which, &dice, true).await;
            }
            1 if cuts_power => {
                let stores: Vec<&Store> = oss.targets.iter().map(|target| &target.store).collect();
                die(&site, &stores, &dice).await;
                // A client of the same room, in half of the cases: what it held and had not synced is lost with it.
                let client = dice.below(2 * site.machines.len() as u64) as usize;
                let machine = site.machines.get(client);
                let machine = machine.filter(|machine| ends_clients && machine.take());
                if let Some(machine) = machine {
                    site.say(format_args!("c{client} loses power"));
                    site.watch.saw("power cut of a client and an object server");
                    machine.end().await;
                }
                restart_objects(&site, which, &dice, true).await;
                if let Some(machine) = machine {
                    machine.start();
                }
            }
            2 => {
                site.say(format_args!("a disk of oss{which} is nearly full"));
                site.watch.saw("full disk");
                site.troubles.is_there(Trouble::Full, site.millis());
                target.store.fill(dice.below(200_000)).await;
                site.sleep(millis(&dice, 6_000)).await;
                target.store.make_room();
                site.troubles.is_there(Trouble::Full, site.millis());
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
async fn die(site: &Site, stores: &[&Store], dice: &FakeDice) {
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

async fn restart_metadata(site: &Site, dice: &FakeDice, mut power_cut: bool) {
    loop {
        if power_cut {
            site.troubles.metadata_cut(site.millis());
            site.cut_names();
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

async fn restart_objects(site: &Site, which: usize, dice: &FakeDice, power_cut: bool) {
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
async fn net(site: Arc<Site>, dice: FakeDice) {
    loop {
        site.sleep(millis(&dice, 8_000)).await;
        if site.ends() {
            return;
        }
        let client = dice.below(site.machines.len() as u64) as usize;
        let oss = dice.below(site.osses.len() as u64);
        let (one, other) = match dice.below(5) {
            0 | 1 => (format!("c{client}"), "mds".to_string()),
            2 | 3 => (format!("c{client}"), format!("oss{oss}")),
            _ => (format!("oss{oss}"), "mds".to_string()),
        };
        if dice.one_in(2) {
            // Again and again: some break while an answer is on its way.
            let times = 1 + dice.below(25);
            site.say(format_args!("{times} resets between {one} and {other}"));
            for _ in 0..times {
                site.net.reset(&one, &other);
                site.sleep(millis(&dice, 40)).await;
            }
            continue;
        }
        let way = dice.below(3);
        let time = span(&dice, 60_000);
        site.say(format_args!(
            "a cut between {one} and {other}, way {way}, {time:?}"
        ));
        site.watch.saw(match way {
            0 => "cut",
            _ => "cut of one way",
        });
        match way {
            0 => site.net.cut(&one, &other),
            1 => site.net.cut_way(&one, &other),
            _ => site.net.cut_way(&other, &one),
        }
        let concerns_metadata = other == "mds" && one.starts_with('c');
        if concerns_metadata {
            site.troubles.cut_off(client, site.millis());
        }
        site.sleep(time).await;
        site.net.heal(&one, &other);
        if concerns_metadata {
            site.troubles.back(client, site.millis());
        }
    }
}

async fn clients(site: Arc<Site>, dice: FakeDice) {
    loop {
        site.sleep(millis(&dice, 30_000)).await;
        if site.ends() {
            return;
        }
        let which = dice.below(site.machines.len() as u64) as usize;
        let machine = &site.machines[which];
        if dice.one_in(3) {
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
        if !machine.take() {
            continue; // it is down
        }
        site.say(format_args!("c{which} is killed"));
        site.watch.saw("kill of a client");
        machine.end().await;
        site.sleep(span(&dice, 30_000)).await;
        machine.start();
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
