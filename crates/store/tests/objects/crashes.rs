//! Random operations and random crashes: after any power loss synced bytes are there, bytes that no operation wrote are
//! unchanged, and no checksum is wrong.

use crate::fixture::*;
use crate::model::{Model, overwrite};
use gupfs_platform::fake::{CallKind, FakeRandom};
use gupfs_proto::ObjectOffset;
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::limits::REGION;
use gupfs_store::object::{Objects, ScrubOptions, ScrubScope};
use std::time::Duration;

const OBJECTS: u64 = 3;
/// Operations of one instance, if it is not killed before.
const OPERATIONS: u64 = 60;
/// A little more than a region, so that operations cross region boundaries and the model stays small.
const REACH: u64 = REGION + 50_000;

struct CrashTest {
    fixture: Fixture,
    random: FakeRandom,
    model: Model,
    log: Vec<String>,
}

enum Operation {
    Write(u64, Vec<u8>),
    Cut(u64),
    Zero(u64, u64, bool),
    Remove,
}

impl Operation {
    fn random(random: &FakeRandom, version: u64) -> Operation {
        let unit = match random.one_in(2) {
            true => 4096,
            false => 1,
        };
        let at = random.below(REACH) / unit * unit;
        match random.below(20) {
            0 => Operation::Remove,
            1..3 => Operation::Cut(at),
            3..5 => Operation::Zero(at, 1 + random.below(100_000), random.one_in(2)),
            5 => Operation::Write(at, pattern(version, at, REGION)),
            _ => {
                let len = (1 + random.below(40_000)).next_multiple_of(unit);
                Operation::Write(at, pattern(version, at, len))
            }
        }
    }

    fn apply(&self, state: Option<Vec<u8>>) -> Option<Vec<u8>> {
        match self {
            Operation::Write(at, data) => {
                let mut bytes = state.unwrap_or_default();
                overwrite(&mut bytes, *at, data);
                Some(bytes)
            }
            Operation::Cut(to) => state.map(|mut bytes| {
                bytes.truncate(*to as usize);
                bytes
            }),
            Operation::Zero(at, len, _) => state.map(|mut bytes| {
                let end = bytes.len().min((at + len) as usize);
                let from = end.min(*at as usize);
                bytes[from..end].fill(0);
                bytes
            }),
            Operation::Remove => None,
        }
    }

    async fn run(&self, objects: &Objects, ino: u64) -> bool {
        let id = object(ino);
        let done = match self {
            Operation::Write(at, data) => write(objects, id, *at, data).await.map(|_| ()),
            Operation::Cut(to) => objects.truncate(id, *to).await.map(|_| ()),
            Operation::Zero(at, len, punch) => {
                let zeroed = objects.zero(id, ObjectOffset(*at), *len, *punch).await;
                zeroed.map(|_| ())
            }
            Operation::Remove => objects.remove(id).await,
        };
        done.is_ok()
    }

    fn describe(&self, ino: u64) -> String {
        match self {
            Operation::Write(at, data) => format!("write {ino} {at}+{}", data.len()),
            Operation::Cut(to) => format!("cut {ino} {to}"),
            Operation::Zero(at, len, punch) => format!("zero {ino} {at}+{len} punch={punch}"),
            Operation::Remove => format!("remove {ino}"),
        }
    }
}

impl CrashTest {
    fn new(seed: u64) -> CrashTest {
        let fixture = Fixture::new(seed, seed % 2 == 1);
        CrashTest {
            random: fixture.platform.random.fork(),
            fixture,
            model: Model::new(),
            log: Vec::new(),
        }
    }

    fn note(&mut self, what: String) {
        self.log.push(what);
    }

    /// Content of an object; None if it does not exist.
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
            // A power loss left half of a removal: the requester removes the object again.
            Err(refused) if refused == missing && self.model[&ino].may_be_absent() => {
                objects.remove(id).await.unwrap();
                None
            }
            Err(refused) => panic!("{refused}\n{}", self.log.join("\n")),
        }
    }

    /// One instance: opens the target, checks its content, works until the disk dies or it is killed.
    async fn run_instance(&mut self, after_power_cut: bool) {
        let Ok(objects) = self.fixture.try_open().await else {
            assert!(self.fixture.disk.is_dead(), "{}", self.log.join("\n"));
            return;
        };
        for ino in 0..OBJECTS {
            if self.fixture.disk.is_dead() {
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
        ][self.random.below(3) as usize];
        let dies = 1 + self.random.below(most);
        self.fixture.disk.die_at(kind, dies);
        let mut operations = 0;
        while !self.fixture.disk.is_dead() {
            operations += 1;
            if operations > OPERATIONS {
                self.fixture.disk.kill();
            }
            let ino = self.random.below(OBJECTS);
            match self.random.below(12) {
                0 => {
                    self.note(format!("sync {ino}"));
                    if objects.sync(&[object(ino)]).await.is_ok() {
                        self.model.entry(ino).or_default().synced();
                    }
                }
                1 => {
                    self.note("wait".into());
                    self.fixture.sleep(Duration::from_secs(7)).await;
                }
                2 => {
                    self.note("flush checksums".into());
                    let _ = objects.flush_checksums().await;
                }
                3 if !self.fixture.disk.is_dead() => {
                    let at = self.random.below(REACH);
                    let len = 1 + self.random.below(300_000);
                    self.note(format!("read {ino} {at}+{len}"));
                    let Ok(bytes) = read(&objects, object(ino), at, len).await else {
                        assert!(self.fixture.disk.is_dead(), "{}", self.log.join("\n"));
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
        let version = self.random.u64();
        let change = Operation::random(&self.random, version);
        self.note(change.describe(ino));
        let after = change.apply(self.model.entry(ino).or_default().now().clone());
        let done = match self.random.one_in(4) {
            true => tokio::join!(change.run(objects, ino), objects.flush_checksums()).0,
            false => change.run(objects, ino).await,
        };
        assert!(
            done || self.fixture.disk.is_dead(),
            "refused\n{}",
            self.log.join("\n")
        );
        if !done {
            self.note("(died)".into());
        }
        self.model.entry(ino).or_default().push(after, done);
    }
}

async fn run_instances(seed: u64, count: u64) -> u64 {
    let mut test = CrashTest::new(seed);
    test.fixture.fresh().await;
    test.fixture.lose_power();
    let mut cuts = 0;
    let mut power_cut = true;
    for _ in 0..count {
        test.run_instance(power_cut).await;
        power_cut = test.random.one_in(2);
        cuts += u64::from(power_cut);
        match power_cut {
            true => {
                test.note("--- power loss".into());
                test.fixture.lose_power();
            }
            false => {
                test.note("--- killed".into());
                test.fixture.kill();
            }
        }
    }
    // A last instance verifies everything.
    let objects = test.fixture.open().await;
    objects.flush_checksums().await.unwrap();
    let scrubbed = objects
        .scrub(ScrubOptions::new(ScrubScope::All), |_| {})
        .await
        .unwrap();
    assert_eq!(scrubbed.damaged, [], "{}", test.log.join("\n"));
    cuts
}

#[tokio::test(start_paused = true)]
async fn after_any_power_loss_synced_bytes_are_there_and_no_checksum_is_wrong() {
    let mut cuts = 0;
    for seed in 0..80 {
        cuts += run_instances(seed, 10).await;
    }
    assert!(cuts > 300, "{cuts} power losses");
}
