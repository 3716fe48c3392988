//! A metadata store that is restored from a copy, or a target that is: to each of its earlier states, with the others up or
//! down, and started repeatedly.

use crate::client::Client;
use crate::fixture::{Simulated, simulate};
use crate::writers::write;
use gupfs_mds::{Mds, StartError};
use gupfs_platform::fake::FakeDisk;
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{InodeId, ObjectId, OstId, Presence, Timestamp};
use gupfs_store::index::FakeIndex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The whole state of the metadata server.
struct Copy {
    disk: FakeDisk,
    index: FakeIndex,
}

fn copy(fixture: &Simulated) -> Copy {
    Copy {
        disk: fixture.disk.copy(),
        index: fixture.index.copy(),
    }
}

fn restore(fixture: &mut Simulated, copy: &Copy) {
    fixture.disk = copy.disk.copy();
    fixture.index = copy.index.copy();
}

/// A file with one object, created and written. Returns the object, and its OST.
async fn file(fixture: &Simulated, mds: &Arc<Mds>, name: &str) -> (OstId, ObjectId) {
    let client = Client::open(mds).await;
    let ino = client.create(0, InodeId::ROOT, name).await.unwrap();
    let opened = client.begin_write(ino).await;
    let (_, _, ost, object, _) = opened.layout.objects(ino).next().unwrap();
    fixture.osts[usize::from(ost.0)].put(object, 1000, Timestamp::new(1_000, 0));
    (ost, object)
}

/// Runs one instance that creates a file; it is stopped, or killed.
async fn run_instance(fixture: &Simulated, name: &str, stops: bool) -> (OstId, ObjectId) {
    let instance = fixture.start().await;
    let made = file(fixture, &instance.mds, name).await;
    if stops {
        instance.mds.stop().await.unwrap();
    }
    fixture.kill(&instance.platform).await;
    made
}

async fn try_start(fixture: &Simulated, accept_loss: bool) -> Result<Arc<Mds>, StartError> {
    let platform = fixture.platform();
    let mut options = fixture.start_options(&platform);
    options.accept_loss = accept_loss;
    let started = fixture.start_as(options).await;
    if started.is_err() {
        fixture.kill(&platform).await;
    }
    started
}

async fn refusal_of_start(fixture: &Simulated) -> String {
    match try_start(fixture, false).await {
        Err(StartError::StoreOutdated(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("an older copy serves"),
    }
}

#[test]
fn a_store_restored_to_any_earlier_point_serves_nothing_however_often_it_is_started() {
    for (seed, stops) in [(1, true), (2, false)] {
        simulate(async {
            let mut fixture = Simulated::new(seed);
            let mut copies = vec![];
            for instance in 0..4 {
                run_instance(&fixture, &format!("f{instance}"), stops).await;
                copies.push(copy(&fixture));
            }
            let objects: Vec<ObjectId> = fixture.osts.iter().flat_map(|ost| ost.list()).collect();
            copies.pop(); // the newest
            for older in &copies {
                restore(&mut fixture, older);
                // More often than there were instances: its own epoch rises above the owners that the targets have seen.
                for _ in 0..6 {
                    let why = refusal_of_start(&fixture).await;
                    assert!(
                        why.contains("--accept-loss") && why.contains("ost"),
                        "{why}"
                    );
                }
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
            let after: Vec<ObjectId> = fixture.osts.iter().flat_map(|ost| ost.list()).collect();
            assert_eq!(objects, after);
        });
    }
}

#[test]
fn starts_without_targets_do_not_make_a_restored_store_believed() {
    simulate(async {
        let mut fixture = Simulated::new(3);
        run_instance(&fixture, "first", true).await;
        let older = copy(&fixture);
        for instance in 0..3 {
            run_instance(&fixture, &format!("f{instance}"), true).await;
        }
        restore(&mut fixture, &older);
        for _ in 0..8 {
            let platform = fixture.platform();
            let mut options = fixture.start_options(&platform);
            for target in &mut options.targets {
                target.admin = Err("its disk is not mounted".into());
            }
            let mds = fixture.start_as(options).await.unwrap();
            mds.stop().await.unwrap();
            fixture.kill(&platform).await;
        }
        refusal_of_start(&fixture).await;
    });
}

#[test]
fn a_late_target_with_a_later_state_stops_the_server() {
    simulate(async {
        let mut fixture = Simulated::new(4);
        run_instance(&fixture, "first", true).await;
        let older = copy(&fixture);
        let (ost, object) = run_instance(&fixture, "second", true).await;
        restore(&mut fixture, &older);
        let platform = fixture.platform();
        let mut options = fixture.start_options(&platform);
        let admins: Vec<_> = options
            .targets
            .iter()
            .map(|ost| ost.admin.clone())
            .collect();
        for target in &mut options.targets {
            target.admin = Err("its disk is not mounted".into());
        }
        let mds = fixture.start_as(options).await.unwrap();
        let client = Client::open(&mds).await;
        mds.admit_local_target(ost, admins[usize::from(ost.0)].clone())
            .await
            .unwrap_err();
        let why = mds.wait_for_failure().await;
        assert!(why.contains("older copy"), "{why}");
        client.create(0, InodeId::ROOT, "late").await.unwrap_err();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(fixture.osts[usize::from(ost.0)].list().contains(&object));
        fixture.kill(&platform).await;
    });
}

#[test]
fn an_accepted_loss_repeats_no_number_and_removes_nothing() {
    for (seed, stops) in [(5, true), (6, false)] {
        simulate(async {
            let mut fixture = Simulated::new(seed);
            let kept = run_instance(&fixture, "kept", stops).await;
            let older = copy(&fixture);
            let mut lost = BTreeSet::new();
            let mut numbers = BTreeSet::new();
            for instance in 0..3 {
                let (ost, object) = run_instance(&fixture, &format!("lost{instance}"), stops).await;
                lost.insert((ost, object));
                numbers.insert(object.ino);
            }
            restore(&mut fixture, &older);
            refusal_of_start(&fixture).await;
            let mds = try_start(&fixture, true).await.unwrap();
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
            assert!(mds.owner_epoch().counter() > newest);
            for number in 0..200 {
                let (_, object) = file(&fixture, &mds, &format!("new{number}")).await;
                assert!(!numbers.contains(&object.ino), "{object}");
                assert!(windows(&object) > newest, "{object}");
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
            let quarantined: BTreeSet<(OstId, ObjectId)> = (fixture.osts.iter().enumerate())
                .flat_map(|(number, ost)| {
                    let of = move |object| (OstId(number as u16), object);
                    ost.quarantined().into_iter().map(of)
                })
                .collect();
            assert_eq!(quarantined, lost);
            let removed: Vec<String> = (fixture.osts.iter().flat_map(|ost| ost.take_requests()))
                .filter(|requests| requests.starts_with("remove"))
                .collect();
            assert_eq!(removed, [""; 0]);
            assert!(fixture.osts[usize::from(kept.0.0)].list().contains(&kept.1));
            mds.stop().await.unwrap();
            let epoch = mds.owner_epoch();
            drop(mds);
            fixture.disk.restart();
            // From here on it is the valid store.
            let instance = fixture.start().await;
            assert!(instance.mds.owner_epoch() > epoch);
            assert_eq!(instance.mds.recovery().loss, None);
            instance.mds.stop().await.unwrap();
            fixture.kill(&instance.platform).await;
            fixture.check().await;
        });
    }
}

#[test]
fn a_file_that_grew_after_the_copy_gets_the_size_of_its_objects() {
    simulate(async {
        let mut fixture = Simulated::new(9);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = client.create(0, InodeId::ROOT, "grows").await.unwrap();
        let opened = client.begin_write(ino).await;
        let short = write(&fixture.osts, &opened, 1000, 1);
        client.end_write(ino, short).await;
        instance.mds.stop().await.unwrap();
        fixture.kill(&instance.platform).await;
        let older = copy(&fixture);

        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let opened = client.begin_write(ino).await;
        let long = write(&fixture.osts, &opened, 8 << 20, 2);
        client.end_write(ino, long).await;
        instance.mds.stop().await.unwrap();
        fixture.kill(&instance.platform).await;

        restore(&mut fixture, &older);
        let mds = try_start(&fixture, true).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let client = Client::open(&mds).await;
        assert_eq!(client.attr(ino).await.unwrap().size, 8 << 20);
        mds.stop().await.unwrap();
    });
}

#[test]
fn objects_in_doubt_that_were_removed_after_the_copy_are_missing_and_no_holes() {
    simulate(async {
        let mut fixture = Simulated::new(12);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let mut files = Vec::new();
        // One is closed without a sync, the other still has a write lease; neither has the objects behind its end.
        for (name, keep) in [("closed", false), ("open", true)] {
            let ino = client.create(0, InodeId::ROOT, name).await.unwrap();
            let opened = client.begin_write(ino).await;
            let mut written = write(&fixture.osts, &opened, (5 << 20) + 1, 1);
            written.unsynced = std::mem::take(&mut written.present);
            let op = MetaOp::EndWrite {
                ino,
                report: written,
                keep_lease: keep,
            };
            client.change(0, op).await.unwrap();
            files.push((name, ino));
        }
        client.sync().await.unwrap();
        fixture.kill(&instance.platform).await;
        let older = copy(&fixture);

        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        for (name, ino) in &files {
            client.unlink(0, InodeId::ROOT, name).await.unwrap();
            client.forget(*ino).await;
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        let left: usize = fixture.osts.iter().map(|ost| ost.list().len()).sum();
        assert_eq!(left, 0, "it was purged");
        instance.mds.stop().await.unwrap();
        fixture.kill(&instance.platform).await;

        restore(&mut fixture, &older);
        let mds = try_start(&fixture, true).await.unwrap();
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
        let mut fixture = Simulated::new(7);
        run_instance(&fixture, "kept", true).await;
        let older = copy(&fixture);
        for instance in 0..8 {
            run_instance(&fixture, &format!("lost{instance}"), true).await;
        }
        let objects = fixture.osts[1].list();
        restore(&mut fixture, &older);
        let platform = fixture.platform();
        let mut options = fixture.start_options(&platform);
        options.accept_loss = true;
        options.targets[1].admin = Err("its disk is not mounted".into());
        let mds = fixture.start_as(options).await.unwrap();
        assert!(mds.recovery().loss.is_some());
        mds.stop().await.unwrap();
        fixture.kill(&platform).await;

        let instance = fixture.start().await;
        let refused = instance.mds.refused_targets();
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0].0, OstId(1));
        assert!(refused[0].1.contains("--accept-loss"), "{}", refused[0].1);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(fixture.osts[1].list(), objects);
        instance.mds.stop().await.unwrap();
        fixture.kill(&instance.platform).await;

        let mds = try_start(&fixture, true).await.unwrap();
        assert_eq!(mds.refused_targets(), []);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let lost = objects
            .iter()
            .filter(|object| object.generation.window() > 1);
        assert_eq!(fixture.osts[1].quarantined().len(), lost.count());
        mds.stop().await.unwrap();
    });
}

#[test]
fn a_target_restored_to_any_earlier_point_is_refused_however_often_it_is_opened() {
    for serves_first in [false, true] {
        simulate(async {
            let fixture = Simulated::new(8);
            let mut copies = Vec::new();
            for instance in 0..4 {
                let served = fixture.start().await;
                if serves_first {
                    // A copy of the serving target.
                    copies.push(fixture.osts[1].copy());
                }
                file(&fixture, &served.mds, &format!("f{instance}")).await;
                served.mds.stop().await.unwrap();
                fixture.kill(&served.platform).await;
                if !serves_first {
                    copies.push(fixture.osts[1].copy());
                }
            }
            copies.pop();
            let newest = fixture.osts[1].copy();
            for older in copies {
                fixture.osts[1].restore(older);
                for _ in 0..6 {
                    let instance = fixture.start().await;
                    let refused = instance.mds.refused_targets();
                    assert_eq!(refused.len(), 1, "believed");
                    instance.mds.stop().await.unwrap();
                    fixture.kill(&instance.platform).await;
                }
            }
            fixture.osts[1].restore(newest);
            let instance = fixture.start().await;
            assert_eq!(instance.mds.refused_targets(), []);
            instance.mds.stop().await.unwrap();
        });
    }
}
