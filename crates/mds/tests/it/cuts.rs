//! Truncation of a file with objects: promised, done at the OSTs, then answered.

use crate::client::Client;
use crate::house::{Life, Simulated, simulate};
use crate::ost::FakeOst;
use crate::writers::write;
use gupfs_mds::targets::{Dial, OstPeer, Target};
use gupfs_proto::cluster::{self, OpenReport, Report, TargetReport};
use gupfs_proto::data::{self, Space};
use gupfs_proto::meta::{Answer, Op};
use gupfs_proto::{InodeId, Refusal};
use gupfs_rpc::{Peer, Service};
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;

async fn file(house: &Simulated, client: &Client, end: u64) -> InodeId {
    let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
    let opened = client.begin_write(ino).await;
    let written = write(&house.osts, &opened, end, 1);
    client.end_write(ino, written).await;
    house.osts.iter().for_each(|ost| drop(ost.asked()));
    ino
}

fn sizes(house: &Simulated) -> Vec<u64> {
    let each = house.osts.iter().flat_map(|ost| {
        let sizes = ost
            .list()
            .into_iter()
            .map(|object| ost.size(object).unwrap());
        sizes.collect::<Vec<_>>()
    });
    each.collect()
}

#[test]
fn a_truncate_is_answered_when_every_object_is_cut() {
    simulate(async {
        let house = Simulated::new(1);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let ino = file(&house, &client, 8 * MIB).await;
        let opened = client.truncate(ino, 5 * MIB + 7).await.unwrap();
        assert_eq!(opened.attr.size, 5 * MIB + 7);
        assert_eq!(sizes(&house).iter().sum::<u64>(), 5 * MIB + 7);
        let asked: Vec<String> = house.osts.iter().flat_map(FakeOst::asked).collect();
        let cuts = asked
            .iter()
            .filter(|asked| asked.starts_with("cut "))
            .count();
        let syncs = asked
            .iter()
            .filter(|asked| asked.starts_with("sync "))
            .count();
        assert_eq!((cuts, syncs), (3, 2), "{asked:?}");
        // It is over: the next one does not wait for it.
        client.truncate(ino, 5 * MIB).await.unwrap();
        assert_eq!(life.mds.status().await.unfinished.cuts, 0);
        life.mds.stop().await.unwrap();
    });
}

#[test]
fn a_cut_that_an_ost_refuses_is_refused_to_the_caller_and_to_whoever_would_use_the_bytes() {
    simulate(async {
        let house = Simulated::new(2);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let ino = file(&house, &client, 8 * MIB).await;
        house.osts[1].set_down(true);
        let is_down =
            |answer: &Result<Answer, Refusal>| matches!(answer, Err(Refusal::TargetDown { .. }));
        let lane = client.next_lane(0);
        let cut = client
            .ask(Some(lane), Client::truncation(ino, MIB))
            .await
            .result;
        assert!(is_down(&cut), "{cut:?}");
        // A repetition finds the promise, and the same refusal.
        let again = client
            .ask(Some(lane), Client::truncation(ino, MIB))
            .await
            .result;
        assert!(is_down(&again), "{again:?}");
        let open = Op::Open {
            ino,
            open: crate::client::WRITE,
        };
        let opened = client.change(0, open.clone()).await;
        assert!(is_down(&opened), "{opened:?}");
        // Nobody was told that it is cut, and others may still find the bytes where they were.
        assert_eq!(client.attr(ino).await.unwrap().size, 8 * MIB);
        assert_eq!(life.mds.status().await.unfinished.cuts, 1);

        house.osts[1].set_down(false);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(client.attr(ino).await.unwrap().size, MIB);
        assert_eq!(life.mds.status().await.unfinished.cuts, 0);
        assert_eq!(sizes(&house).iter().sum::<u64>(), MIB);
        assert!(client.change(0, open).await.is_ok());
        let again = client
            .ask(Some(lane), Client::truncation(ino, MIB))
            .await
            .result;
        assert!(matches!(again, Ok(Answer::Opened(opened)) if opened.attr.size == MIB));
        life.mds.stop().await.unwrap();
    });
}

#[test]
fn a_cut_that_a_kill_broke_off_is_done_before_the_next_start_serves() {
    simulate(async {
        let house = Simulated::new(3);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let ino = file(&house, &client, 8 * MIB).await;
        house.osts[1].set_down(true);
        client.truncate(ino, MIB).await.unwrap_err();
        house.kill(&life.platform).await;
        house.osts[1].set_down(false);
        let Life { mds, platform } = house.start().await;
        assert_eq!(
            (mds.recovery().cuts_resumed, mds.recovery().cuts_left),
            (1, 0)
        );
        assert_eq!(sizes(&house).iter().sum::<u64>(), MIB);
        let client = Client::open(&mds).await;
        assert_eq!(client.attr(ino).await.unwrap().size, MIB);
        client.change(0, Op::CloseSession).await.unwrap();
        mds.stop().await.unwrap();
        house.kill(&platform).await;
        house.check().await;
    });
}

/// Their servers can say that they are there only when the start is over.
#[test]
fn a_start_waits_for_no_server_elsewhere_and_the_cut_is_done_when_that_is_heard() {
    simulate(async {
        let house = Simulated::new(8);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let ino = file(&house, &client, 8 * MIB).await;
        house.osts[1].set_down(true);
        client.truncate(ino, MIB).await.unwrap_err();
        house.kill(&life.platform).await;
        house.osts[1].set_down(false);
        let platform = house.platform();
        let mut how = house.how(&platform);
        let targets = std::mem::take(&mut how.targets);
        let words = || targets.iter().map(|target| word(target, None)).collect();
        let report = || {
            cluster::Request::Report(Report {
                address: "elsewhere".into(),
                targets: words(),
                leaves: false,
            })
        };
        how.dial = Some(Arc::new(Elsewhere(targets.clone())));
        let begun = tokio::time::Instant::now();
        let mds = house.start_as(how).await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(1));
        assert!(mds.recovery().cuts_left > 0);
        // Killed, it could live still: it is waited for a term.
        tokio::time::sleep(Duration::from_secs(6)).await;
        let first: cluster::Reply = mds.clone().answer(report()).await;
        let Ok(cluster::Answer::Reported { owner, .. }) = first else {
            panic!("{first:?}");
        };
        for target in &targets {
            target.admin.clone().unwrap().adopt(owner).await.unwrap();
        }
        let second: cluster::Reply = mds.clone().answer(report()).await;
        second.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(mds.status().await.unfinished.cuts, 0);
        assert_eq!(sizes(&house).iter().sum::<u64>(), MIB);
        mds.stop().await.unwrap();
    });
}

/// A server elsewhere that serves all targets.
pub struct Elsewhere(pub Vec<Target>);

impl Dial for Elsewhere {
    fn dial(&self, _: &str) -> OstPeer {
        Peer::local(Arc::new(Elsewhere(self.0.clone())))
    }
}

impl Service<data::Request, data::Reply> for Elsewhere {
    async fn answer(self: Arc<Self>, request: data::Request) -> data::Reply {
        let target = self.0.iter().find(|target| target.ost == request.ost);
        target.unwrap().peer.call(request).await
    }
}

pub fn word(target: &Target, space: Option<Space>) -> TargetReport {
    let admin = target.admin.clone().unwrap();
    TargetReport {
        ost: target.ost,
        open: Ok(OpenReport {
            identity: admin.identity(),
            space,
            holdings: None,
        }),
    }
}

/// A sync of what was written after a truncate covers the truncate's end, or the next start would cut once more.
#[test]
fn what_a_client_has_seen_of_a_truncate_covers_its_end() {
    simulate(async {
        let house = Simulated::new(6);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let ino = file(&house, &client, 8 * MIB).await;
        client.begin_write(ino).await;
        client.truncate(ino, MIB).await.unwrap();
        client.sync().await.unwrap();
        house.cut_power(&life.platform).await;
        let life = house.start().await;
        assert_eq!(life.mds.recovery().cuts_resumed, 0);
        life.mds.stop().await.unwrap();
    });
}

/// What a power cut makes the records forget is not left at the OSTs.
#[test]
fn objects_of_a_forgotten_file_are_swept_away() {
    // A power cut may spare what was not synced.
    let forgot = (0..20).filter(|seed| is_forgotten_and_swept_away(*seed));
    assert!(
        forgot.count() > 2,
        "the power cuts took nothing: the test shows nothing"
    );
}

/// False if the power cut spared the file.
fn is_forgotten_and_swept_away(seed: u64) -> bool {
    simulate(async {
        let house = Simulated::new(seed);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let kept = file(&house, &client, 8 * MIB).await;
        client.sync().await.unwrap();
        let there = sizes(&house);
        let forgotten = client.create(0, InodeId::ROOT, "forgotten").await.unwrap();
        let opened = client.begin_write(forgotten).await;
        write(&house.osts, &opened, 8 * MIB, 1);
        assert!(sizes(&house).len() > there.len());
        house.cut_power(&life.platform).await;
        let life = house.start().await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let sweep = life.mds.status().await.sweep;
        let client = Client::open(&life.mds).await;
        let lost = client.attr(forgotten).await.is_err();
        if lost {
            assert_eq!(sizes(&house), there);
            assert_eq!((sweep.left, sweep.objects_removed > 0), (0, true));
        }
        assert_eq!(client.attr(kept).await.unwrap().size, 8 * MIB);
        life.mds.stop().await.unwrap();
        lost
    })
}

/// Were the bytes gone and the truncate not durable, a power cut would bring back a file that lost its end.
#[test]
fn nothing_is_cut_before_the_truncate_is_durable() {
    simulate(async {
        let house = Simulated::new(4);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let ino = file(&house, &client, 8 * MIB).await;
        client.sync().await.unwrap();
        house.disk.fail_sync(1);
        let cut = client.truncate(ino, MIB).await;
        assert!(matches!(cut, Err(Refusal::StoreFailed(_))), "{cut:?}");
        assert_eq!(sizes(&house).iter().sum::<u64>(), 8 * MIB);
    });
}

#[test]
fn a_writer_that_died_over_a_cut_is_recovered_after_it() {
    simulate(async {
        let house = Simulated::new(5);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
        let opened = client.begin_write(ino).await;
        let mut written = write(&house.osts, &opened, 8 * MIB, 1);
        written.mtime = None;
        let op = Op::EndWrite {
            ino,
            written,
            keep: true,
        };
        client.change(0, op).await.unwrap();
        house.osts[1].set_down(true);
        client.truncate(ino, MIB).await.unwrap_err();
        house.kill(&life.platform).await;
        // At the start neither can be done; then the cut must come first, or the file would have its old size again.
        let Life { mds, .. } = house.start().await;
        assert_eq!(
            (mds.recovery().cuts_left, mds.recovery().sessions_left),
            (1, 1)
        );
        house.osts[1].set_down(false);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let status = mds.status().await;
        assert_eq!((status.unfinished.cuts, status.unfinished.sessions), (0, 0));
        let client = Client::open(&mds).await;
        assert_eq!(client.attr(ino).await.unwrap().size, MIB);
        mds.stop().await.unwrap();
    });
}

/// What an OST took of a write that failed, and refuses to cut: its writer has the server record where the file ends, and dies.
#[test]
fn a_file_ends_where_its_writer_said_although_an_ost_refused_to_cut_what_it_took() {
    simulate(async {
        let house = Simulated::new(9);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
        let opened = client.begin_write(ino).await;
        let mut word = write(&house.osts, &opened, 5 * MIB, 1);
        // More was taken, of which nobody was told.
        write(&house.osts, &opened, 8 * MIB, 2);
        word.size = 5 * MIB;
        let keep = Op::EndWrite {
            ino,
            written: word,
            keep: true,
        };
        client.change(0, keep).await.unwrap();
        house.osts[1].set_down(true);
        let refused = client.truncate(ino, 5 * MIB).await;
        assert!(
            matches!(refused, Err(Refusal::TargetDown { .. })),
            "{refused:?}"
        );
        house.kill(&life.platform).await;
        // Its writer does not come back, nor does the OST for a while.
        let Life { mds, platform } = house.start().await;
        let other = Client::open(&mds).await;
        assert_eq!(other.attr(ino).await.unwrap().size, 5 * MIB);
        house.osts[1].set_down(false);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(other.attr(ino).await.unwrap().size, 5 * MIB);
        let status = mds.status().await.unfinished;
        assert_eq!((status.cuts, status.sessions), (0, 0));
        let opened = other.open_file(ino).await;
        for (component, stripe, ost, object, _) in opened.layout.objects(ino) {
            let most = opened.layout.components[component].object_size(stripe, 5 * MIB);
            let size = house.osts[usize::from(ost.0)].size(object).unwrap_or(0);
            assert!(size <= most, "{object}: {size}, at most {most}");
        }
        mds.stop().await.unwrap();
        house.kill(&platform).await;
        house.check().await;
    });
}

#[test]
fn a_cut_that_waits_for_a_silent_ost_holds_up_no_other() {
    simulate(async {
        let house = Simulated::new(10);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        // One object each, on either OST.
        let mut inodes = Vec::new();
        for number in 0..100 {
            let name = format!("f{number}");
            let ino = client.create(0, InodeId::ROOT, &name).await.unwrap();
            let opened = client.begin_write(ino).await;
            let written = write(&house.osts, &opened, MIB, 1);
            client.end_write(ino, written).await;
            inodes.push(ino);
        }
        house.osts.iter().for_each(|ost| ost.set_down(true));
        for ino in &inodes {
            client.truncate(*ino, 7).await.unwrap_err();
        }
        house.osts[1].set_stuck(true);
        house.osts.iter().for_each(|ost| ost.set_down(false));
        tokio::time::sleep(Duration::from_secs(10)).await;
        let left = |ost: &FakeOst| {
            let uncut = |object: &_| ost.size(*object) != Some(7);
            ost.list().iter().filter(|object| uncut(object)).count() as u64
        };
        let (zero, one) = (left(&house.osts[0]), left(&house.osts[1]));
        assert!(zero == 0 && one > 32, "{zero}, {one}");
        assert_eq!(life.mds.status().await.unfinished.cuts, one);
        house.osts[1].set_stuck(false);
        tokio::time::sleep(Duration::from_secs(80)).await;
        assert_eq!(left(&house.osts[1]), 0);
        assert_eq!(life.mds.status().await.unfinished.cuts, 0);
        life.mds.stop().await.unwrap();
    });
}
