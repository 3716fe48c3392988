//! The run of a seed: programs work while hosts, disks and connections fail; then all faults end and the cluster
//! becomes idle.

use super::arguments::{both_ways, flags, make, me};
use super::judged::Judge;
use super::own::Own;
use super::plan::Kind;
use super::shared::Sharer;
use super::shared_state::{Commons, FILE_BLOCKS, RECORDS_OF_BLOCK, fill_of};
use super::site::Site;
use super::{faults, intruder, own};
use crate::event_log::EventLog;
use crate::seeds::SeedRun;
use gupfs_client::{Client, WriteOptions};
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::meta::WritePosition;
use gupfs_proto::{InodeId, Name};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// How long faults last, in milliseconds; with one kind of fault programs do twice as much in a second.
const TROUBLE: u64 = 75_000;
const TROUBLE_OF_ONE_KIND: u64 = 25_000;

/// Long enough that sessions end, some of them twice.
const TROUBLE_OF_LONG_CUTS: u64 = 60_000;

/// Files that all programs write.
const SHARED: usize = 2;

/// Without faults the cluster becomes idle within this time.
const REST: Duration = Duration::from_secs(400);

/// # Panics
/// When a promise is broken; the last events are printed.
pub fn run(seed: u64, verbose: bool) -> SeedRun {
    crate::process::on_paused_time(async {
        let site = Site::found(seed, EventLog::new(verbose)).await;
        let (_, client) = site.machines[0].alive().await;
        let random = FakeRandom::new(seed ^ 0xc1_5eed);
        let mut programs = begin(&site, &client, &random).await;
        programs.extend(faults::start(&site, &random));
        let (one, random) = (site.clone(), random.fork());
        let intruder = site.intruder.clone();
        programs.push(site.spawn("intruder", async move {
            intruder::work(one, intruder, random).await;
        }));
        let trouble = match site.troubles.plan().only() {
            None => TROUBLE,
            Some(Kind::LongCuts) => TROUBLE_OF_LONG_CUTS,
            Some(_) => TROUBLE_OF_ONE_KIND,
        };
        let until = site.millis() + trouble;
        while site.millis() < until {
            site.sleep(Duration::from_secs(1)).await;
            site.judge_rights();
        }
        site.ends.store(true, SeqCst);
        for program in programs {
            let ended = program.await;
            assert!(
                ended.is_ok(),
                "seed {seed}: a program found a promise broken (see above)"
            );
        }
        site.judged.lock().judge(site.machines.len(), &site.watch);
        site.judge_rights();
        settle(&site).await;
        site.judge_rights();
        let rare_events = site.watch.rare_events();
        SeedRun {
            events: site.take_events(),
            rare_events,
        }
    })
}

/// Creates directories and files and makes them durable; then starts a program of each kind on each host.
async fn begin(
    site: &Arc<Site>,
    client: &Arc<Client>,
    random: &FakeRandom,
) -> Vec<gupfs_platform::Task<()>> {
    site.lay_out_small(client).await;
    let mut own = Vec::new();
    for number in 0..site.machines.len() {
        let dir = mkdir(client, &format!("own{number}")).await;
        own.push(Own::new(site, number, dir, random.fork()));
    }
    let dir = mkdir(client, "shared").await;
    let mut files = Vec::new();
    for number in 0..SHARED {
        let value = site.value();
        let bytes = fill_of(value, FILE_BLOCKS);
        let ino = create(client, &format!("file{number}"), bytes).await;
        files.push((ino, value));
    }
    let (value, records) = (site.value(), 2 * RECORDS_OF_BLOCK);
    let log = create(client, "log", fill_of(value, 2)).await;
    client.sync_all().await.expect("no fault is injected yet");
    *site.commons.lock() = Commons::begin(dir, &files, (log, value, records));
    let shown: Vec<_> = own.iter().map(own::Own::shown).collect();
    let mut tasks = Vec::new();
    for mut own in own {
        tasks.push(site.spawn("own", async move { own.work().await }));
    }
    for number in 0..site.machines.len() {
        let mut others = shown.clone();
        others.remove(number);
        let mut sharer = Sharer::new(site, number, random.fork(), others);
        tasks.push(site.spawn("shared", async move { sharer.work().await }));
        let mut judge = Judge::new(site, number, random.fork());
        tasks.push(site.spawn("judged", async move { judge.work().await }));
    }
    tasks
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a short name")
}

async fn mkdir(client: &Arc<Client>, text: &str) -> InodeId {
    let (me, name) = (me(), name(text));
    let made = client.mkdir(&me, client.root(), &name, make());
    made.await.expect("no fault is injected yet").ino
}

async fn create(client: &Arc<Client>, text: &str, bytes: Vec<u8>) -> InodeId {
    let (me, name) = (me(), name(text));
    let root = client.root();
    let made = client.create(&me, root, &name, make(), true, both_ways(), flags());
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

/// After the last fault: waits until removed files have returned their space, and stops the clients in order.
async fn settle(site: &Arc<Site>) {
    faults::mend(site);
    let begun = site.millis();
    let late = || site.millis() - begun > REST.as_millis() as u64;
    for (number, machine) in site.machines.iter().enumerate() {
        let (life, client) = machine.alive().await;
        let stopped = machine.run(life, client.stop()).await;
        site.say(format_args!("c{number} stops: {stopped:?}"));
        assert!(!late(), "c{number} does not come to its end");
    }
    let mds = site.metadata.mds().expect("it serves");
    loop {
        let status = mds.status().await;
        if status.purging == Some(0) && status.sweep.left == 0 {
            break;
        }
        assert!(!late(), "{:?} files are never purged", status.purging);
        site.sleep(Duration::from_millis(500)).await;
    }
    mds.stop().await.expect("nothing is faulty");
}
