//! OSTs that an administrator declares lost for ever: nothing waits for them, and their bytes are gone, not zeros.

use crate::client::Client;
use crate::fixture::{ServerInstance, Simulated, simulate};
use crate::ost::FakeOst;
use crate::targets::{FREE_SPACE, report, target, with_remote_targets};
use crate::truncates::sizes;
use crate::writers::write;
use gupfs_mds::Mds;
use gupfs_proto::cluster::{
    ClusterReply, ClusterReplyBody, ClusterRequest, LostFile, TargetVerdict,
};
use gupfs_proto::layout::{DefaultLayout, Redundancy};
use gupfs_proto::meta::{MetaOp, OpenInfo};
use gupfs_proto::{FsError, InodeId, OstId, Presence};
use gupfs_rpc::Service;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;

async fn ask(mds: &Arc<Mds>, request: ClusterRequest) -> ClusterReply {
    mds.clone().handle(request).await
}

async fn declare_lost(mds: &Arc<Mds>, ost: u16, while_serving: bool) -> ClusterReply {
    let ost = OstId(ost);
    ask(mds, ClusterRequest::DeclareLost { ost, while_serving }).await
}

async fn lost_files(mds: &Arc<Mds>, ost: u16) -> Vec<LostFile> {
    let (mut all, mut from) = (Vec::new(), None);
    loop {
        let ost = OstId(ost);
        let reply = ask(mds, ClusterRequest::LostFiles { ost, from }).await;
        let Ok(ClusterReplyBody::LostFiles { files, next, .. }) = reply else {
            panic!("{reply:?}")
        };
        all.extend(files);
        from = next;
        if from.is_none() {
            return all;
        }
    }
}

async fn written(fixture: &Simulated, client: &Client, dir: InodeId, what: &str) -> InodeId {
    let ino = client.create(0, dir, what).await.unwrap();
    let opened = client.begin_write(ino).await;
    client
        .end_write(ino, write(&fixture.osts, &opened, 8 * MIB, 1))
        .await;
    ino
}

fn presence(opened: &OpenInfo, on: u16) -> Vec<Presence> {
    let objects = opened.layout.objects(opened.attr.ino);
    let there = objects.filter(|(_, _, ost, ..)| *ost == OstId(on));
    there.map(|(.., presence)| presence).collect()
}

/// All requests to this OST would wait or fail.
fn lose(fixture: &Simulated, ost: usize) {
    fixture.osts[ost].set_stuck(true);
    fixture.osts[ost].take_requests();
}

#[test]
fn a_target_is_declared_lost_once_and_for_ever() {
    simulate(async {
        let fixture = Simulated::new(1);
        let ServerInstance { mds, platform } = fixture.start().await;
        let unknown = declare_lost(&mds, 9, true).await;
        assert!(
            matches!(unknown, Err(FsError::TargetDown { .. })),
            "{unknown:?}"
        );
        let serves = declare_lost(&mds, 1, false).await.unwrap();
        assert_eq!(serves, ClusterReplyBody::TargetServes { address: None });
        let early = ClusterRequest::LostFiles {
            ost: OstId(1),
            from: None,
        };
        assert!(ask(&mds, early).await.is_err());
        let ClusterReplyBody::TargetLost { since, is_new } =
            declare_lost(&mds, 1, true).await.unwrap()
        else {
            panic!("it is not declared lost")
        };
        assert!(is_new);
        let is_new = false;
        let again = declare_lost(&mds, 1, false).await.unwrap();
        assert_eq!(again, ClusterReplyBody::TargetLost { since, is_new });
        fixture.lose_power(&platform).await;
        drop(mds);

        let ServerInstance { mds, .. } = fixture.start().await;
        let state = target(&mds, 1).await;
        assert_eq!(state.lost_since, Some(since));
        assert!(!state.usable && !state.is_up);
        assert!(state.why_not.unwrap().contains("declared lost"));
        // Its process keeps it from serving.
        assert_eq!(mds.refused_targets().len(), 1);
        let admin = Ok(fixture.osts[1].admin());
        assert!(mds.admit_local_target(OstId(1), admin).await.is_err());
        assert!(!target(&mds, 1).await.is_up);
        let client = Client::open(&mds).await;
        for i in 0..8 {
            let ino = client.create(0, InodeId::ROOT, &format!("f{i}")).await;
            let opened = client.begin_write(ino.unwrap()).await;
            assert_eq!(presence(&opened, 1), []);
        }
        mds.stop().await.unwrap();
    });
}

#[test]
fn a_lost_remote_target_leaves_the_map_and_is_refused_by_name() {
    simulate(async {
        let fixture = Simulated::new(2);
        let (mds, targets) = with_remote_targets(&fixture).await;
        report(&mds, &targets, FREE_SPACE).await;
        let map = || async {
            match ask(&mds, ClusterRequest::Map).await.unwrap() {
                ClusterReplyBody::Map(map) => map,
                other => panic!("{other:?}"),
            }
        };
        let before = map().await;
        assert_eq!(before.targets.len(), 2);
        let serves = declare_lost(&mds, 0, false).await.unwrap();
        let address = Some("elsewhere".to_owned());
        assert_eq!(serves, ClusterReplyBody::TargetServes { address });
        declare_lost(&mds, 0, true).await.unwrap();
        let after = map().await;
        assert!(after.epoch > before.epoch);
        let left = after.targets.iter().map(|target| target.ost);
        assert!(left.eq([OstId(1)]));
        let ClusterReplyBody::Reported { verdicts, .. } = report(&mds, &targets, FREE_SPACE).await
        else {
            unreachable!("this is the reply to a report")
        };
        let TargetVerdict::Refused(why) = &verdicts[0].1 else {
            panic!("{verdicts:?}")
        };
        assert!(why.starts_with("ost0 was declared lost on "), "{why}");
        assert_eq!(verdicts[1].1, TargetVerdict::Serve);
        assert!(!target(&mds, 0).await.is_up);
        mds.stop().await.unwrap();
    });
}

#[test]
fn a_truncate_and_a_removal_do_not_wait_for_a_lost_ost() {
    simulate(async {
        let fixture = Simulated::new(3);
        let ServerInstance { mds, .. } = fixture.start().await;
        let client = Client::open(&mds).await;
        let dir = client.mkdir(0, InodeId::ROOT, "dir").await.unwrap();
        let ino = written(&fixture, &client, dir, "file").await;
        lose(&fixture, 1);
        let begun = tokio::time::Instant::now();
        declare_lost(&mds, 1, true).await.unwrap();
        let path = Some("/dir/file".to_owned());
        assert_eq!(lost_files(&mds, 1).await, [LostFile { ino, path }]);
        let before: u64 = sizes(&fixture).iter().sum();
        client.truncate(ino, 5 * MIB).await.unwrap();
        let after: u64 = sizes(&fixture).iter().sum();
        assert!(after < before, "the objects on the other OST are truncated");
        assert_eq!(mds.status().await.unfinished.cuts, 0);
        client.unlink(0, dir, "file").await.unwrap();
        client.forget(ino).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let status = mds.status().await;
        assert_eq!((status.purging, status.purge.delayed), (Some(0), 0));
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert_eq!(fixture.osts[1].take_requests(), [""; 0]);
        assert_eq!(lost_files(&mds, 1).await, []);
        mds.stop().await.unwrap();
    });
}

#[test]
fn a_truncate_that_waits_for_an_ost_is_done_when_the_ost_is_declared_lost() {
    simulate(async {
        let fixture = Simulated::new(8);
        let ServerInstance { mds, .. } = fixture.start().await;
        let client = Client::open(&mds).await;
        let ino = written(&fixture, &client, InodeId::ROOT, "file").await;
        lose(&fixture, 1);
        let begun = tokio::time::Instant::now();
        let declare = async {
            tokio::time::sleep(Duration::from_secs(7)).await;
            declare_lost(&mds, 1, true).await.unwrap();
        };
        let (truncated, ()) = tokio::join!(client.truncate(ino, MIB), declare);
        assert_eq!(truncated.unwrap().attr.size, MIB);
        assert!(
            begun.elapsed() < Duration::from_secs(8),
            "{:?}",
            begun.elapsed()
        );
        mds.stop().await.unwrap();
    });
}

#[test]
fn a_file_whose_writer_has_ended_keeps_what_it_had_on_a_lost_ost_as_missing() {
    simulate(async {
        let fixture = Simulated::new(4);
        let ServerInstance { mds, platform } = fixture.start().await;
        let client = Client::open(&mds).await;
        let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
        let opened = client.begin_write(ino).await;
        write(&fixture.osts, &opened, 8 * MIB, 4_000_000_000);
        assert!(!presence(&opened, 1).is_empty());
        lose(&fixture, 1);
        declare_lost(&mds, 1, true).await.unwrap();
        fixture.kill(&platform).await;
        drop(mds);

        let ServerInstance { mds, platform } = fixture.start().await;
        let report = mds.recovery();
        assert_eq!((report.writers, report.sessions_left), (1, 0));
        // And its objects are confirmed.
        tokio::time::sleep(Duration::from_secs(15)).await;
        let confirm = mds.status().await.confirm;
        assert_eq!((confirm.files_done, confirm.files_left), (1, 0));
        let opened = Client::open(&mds).await.open_file(ino).await;
        let there = presence(&opened, 1);
        assert!(there.iter().all(|it| *it == Presence::Present), "{there:?}");
        assert!(opened.attr.size >= 5 * MIB);
        assert_eq!(lost_files(&mds, 1).await.len(), 1);
        mds.stop().await.unwrap();
        fixture.kill(&platform).await;
        fixture.check().await;
    });
}

/// A server with this many OSTs, and a mirrored file in it.
async fn with_mirrored_file(fixture: &mut Simulated, osts: u16) -> (ServerInstance, InodeId) {
    for ost in 2..osts {
        fixture.osts.push(FakeOst::new(ost));
    }
    let platform = fixture.platform();
    let options = fixture.start_options(&platform);
    let mds = fixture.start_as(options).await.unwrap();
    let client = Client::open(&mds).await;
    let mut layout = DefaultLayout::default();
    layout.components.remove(0);
    layout.components[0].count = 1;
    layout.components[0].redundancy = Redundancy::Mirror(2);
    let op = MetaOp::SetDefaultLayout {
        ino: InodeId::ROOT,
        layout: Some(layout),
    };
    client.change(0, op).await.unwrap();
    let ino = written(fixture, &client, InodeId::ROOT, "file").await;
    (ServerInstance { platform, mds }, ino)
}

#[test]
fn the_members_on_a_lost_ost_are_replaced() {
    simulate(async {
        let mut fixture = Simulated::new(5);
        let (ServerInstance { mds, .. }, ino) = with_mirrored_file(&mut fixture, 3).await;
        let before = Client::open(&mds).await.open_file(ino).await.layout;
        let osts = &before.components[0].targets;
        let third = OstId(3 - osts[0].0 - osts[1].0);
        lose(&fixture, usize::from(osts[0].0));
        declare_lost(&mds, osts[0].0, true).await.unwrap();
        assert_eq!(lost_files(&mds, osts[0].0).await, []);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let replacement = mds.status().await.replacement;
        assert_eq!((replacement.files_replaced, replacement.files_left), (1, 0));
        let after = Client::open(&mds).await.open_file(ino).await.layout;
        assert_eq!(after.components[0].targets, [third, osts[1]]);
        mds.stop().await.unwrap();
    });
}

#[test]
fn a_file_without_another_domain_for_its_member_is_counted_until_there_is_one() {
    simulate(async {
        let mut fixture = Simulated::new(6);
        let (ServerInstance { mds, platform }, ino) = with_mirrored_file(&mut fixture, 2).await;
        lose(&fixture, 0);
        declare_lost(&mds, 0, true).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let replacement = mds.status().await.replacement;
        assert_eq!((replacement.files_replaced, replacement.files_left), (0, 1));
        assert!(
            replacement
                .last_error
                .unwrap()
                .contains("no other failure domain")
        );
        mds.stop().await.unwrap();
        fixture.kill(&platform).await;
        drop(mds);

        fixture.osts.push(FakeOst::new(2));
        let ServerInstance { mds, .. } = fixture.start().await;
        // The new member does not get the bytes.
        fixture.osts[1].set_stuck(true);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let replacement = mds.status().await.replacement;
        assert_eq!((replacement.files_replaced, replacement.files_left), (1, 0));
        let after = Client::open(&mds).await.open_file(ino).await.layout;
        assert!(after.components[0].targets.contains(&OstId(2)));
        // The only member with the bytes is lost, too.
        lose(&fixture, 1);
        declare_lost(&mds, 1, true).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(lost_files(&mds, 1).await.len(), 1);
        assert_eq!(mds.status().await.replacement.files_lost, 1);
        mds.stop().await.unwrap();
    });
}

#[test]
fn a_resync_ends_although_its_source_grows_meanwhile() {
    simulate(async {
        let mut fixture = Simulated::new(8);
        let (ServerInstance { mds, .. }, ino) = with_mirrored_file(&mut fixture, 2).await;
        let client = Client::open(&mds).await;
        let opened = client.begin_write(ino).await;
        let end = 9 * MIB + 7;
        let rewritten = write(&fixture.osts, &opened, end, 2);
        let op = MetaOp::MarkStale {
            ino,
            objects: vec![(0, 1)],
        };
        client.change(0, op).await.unwrap();
        client.end_write(ino, rewritten).await;
        let osts = opened.layout.components[0].targets.clone();
        let [source, stale] = [0, 1].map(|index: usize| &fixture.osts[usize::from(osts[index].0)]);
        // A client writes at its end, which is in the region that is copied last.
        source.set_slow(Duration::from_millis(10));
        source.set_growing(true);
        tokio::time::sleep(Duration::from_secs(30)).await;
        let resync = mds.status().await.resync;
        assert_eq!((resync.files_done, resync.files_left), (1, 0), "{resync:?}");
        let copy = stale.list()[0];
        assert!(stale.size(copy) >= Some(end));
        mds.stop().await.unwrap();
    });
}

/// Else the source could lose in a power loss what the copy has: two full members that differ.
#[test]
fn a_resync_syncs_its_source_before_it_reads_it() {
    simulate(async {
        let mut fixture = Simulated::new(11);
        let (ServerInstance { mds, .. }, ino) = with_mirrored_file(&mut fixture, 2).await;
        let client = Client::open(&mds).await;
        let opened = client.begin_write(ino).await;
        let rewritten = write(&fixture.osts, &opened, 3 * MIB, 2);
        let op = MetaOp::MarkStale {
            ino,
            objects: vec![(0, 1)],
        };
        client.change(0, op).await.unwrap();
        let source = &fixture.osts[usize::from(opened.layout.components[0].targets[0].0)];
        source.take_requests();
        client.end_write(ino, rewritten).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(mds.status().await.resync.files_done, 1);
        let object = source.list()[0];
        let requests = source.take_requests();
        let first = |what: String| requests.iter().position(|request| *request == what);
        let (synced, read) = (
            first(format!("sync {object}")),
            first(format!("read {object}")),
        );
        assert!(synced.is_some() && synced < read, "{requests:?}");
        mds.stop().await.unwrap();
    });
}

#[test]
fn a_truncate_leaves_out_a_member_that_is_damaged_where_it_is_cut() {
    simulate(async {
        let mut fixture = Simulated::new(9);
        let (ServerInstance { mds, .. }, ino) = with_mirrored_file(&mut fixture, 2).await;
        let client = Client::open(&mds).await;
        let osts = client.open_file(ino).await.layout.components[0]
            .targets
            .clone();
        let [first, second] = [0, 1].map(|index: usize| &fixture.osts[usize::from(osts[index].0)]);
        first.damage(first.list()[0]);
        client.truncate(ino, MIB + 7).await.unwrap();
        let opened = client.open_file(ino).await;
        assert_eq!(opened.attr.size, MIB + 7);
        assert_eq!(presence(&opened, osts[0].0), [Presence::Stale]);
        // It is made anew.
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(mds.status().await.resync.files_done, 1);
        assert_eq!(first.size(first.list()[0]), Some(MIB + 7));
        // No member is left out if all are damaged.
        first.damage(first.list()[0]);
        second.damage(second.list()[0]);
        let truncated = client.truncate(ino, 5).await;
        assert!(
            matches!(truncated, Err(FsError::ObjectDamaged { .. })),
            "{truncated:?}"
        );
        mds.stop().await.unwrap();
    });
}

#[test]
fn stale_members_on_an_ost_that_is_down_for_long_get_another_one() {
    for rebuild_after in [None, Some(Duration::from_secs(600))] {
        simulate(async {
            let mut fixture = Simulated::new(7);
            let (ServerInstance { mds, platform }, ino) = with_mirrored_file(&mut fixture, 3).await;
            let before = Client::open(&mds).await.open_file(ino).await.layout;
            let osts = before.components[0].targets.clone();
            mds.stop().await.unwrap();
            fixture.kill(&platform).await;
            drop(mds);

            let platform = fixture.platform();
            let mut options = fixture.start_options(&platform);
            options.targets[usize::from(osts[1].0)].admin = Err("its disk is not mounted".into());
            options.rebuild_after = rebuild_after;
            let mds = fixture.start_as(options).await.unwrap();
            // The write leaves the member out.
            let client = Client::open(&mds).await;
            let opened = client.begin_write(ino).await;
            assert_eq!(presence(&opened, osts[1].0), [Presence::Stale]);
            let rewritten = write(&fixture.osts[..], &opened, 8 * MIB, 2);
            client.end_write(ino, rewritten).await;
            tokio::time::sleep(Duration::from_secs(590)).await;
            assert_eq!(
                client.open_file(ino).await.layout.components[0].targets,
                osts
            );
            tokio::time::sleep(Duration::from_secs(20)).await;
            let after = client.open_file(ino).await.layout;
            let third = OstId(3 - osts[0].0 - osts[1].0);
            let expected = match rebuild_after {
                None => osts,
                Some(_) => vec![osts[0], third],
            };
            assert_eq!(after.components[0].targets, expected);
            mds.stop().await.unwrap();
        });
    }
}
