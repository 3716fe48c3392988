//! Random operations, random deaths: what was synced is there, what nobody wrote is untouched, and no checksum is
//! wrong, whenever the power goes.

use crate::model::{Model, overwrite};
use crate::scene::*;
use gupfs_platform::fake::{CallKind, FakeDice};
use gupfs_proto::ObjectOffset;
use gupfs_proto::limits::REGION;
use gupfs_proto::refusal::ObjectDamage;
use gupfs_store::object::{Objects, Scrub, Verify};
use std::time::Duration;

const OBJECTS: u64 = 3;
/// Of one life, if nothing kills it before.
const OPERATIONS: u64 = 60;
/// A little more than a region, so that borders are crossed and the model stays small.
const REACH: u64 = REGION + 50_000;

struct Town {
    house: House,
    dice: FakeDice,
    model: Model,
    log: Vec<String>,
}

enum Change {
    Write(u64, Vec<u8>),
    Cut(u64),
    Zero(u64, u64, bool),
    Remove,
}

impl Change {
    fn throw(dice: &FakeDice, version: u64) -> Change {
        let unit = match dice.one_in(2) {
            true => 4096,
            false => 1,
        };
        let at = dice.below(REACH) / unit * unit;
        match dice.below(20) {
            0 => Change::Remove,
            1..3 => Change::Cut(at),
            3..5 => Change::Zero(at, 1 + dice.below(100_000), dice.one_in(2)),
            5 => Change::Write(at, pattern(version, at, REGION)),
            _ => {
                let len = (1 + dice.below(40_000)).next_multiple_of(unit);
                Change::Write(at, pattern(version, at, len))
            }
        }
    }

    fn apply(&self, state: Option<Vec<u8>>) -> Option<Vec<u8>> {
        match self {
            Change::Write(at, data) => {
                let mut bytes = state.unwrap_or_default();
                overwrite(&mut bytes, *at, data);
                Some(bytes)
            }
            Change::Cut(to) => state.map(|mut bytes| {
                bytes.truncate(*to as usize);
                bytes
            }),
            Change::Zero(at, len, _) => state.map(|mut bytes| {
                let end = bytes.len().min((at + len) as usize);
                let from = end.min(*at as usize);
                bytes[from..end].fill(0);
                bytes
            }),
            Change::Remove => None,
        }
    }

    async fn run(&self, objects: &Objects, ino: u64) -> bool {
        let id = object(ino);
        let done = match self {
            Change::Write(at, data) => write(objects, id, *at, data).await.map(|_| ()),
            Change::Cut(to) => objects.cut(id, *to).await.map(|_| ()),
            Change::Zero(at, len, punch) => {
                let zeroed = objects.zero(id, ObjectOffset(*at), *len, *punch).await;
                zeroed.map(|_| ())
            }
            Change::Remove => objects.remove(id).await,
        };
        done.is_ok()
    }

    fn shown(&self, ino: u64) -> String {
        match self {
            Change::Write(at, data) => format!("write {ino} {at}+{}", data.len()),
            Change::Cut(to) => format!("cut {ino} {to}"),
            Change::Zero(at, len, punch) => format!("zero {ino} {at}+{len} punch={punch}"),
            Change::Remove => format!("remove {ino}"),
        }
    }
}

impl Town {
    fn new(seed: u64) -> Town {
        let house = House::new(seed, seed % 2 == 1);
        Town {
            dice: house.platform.dice.fork(),
            house,
            model: Model::new(),
            log: Vec::new(),
        }
    }

    fn say(&mut self, what: String) {
        self.log.push(what);
    }

    /// What an object holds now; None if it does not exist.
    async fn found(&self, objects: &Objects, ino: u64) -> Option<Vec<u8>> {
        let id = object(ino);
        let missing = damage(id, ObjectDamage::Missing);
        let read = match objects.stat(id).await {
            Ok(None) => return None,
            Ok(Some(stat)) => {
                let read = read(objects, id, 0, REACH + 2 * REGION).await;
                read.inspect(|bytes| assert_eq!(bytes.len() as u64, stat.size))
            }
            Err(refused) => Err(refused),
        };
        match read {
            Ok(bytes) => Some(bytes),
            // A removal of which the power cut left the half: who wanted it gone does it again.
            Err(refused) if refused == missing && self.model[&ino].may_be_absent() => {
                objects.remove(id).await.unwrap();
                None
            }
            Err(refused) => panic!("{refused}\n{}", self.log.join("\n")),
        }
    }

    /// One life: opens, looks, works until it dies or is killed.
    async fn live(&mut self, after_power_cut: bool) {
        let Ok(objects) = self.house.try_open().await else {
            assert!(self.house.disk.is_dead(), "{}", self.log.join("\n"));
            return;
        };
        for ino in 0..OBJECTS {
            if self.house.disk.is_dead() {
                return;
            }
            self.model.entry(ino).or_default();
            let found = self.found(&objects, ino).await;
            let history = self.model.entry(ino).or_default();
            let possible = match after_power_cut {
                true => history.looked_after_power_cut(&found),
                false => history.looked_after_kill(&found),
            };
            if let Err(wrong) = possible {
                panic!("object {ino}: {wrong}\n{}", self.log.join("\n"));
            }
        }
        let (kind, most) = [
            (CallKind::Any, 150),
            (CallKind::Sync, 12),
            (CallKind::Write, 40),
        ][self.dice.below(3) as usize];
        let dies = 1 + self.dice.below(most);
        self.house.disk.die_at(kind, dies);
        let mut operations = 0;
        while !self.house.disk.is_dead() {
            operations += 1;
            if operations > OPERATIONS {
                self.house.disk.kill();
            }
            let ino = self.dice.below(OBJECTS);
            match self.dice.below(12) {
                0 => {
                    self.say(format!("sync {ino}"));
                    if objects.sync(&[object(ino)]).await.is_ok() {
                        self.model.entry(ino).or_default().synced();
                    }
                }
                1 => {
                    self.say("wait".into());
                    self.house.sleep(Duration::from_secs(7)).await;
                }
                2 => {
                    self.say("settle".into());
                    let _ = objects.settle().await;
                }
                3 if !self.house.disk.is_dead() => {
                    let at = self.dice.below(REACH);
                    let len = 1 + self.dice.below(300_000);
                    self.say(format!("read {ino} {at}+{len}"));
                    let Ok(bytes) = read(&objects, object(ino), at, len).await else {
                        assert!(self.house.disk.is_dead(), "{}", self.log.join("\n"));
                        break;
                    };
                    let all = self.model.entry(ino).or_default().bytes();
                    let from = all.len().min(at as usize);
                    let to = all.len().min((at + len) as usize);
                    assert!(bytes == all[from..to], "{}", self.log.join("\n"));
                }
                _ => self.change(&objects, ino).await,
            }
        }
    }

    async fn change(&mut self, objects: &Objects, ino: u64) {
        let version = self.dice.u64();
        let change = Change::throw(&self.dice, version);
        self.say(change.shown(ino));
        let after = change.apply(self.model.entry(ino).or_default().now().clone());
        let done = match self.dice.one_in(4) {
            true => tokio::join!(change.run(objects, ino), objects.settle()).0,
            false => change.run(objects, ino).await,
        };
        assert!(
            done || self.house.disk.is_dead(),
            "refused\n{}",
            self.log.join("\n")
        );
        if !done {
            self.say("(died)".into());
        }
        self.model.entry(ino).or_default().push(after, done);
    }
}

async fn lives(seed: u64, count: u64) -> u64 {
    let mut town = Town::new(seed);
    town.house.fresh().await;
    town.house.cut_power();
    let mut cuts = 0;
    let mut power_cut = true;
    for _ in 0..count {
        town.live(power_cut).await;
        power_cut = town.dice.one_in(2);
        cuts += u64::from(power_cut);
        match power_cut {
            true => {
                town.say("--- power cut".into());
                town.house.cut_power();
            }
            false => {
                town.say("--- killed".into());
                town.house.kill();
            }
        }
    }
    // At last one that looks at everything.
    let objects = town.house.open().await;
    objects.settle().await.unwrap();
    let scrubbed = objects
        .scrub(Scrub::new(Verify::All), |_| {})
        .await
        .unwrap();
    assert_eq!(scrubbed.damaged, [], "{}", town.log.join("\n"));
    cuts
}

#[tokio::test(start_paused = true)]
async fn whenever_the_power_goes_what_was_synced_is_there_and_no_sum_is_wrong() {
    let mut cuts = 0;
    for seed in 0..80 {
        cuts += lives(seed, 10).await;
    }
    assert!(cuts > 300, "{cuts} power cuts");
}
