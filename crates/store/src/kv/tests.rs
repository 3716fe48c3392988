//! The store compared with a map, over many crashes of disk and index.

mod real;

use super::*;
use crate::index::{FakeIndex, IndexError, OPEN_TABLES_MIN};
use crate::log::{StopMode, StoreId};
use gupfs_platform::Random;
use gupfs_platform::fake::{CallKind, FakeDisk, FakeOptions, FakePlatform, FakeRandom};
use gupfs_proto::{ClusterId, Incarnation};
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Bound;
use std::time::Duration;

type Model = BTreeMap<Bytes, Bytes>;

fn simulate<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_secs(3600), run).await };
    runtime.block_on(bounded).expect("a future waited forever")
}

fn options() -> KvOptions {
    let store = StoreId {
        cluster: ClusterId(1),
        incarnation: Incarnation(2),
    };
    let log = LogOptions {
        segment_bytes: 16 << 10,
        ..LogOptions::new(store)
    };
    KvOptions {
        cache_bytes: 4096,
        persist_bytes: 8 << 10,
        ..KvOptions::new(log)
    }
}

fn key(number: u64) -> Bytes {
    Bytes::from(format!("key-{number:03}"))
}

fn put(model: &mut Model, batch: &KvBatch) {
    for (key, value) in batch {
        match value {
            Some(value) => model.insert(key.clone(), value.clone()),
            None => model.remove(key),
        };
    }
}

fn check(kv: &Kv, model: &Model, random: &FakeRandom) {
    for number in 0..60 {
        assert_eq!(
            kv.get(&key(number)).unwrap().as_ref(),
            model.get(&key(number)),
            "{:?}",
            key(number)
        );
    }
    for _ in 0..6 {
        let (from, to, limit) = (
            key(random.below(60)),
            key(random.below(62)),
            1 + random.below(70) as usize,
        );
        let expected: Vec<(Bytes, Bytes)> = match from < to {
            true => model
                .range(from.clone()..to.clone())
                .take(limit)
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
            false => Vec::new(),
        };
        assert_eq!(
            kv.scan(from.clone(), to.clone(), limit).unwrap(),
            expected,
            "{from:?}..{to:?} limit {limit}"
        );
    }
}

fn batch(random: &FakeRandom) -> KvBatch {
    let change = |_| {
        let value = vec![random.u64() as u8; random.below(100) as usize];
        (
            key(random.below(60)),
            (!random.one_in(3)).then(|| Bytes::from(value)),
        )
    };
    (0..1 + random.below(6)).map(change).collect()
}

/// Counts of what happened in many runs, to prove that the test covers it.
#[derive(Default, Debug)]
struct Coverage {
    died_opening: u64,
    died_serving: u64,
    cuts: u64,
    kills: u64,
    stops: u64,
    lost: u64,
    replayed: u64,
    groups: u64,
    index_behind: u64,
}

/// Runs one instance after another over one disk and index. Each ends at some call, by a power loss, a kill, or a stop.
async fn run_instances(seed: u64, seen: &mut Coverage) {
    let random = FakeRandom::new(seed);
    let disk = FakeDisk::new(
        FakeOptions {
            yields: true,
            ..FakeOptions::default()
        },
        seed,
    );
    let index = FakeIndex::new();
    // models[n]: after batch n.
    let mut models: Vec<Model> = vec![Model::new()];
    // The last batch that the next instance must find, and the last one that a power loss must leave.
    let (mut must, mut durable) = (0, 0);
    for _instance in 0..4 {
        let platform = FakePlatform::new(random.u64());
        if random.one_in(2) {
            disk.die_at(
                [CallKind::Write, CallKind::Sync][random.below(2) as usize],
                1 + random.below(60),
            );
        } else if random.one_in(6) {
            disk.fail_sync(1 + random.below(30));
        }
        let opened = Kv::open(
            disk.disk(),
            Index::fake(index.clone()),
            options(),
            platform.platform(),
        )
        .await;
        match opened {
            Err(KvError::Log(LogError::Disk(_))) => seen.died_opening += 1,
            Err(error) => panic!("seed {seed}: an ordinary crash was reported as damage: {error}"),
            Ok((kv, found)) => {
                let last = found.log.last.0 as usize;
                assert!(
                    last >= must && last < models.len(),
                    "seed {seed}: must {must}, found {last}, staged {}",
                    models.len() - 1
                );
                seen.lost += (models.len() - 1 - last) as u64;
                seen.replayed += found.replayed;
                seen.index_behind += u64::from(found.replayed > 0);
                models.truncate(last + 1);
                check(&kv, models.last().unwrap(), &random);
                for _ in 0..random.below(120) {
                    let batch = batch(&random);
                    let mut model = models.last().unwrap().clone();
                    put(&mut model, &batch);
                    models.push(model);
                    let seq = kv.stage(0, batch).unwrap();
                    assert_eq!(seq.0 as usize, models.len() - 1);
                    if random.one_in(4) {
                        check(&kv, models.last().unwrap(), &random);
                    }
                    match random.below(12) {
                        0 => drop(kv.wait_durable(seq).await),
                        1..4 => drop(kv.wait_committed(seq).await),
                        4 => tokio::time::sleep(Duration::from_millis(random.below(200))).await,
                        _ => {}
                    }
                }
                if random.one_in(4) && kv.stop(StopMode::Clean).await.is_ok() {
                    seen.stops += 1;
                }
                must = kv.committed_seq().0 as usize;
                durable = kv.durable_seq().0 as usize;
                seen.groups += kv.stats().groups;
                seen.died_serving += u64::from(disk.is_dead());
            }
        }
        disk.kill();
        platform.tasks.kill();
        tokio::task::yield_now().await;
        if random.one_in(3) {
            seen.kills += 1;
            disk.restart();
        } else {
            seen.cuts += 1;
            disk.crash();
            index.crash(&Random::fake(random.fork()));
            must = durable;
        }
    }
}

#[test]
fn durable_batches_survive_every_crash_and_the_rest_is_a_prefix() {
    let mut seen = Coverage::default();
    for seed in 0..600 {
        simulate(run_instances(seed, &mut seen));
    }
    println!("{seen:?}");
    assert!(
        seen.died_opening >= 100 && seen.died_serving >= 200,
        "{seen:?}"
    );
    assert!(seen.cuts >= 1000 && seen.kills >= 400, "{seen:?}");
    assert!(seen.stops >= 100 && seen.lost >= 500, "{seen:?}");
    assert!(
        seen.replayed >= 2000 && seen.index_behind >= 200,
        "{seen:?}"
    );
    assert!(seen.groups >= 500, "{seen:?}");
}

/// A scan shows a batch that moves from the overlay to the index during the scan as a whole or not at all.
#[test]
fn a_scan_never_shows_half_a_batch() {
    let index = Index::fake(FakeIndex::new());
    let mut memory = MemoryLayers::new(1 << 20, Seq(0));
    let value = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    memory.stage(Seq(1), vec![(key(1), value("old"))]);
    // What a scan takes under the lock:
    let view = index.view();
    let staged: Vec<_> = (memory.staged(&key(0), &key(9)))
        .map(|(key, staged)| (key.clone(), staged.value.clone()))
        .collect();
    // Both keys change, and the change is applied before the index is read.
    memory.stage(Seq(2), vec![(key(1), value("new")), (key(2), value("new"))]);
    let updates = [(key(1), value("new")), (key(2), value("new"))];
    index.apply(Seq(2), &updates.clone().into()).unwrap();
    memory.move_to_cache(Seq(2), &updates);
    let range = (Bound::Included(key(0)), Bound::Excluded(key(9)));
    assert_eq!(view.scan(range, 10).unwrap(), []);
    assert_eq!(staged, [(key(1), value("old"))]);
}

/// The index returns a value, and before the reader caches it, a newer batch moves from the overlay to the index.
#[test]
fn an_old_value_of_the_index_never_hides_a_newer_batch() {
    let mut memory = MemoryLayers::new(1 << 20, Seq(0));
    let version = memory.lookup(&key(1)).unwrap_err();
    let new = Some(Bytes::from_static(b"new"));
    memory.stage(Seq(1), vec![(key(1), new.clone())]);
    assert_eq!(memory.group(Seq(1), 10, 0).len(), 1);
    memory.move_to_cache(Seq(1), &[(key(1), new.clone())]);
    memory.finish_group(Seq(1), 1);
    assert!(!memory.cache_value(&key(1), Some(Bytes::from_static(b"old")), Some(version)));
    assert_eq!(
        memory.peek(&key(1), Seq(1)),
        PeekResult::Known {
            value: new,
            uncommitted: None
        }
    );
}

#[test]
fn a_peek_names_its_batch_until_that_is_committed() {
    simulate(async {
        let disk = FakeDisk::new(FakeOptions::default(), 1);
        let platform = FakePlatform::new(1);
        let (kv, _) = Kv::open(
            disk.disk(),
            Index::fake(FakeIndex::new()),
            options(),
            platform.platform(),
        )
        .await
        .unwrap();
        let seq = kv
            .stage(0, vec![(key(1), Some(Bytes::from_static(b"x")))])
            .unwrap();
        let peek = |uncommitted| PeekResult::Known {
            value: Some(Bytes::from_static(b"x")),
            uncommitted,
        };
        assert_eq!(kv.peek(&key(1)), peek(Some(seq)));
        kv.wait_committed(seq).await.unwrap();
        assert_eq!(kv.peek(&key(1)), peek(None));
        assert_eq!(kv.peek(&key(2)), PeekResult::Unknown);
        assert_eq!(kv.get(&key(2)).unwrap(), None);
        assert_eq!(
            kv.peek(&key(2)),
            PeekResult::Known {
                value: None,
                uncommitted: None
            }
        );
    });
}

#[test]
fn a_batch_above_the_limit_leaves_log_and_memory_unchanged() {
    let value = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    simulate(async {
        let disk = FakeDisk::new(FakeOptions::default(), 1);
        let platform = FakePlatform::new(1);
        let index = || Index::fake(FakeIndex::new());
        let (kv, _) = Kv::open(disk.disk(), index(), options(), platform.platform())
            .await
            .unwrap();
        let first = kv.stage(0, vec![(key(1), value("1"))]).unwrap();
        let before = kv.stats();
        let most = options().log.record_max();
        let large = vec![(key(1), Some(Bytes::from(vec![7; most]))), (key(2), None)];
        let refused = kv.stage(0, large).unwrap_err();
        assert!(refused.bytes > most, "{refused:?}");
        assert_eq!(kv.stats(), before);
        assert_eq!(kv.get(&key(1)).unwrap(), value("1"));
        let second = kv.stage(0, vec![(key(2), value("2"))]).unwrap();
        assert_eq!(second.0, first.0 + 1);
        kv.wait_durable(second).await.unwrap();
        assert_eq!(kv.get(&key(2)).unwrap(), value("2"));
    });
}
