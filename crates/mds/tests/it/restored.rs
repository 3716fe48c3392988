//! A metadata store that is restored from a copy, or a target that is: to each of its earlier points, with the others up or
//! down, and started repeatedly.

use crate::client::Client;
use crate::house::{Simulated, simulate};
use crate::writers::write;
use gupfs_mds::{Mds, StartError};
use gupfs_platform::fake::FakeDisk;
use gupfs_proto::meta::Op;
use gupfs_proto::{InodeId, ObjectId, OstId, OwnerEpoch, Presence, Timestamp};
use gupfs_store::index::FakeIndex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Everything that the metadata server keeps.
struct Copy {
    disk: FakeDisk,
    index: FakeIndex,
}

fn copy(house: &Simulated) -> Copy {
    Copy {
        disk: house.disk.copy(),
        index: house.index.copy(),
    }
}

fn restore(house: &mut Simulated, copy: &Copy) {
    house.disk = copy.disk.copy();
    house.index = copy.index.copy();
}

/// A file with one object, made, written and closed. Returns the object, and where it lies.
async fn file(house: &Simulated, mds: &Arc<Mds>, name: &str) -> (OstId, ObjectId) {
    let client = Client::open(mds).await;
    let ino = client.create(0, InodeId::ROOT, name).await.unwrap();
    let opened = client.begin_write(ino).await;
    let (_, _, ost, object, _) = opened.layout.objects(ino).next().unwrap();
    house.osts[usize::from(ost.0)].put(object, 1000, Timestamp::new(1_000, 0));
    (ost, object)
}

/// One life that makes a file; it is stopped, or killed.
async fn live(house: &Simulated, name: &str, stops: bool) -> (OstId, ObjectId) {
    let life = house.start().await;
    let made = file(house, &life.mds, name).await;
    if stops {
        life.mds.stop().await.unwrap();
    }
    house.kill(&life.platform).await;
    made
}

async fn try_start(house: &Simulated, accept_loss: bool) -> Result<Arc<Mds>, StartError> {
    let platform = house.platform();
    let mut how = house.how(&platform);
    how.accept_loss = accept_loss;
    let started = house.start_as(how).await;
    if started.is_err() {
        house.kill(&platform).await;
    }
    started
}

async fn is_refused(house: &Simulated) -> String {
    match try_start(house, false).await {
        Err(StartError::Restored(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("an older copy serves"),
    }
}

#[test]
fn a_store_restored_to_any_earlier_point_serves_nothing_however_often_it_is_started() {
    for (seed, stops) in [(1, true), (2, false)] {
        simulate(async {
            let mut house = Simulated::new(seed);
            let mut copies = vec![];
            for life in 0..4 {
                live(&house, &format!("f{life}"), stops).await;
                copies.push(copy(&house));
            }
            let objects: Vec<ObjectId> = house.osts.iter().flat_map(|ost| ost.list()).collect();
            copies.pop(); // the newest
            for older in &copies {
                restore(&mut house, older);
                // More often than there were lives: its own epoch rises above what the targets have heard of.
                for _ in 0..6 {
                    let why = is_refused(&house).await;
                    assert!(
                        why.contains("--accept-loss") && why.contains("ost"),
                        "{why}"
                    );
                }
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
            let after: Vec<ObjectId> = house.osts.iter().flat_map(|ost| ost.list()).collect();
            assert_eq!(objects, after);
        });
    }
}

#[test]
fn starts_without_targets_do_not_make_a_restored_store_believed() {
    simulate(async {
        let mut house = Simulated::new(3);
        live(&house, "first", true).await;
        let older = copy(&house);
        for life in 0..3 {
            live(&house, &format!("f{life}"), true).await;
        }
        restore(&mut house, &older);
        for _ in 0..8 {
            let platform = house.platform();
            let mut how = house.how(&platform);
            for target in &mut how.targets {
                target.admin = Err("its disk is not mounted".into());
            }
            let mds = house.start_as(how).await.unwrap();
            mds.stop().await.unwrap();
            house.kill(&platform).await;
        }
        is_refused(&house).await;
    });
}

#[test]
fn a_target_that_comes_late_and_knows_more_ends_the_server() {
    simulate(async {
        let mut house = Simulated::new(4);
        live(&house, "first", true).await;
        let older = copy(&house);
        let (ost, object) = live(&house, "second", true).await;
        restore(&mut house, &older);
        let platform = house.platform();
        let mut how = house.how(&platform);
        let admins: Vec<_> = how.targets.iter().map(|it| it.admin.clone()).collect();
        for target in &mut how.targets {
            target.admin = Err("its disk is not mounted".into());
        }
        let mds = house.start_as(how).await.unwrap();
        let client = Client::open(&mds).await;
        mds.hear(ost, admins[usize::from(ost.0)].clone())
            .await
            .unwrap_err();
        let why = mds.failed().await;
        assert!(why.contains("older copy"), "{why}");
        client.create(0, InodeId::ROOT, "late").await.unwrap_err();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(house.osts[usize::from(ost.0)].list().contains(&object));
        house.kill(&platform).await;
    });
}

#[test]
fn an_accepted_loss_repeats_no_number_and_removes_nothing() {
    for (seed, stops) in [(5, true), (6, false)] {
        simulate(async {
            let mut house = Simulated::new(seed);
            let kept = live(&house, "kept", stops).await;
            let older = copy(&house);
            let mut lost = BTreeSet::new();
            let mut numbers = BTreeSet::new();
            for life in 0..3 {
                let (ost, object) = live(&house, &format!("lost{life}"), stops).await;
                lost.insert((ost, object));
                numbers.insert(object.ino);
            }
            restore(&mut house, &older);
            is_refused(&house).await;
            let mds = try_start(&house, true).await.unwrap();
            let loss = mds.recovery().loss.clone().unwrap();
            let text = loss.to_string();
            assert!(text.starts_with("3 objects were made since"), "{text}");
            assert!(text.contains("1970-01-01 00:16 UTC"), "{text}");
            let windows = |object: &ObjectId| object.generation.window();
            let newest = lost
                .iter()
                .map(|(_, object)| windows(object))
                .max()
                .unwrap();
            assert!(mds.owner_epoch() > newest);
            for number in 0..200 {
                let (_, object) = file(&house, &mds, &format!("new{number}")).await;
                assert!(!numbers.contains(&object.ino), "{object}");
                assert!(windows(&object) > newest, "{object}");
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
            let aside: BTreeSet<(OstId, ObjectId)> = (house.osts.iter().enumerate())
                .flat_map(|(ost, it)| {
                    let of = move |object| (OstId(ost as u16), object);
                    it.was_set_aside().into_iter().map(of)
                })
                .collect();
            assert_eq!(aside, lost);
            let removed: Vec<String> = (house.osts.iter().flat_map(|ost| ost.asked()))
                .filter(|asked| asked.starts_with("remove"))
                .collect();
            assert_eq!(removed, [""; 0]);
            assert!(house.osts[usize::from(kept.0.0)].list().contains(&kept.1));
            mds.stop().await.unwrap();
            let epoch = mds.owner_epoch();
            drop(mds);
            house.disk.restart();
            // From here on it is the store.
            let life = house.start().await;
            assert!(life.mds.owner_epoch() > epoch);
            assert_eq!(life.mds.recovery().loss, None);
            life.mds.stop().await.unwrap();
            house.kill(&life.platform).await;
            house.check().await;
        });
    }
}

#[test]
fn a_file_that_grew_after_the_copy_is_as_its_objects_say() {
    simulate(async {
        let mut house = Simulated::new(9);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let ino = client.create(0, InodeId::ROOT, "grows").await.unwrap();
        let opened = client.begin_write(ino).await;
        let short = write(&house.osts, &opened, 1000, 1);
        client.end_write(ino, short).await;
        life.mds.stop().await.unwrap();
        house.kill(&life.platform).await;
        let older = copy(&house);

        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let opened = client.begin_write(ino).await;
        let long = write(&house.osts, &opened, 8 << 20, 2);
        client.end_write(ino, long).await;
        life.mds.stop().await.unwrap();
        house.kill(&life.platform).await;

        restore(&mut house, &older);
        let mds = try_start(&house, true).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let client = Client::open(&mds).await;
        assert_eq!(client.attr(ino).await.unwrap().size, 8 << 20);
        mds.stop().await.unwrap();
    });
}

#[test]
fn objects_in_doubt_that_were_removed_after_the_copy_are_missing_and_no_holes() {
    simulate(async {
        let mut house = Simulated::new(12);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let mut files = Vec::new();
        // One is closed without a sync, the other is still being written; each misses what would lie behind its end.
        for (name, keep) in [("closed", false), ("open", true)] {
            let ino = client.create(0, InodeId::ROOT, name).await.unwrap();
            let opened = client.begin_write(ino).await;
            let mut written = write(&house.osts, &opened, (5 << 20) + 1, 1);
            written.unsynced = std::mem::take(&mut written.present);
            let word = Op::EndWrite { ino, written, keep };
            client.change(0, word).await.unwrap();
            files.push((name, ino));
        }
        client.sync().await.unwrap();
        house.kill(&life.platform).await;
        let older = copy(&house);

        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        for (name, ino) in &files {
            client.unlink(0, InodeId::ROOT, name).await.unwrap();
            client.forget(*ino).await;
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        let left: usize = house.osts.iter().map(|ost| ost.list().len()).sum();
        assert_eq!(left, 0, "it was purged");
        life.mds.stop().await.unwrap();
        house.kill(&life.platform).await;

        restore(&mut house, &older);
        let mds = try_start(&house, true).await.unwrap();
        for later in [0, 60] {
            tokio::time::sleep(Duration::from_secs(later)).await;
            let client = Client::open(&mds).await;
            for (name, ino) in &files {
                let opened = client.open_file(*ino).await;
                assert_eq!(opened.attr.size, (5 << 20) + 1, "{name}");
                for (component, stripe, .., presence) in opened.layout.objects(*ino) {
                    let bytes = opened.layout.components[component].object_size(stripe, 5 << 20);
                    let expected = match bytes {
                        0 => presence != Presence::Maybe || later == 0,
                        _ => presence == Presence::Present,
                    };
                    assert!(expected, "{name} {component} {stripe}: {presence:?}");
                }
            }
        }
        mds.stop().await.unwrap();
    });
}

#[test]
fn a_target_that_was_away_when_a_loss_was_accepted_is_refused_by_name() {
    simulate(async {
        let mut house = Simulated::new(7);
        live(&house, "kept", true).await;
        let older = copy(&house);
        for life in 0..8 {
            live(&house, &format!("lost{life}"), true).await;
        }
        let objects = house.osts[1].list();
        restore(&mut house, &older);
        let platform = house.platform();
        let mut how = house.how(&platform);
        how.accept_loss = true;
        how.targets[1].admin = Err("its disk is not mounted".into());
        let mds = house.start_as(how).await.unwrap();
        assert!(mds.recovery().loss.is_some());
        mds.stop().await.unwrap();
        house.kill(&platform).await;

        let life = house.start().await;
        let refused = life.mds.refused_targets();
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0].0, OstId(1));
        assert!(refused[0].1.contains("--accept-loss"), "{}", refused[0].1);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(house.osts[1].list(), objects);
        life.mds.stop().await.unwrap();
        house.kill(&life.platform).await;

        let mds = try_start(&house, true).await.unwrap();
        assert_eq!(mds.refused_targets(), []);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let lost = objects
            .iter()
            .filter(|object| object.generation.window() > OwnerEpoch(1));
        assert_eq!(house.osts[1].was_set_aside().len(), lost.count());
        mds.stop().await.unwrap();
    });
}

#[test]
fn a_target_restored_to_any_earlier_point_is_refused_however_often_it_is_opened() {
    for serves_first in [false, true] {
        simulate(async {
            let house = Simulated::new(8);
            let mut copies = Vec::new();
            for life in 0..4 {
                let served = house.start().await;
                if serves_first {
                    // A copy of what serves.
                    copies.push(house.osts[1].copy());
                }
                file(&house, &served.mds, &format!("f{life}")).await;
                served.mds.stop().await.unwrap();
                house.kill(&served.platform).await;
                if !serves_first {
                    copies.push(house.osts[1].copy());
                }
            }
            copies.pop();
            let newest = house.osts[1].copy();
            for older in copies {
                house.osts[1].restore(older);
                for _ in 0..6 {
                    let life = house.start().await;
                    let refused = life.mds.refused_targets();
                    assert_eq!(refused.len(), 1, "believed");
                    life.mds.stop().await.unwrap();
                    house.kill(&life.platform).await;
                }
            }
            house.osts[1].restore(newest);
            let life = house.start().await;
            assert_eq!(life.mds.refused_targets(), []);
            life.mds.stop().await.unwrap();
        });
    }
}
