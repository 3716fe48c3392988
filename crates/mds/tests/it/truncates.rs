//! Truncation of a file with objects: promised, done at the OSTs, then answered.

use crate::client::Client;
use crate::fixture::{ServerInstance, Simulated, simulate};
use crate::ost::FakeOst;
use crate::writers::write;
use gupfs_mds::osts::{OstPeer, TargetHandle};
use gupfs_proto::cluster::{self, OpenTargetReport, OssReport, TargetReport};
use gupfs_proto::data::{self, TargetCapacity};
use gupfs_proto::meta::{MetaOp, MetaReplyBody};
use gupfs_proto::{FsError, InodeId};
use gupfs_rpc::{DialOss, Peer, Service};
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// A file with objects up to `end`.
pub async fn file(fixture: &Simulated, client: &Client, end: u64) -> InodeId {
    let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
    let opened = client.begin_write(ino).await;
    let written = write(&fixture.osts, &opened, end, 1);
    client.end_write(ino, written).await;
    fixture
        .osts
        .iter()
        .for_each(|ost| drop(ost.take_requests()));
    ino
}

/// The sizes of all objects.
pub fn sizes(fixture: &Simulated) -> Vec<u64> {
    let each = fixture.osts.iter().flat_map(|ost| {
        let sizes = ost
            .list()
            .into_iter()
            .map(|object| ost.size(object).unwrap());
        sizes.collect::<Vec<_>>()
    });
    each.collect()
}

#[test]
fn a_truncate_is_answered_when_every_object_is_truncated() {
    simulate(async {
        let fixture = Simulated::new(1);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = file(&fixture, &client, 8 * MIB).await;
        let opened = client.truncate(ino, 5 * MIB + 7).await.unwrap();
        assert_eq!(opened.attr.size, 5 * MIB + 7);
        assert_eq!(sizes(&fixture).iter().sum::<u64>(), 5 * MIB + 7);
        let requests: Vec<String> = fixture
            .osts
            .iter()
            .flat_map(FakeOst::take_requests)
            .collect();
        let truncates = requests
            .iter()
            .filter(|requests| requests.starts_with("truncate "))
            .count();
        let syncs = requests
            .iter()
            .filter(|requests| requests.starts_with("sync "))
            .count();
        assert_eq!((truncates, syncs), (3, 2), "{requests:?}");
        // The truncate is complete: the next one does not wait for it.
        client.truncate(ino, 5 * MIB).await.unwrap();
        assert_eq!(instance.mds.status().await.unfinished.cuts, 0);
        instance.mds.stop().await.unwrap();
    });
}

#[test]
fn a_truncate_that_an_ost_refuses_fails_for_its_caller_and_for_every_use_of_the_bytes() {
    simulate(async {
        let fixture = Simulated::new(2);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = file(&fixture, &client, 8 * MIB).await;
        fixture.osts[1].set_down(true);
        let is_down = |answer: &Result<MetaReplyBody, FsError>| {
            matches!(answer, Err(FsError::TargetDown { .. }))
        };
        let slot_seq = client.next_slot_seq(0);
        let truncated = client
            .send(Some(slot_seq), Client::truncation(ino, MIB))
            .await
            .result;
        assert!(is_down(&truncated), "{truncated:?}");
        // A repeated request finds the promise, and the same error.
        let again = client
            .send(Some(slot_seq), Client::truncation(ino, MIB))
            .await
            .result;
        assert!(is_down(&again), "{again:?}");
        let open = MetaOp::Open {
            ino,
            open: crate::client::WRITE,
        };
        let opened = client.change(0, open.clone()).await;
        assert!(is_down(&opened), "{opened:?}");
        // No reply said that it is truncated, so other clients may still find the bytes.
        assert_eq!(client.attr(ino).await.unwrap().size, 8 * MIB);
        assert_eq!(instance.mds.status().await.unfinished.cuts, 1);

        fixture.osts[1].set_down(false);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(client.attr(ino).await.unwrap().size, MIB);
        assert_eq!(instance.mds.status().await.unfinished.cuts, 0);
        assert_eq!(sizes(&fixture).iter().sum::<u64>(), MIB);
        assert!(client.change(0, open).await.is_ok());
        let again = client
            .send(Some(slot_seq), Client::truncation(ino, MIB))
            .await
            .result;
        assert!(matches!(again, Ok(MetaReplyBody::Opened(opened)) if opened.attr.size == MIB));
        instance.mds.stop().await.unwrap();
    });
}

#[test]
fn a_truncate_interrupted_by_a_kill_is_done_before_the_next_start_serves() {
    simulate(async {
        let fixture = Simulated::new(3);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = file(&fixture, &client, 8 * MIB).await;
        fixture.osts[1].set_down(true);
        client.truncate(ino, MIB).await.unwrap_err();
        fixture.kill(&instance.platform).await;
        fixture.osts[1].set_down(false);
        let ServerInstance { mds, platform } = fixture.start().await;
        assert_eq!(
            (mds.recovery().cuts_resumed, mds.recovery().cuts_left),
            (1, 0)
        );
        assert_eq!(sizes(&fixture).iter().sum::<u64>(), MIB);
        let client = Client::open(&mds).await;
        assert_eq!(client.attr(ino).await.unwrap().size, MIB);
        client.change(0, MetaOp::CloseSession).await.unwrap();
        mds.stop().await.unwrap();
        fixture.kill(&platform).await;
        fixture.check().await;
    });
}

/// Remote servers can report only when the start is over.
#[test]
fn a_start_waits_for_no_remote_server_and_the_truncate_is_done_after_its_report() {
    simulate(async {
        let fixture = Simulated::new(8);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = file(&fixture, &client, 8 * MIB).await;
        fixture.osts[1].set_down(true);
        client.truncate(ino, MIB).await.unwrap_err();
        fixture.kill(&instance.platform).await;
        fixture.osts[1].set_down(false);
        let platform = fixture.platform();
        let mut options = fixture.start_options(&platform);
        let targets = std::mem::take(&mut options.targets);
        let reports = || {
            targets
                .iter()
                .map(|target| target_report(target, None))
                .collect()
        };
        let report = || {
            cluster::ClusterRequest::Report(OssReport {
                address: "elsewhere".into(),
                targets: reports(),
                stopping: false,
            })
        };
        options.dial = Some(Arc::new(RemoteOss(targets.clone())));
        let begun = tokio::time::Instant::now();
        let mds = fixture.start_as(options).await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(1));
        assert!(mds.recovery().cuts_left > 0);
        // The killed instance could still be alive: the server waits one report timeout for it.
        tokio::time::sleep(Duration::from_secs(6)).await;
        let first: cluster::ClusterReply = mds.clone().handle(report()).await;
        let Ok(cluster::ClusterReplyBody::Reported { owner, .. }) = first else {
            panic!("{first:?}");
        };
        for target in &targets {
            target.admin.clone().unwrap().adopt(owner).await.unwrap();
        }
        let second: cluster::ClusterReply = mds.clone().handle(report()).await;
        second.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(mds.status().await.unfinished.cuts, 0);
        assert_eq!(sizes(&fixture).iter().sum::<u64>(), MIB);
        mds.stop().await.unwrap();
    });
}

/// A remote server that serves all targets.
pub struct RemoteOss(pub Vec<TargetHandle>);

impl DialOss for RemoteOss {
    fn dial(&self, _: &str) -> OstPeer {
        Peer::local(Arc::new(RemoteOss(self.0.clone())))
    }
}

impl Service<data::DataRequest, data::DataReply> for RemoteOss {
    async fn handle(self: Arc<Self>, request: data::DataRequest) -> data::DataReply {
        let target = self.0.iter().find(|target| target.ost == request.ost);
        target.unwrap().peer.call(request).await
    }
}

pub fn target_report(target: &TargetHandle, space: Option<TargetCapacity>) -> TargetReport {
    let admin = target.admin.clone().unwrap();
    TargetReport {
        ost: target.ost,
        open: Ok(OpenTargetReport {
            identity: admin.identity(),
            space,
            inventory: None,
        }),
    }
}

/// A sync of bytes written after a truncate covers the truncate's completion, or the next start would truncate once more.
#[test]
fn the_seq_of_a_truncate_reply_covers_its_completion() {
    simulate(async {
        let fixture = Simulated::new(6);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = file(&fixture, &client, 8 * MIB).await;
        client.begin_write(ino).await;
        client.truncate(ino, MIB).await.unwrap();
        client.sync().await.unwrap();
        fixture.lose_power(&instance.platform).await;
        let instance = fixture.start().await;
        assert_eq!(instance.mds.recovery().cuts_resumed, 0);
        instance.mds.stop().await.unwrap();
    });
}

/// Were the bytes gone and the truncate not durable, a power loss would bring back a file that lost its end.
#[test]
fn no_object_is_truncated_before_the_truncate_is_durable() {
    simulate(async {
        let fixture = Simulated::new(4);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = file(&fixture, &client, 8 * MIB).await;
        client.sync().await.unwrap();
        fixture.disk.fail_sync(1);
        let truncated = client.truncate(ino, MIB).await;
        assert!(
            matches!(truncated, Err(FsError::StoreFailed(_))),
            "{truncated:?}"
        );
        assert_eq!(sizes(&fixture).iter().sum::<u64>(), 8 * MIB);
    });
}

#[test]
fn a_writer_that_died_during_a_truncate_is_recovered_after_it() {
    simulate(async {
        let fixture = Simulated::new(5);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
        let opened = client.begin_write(ino).await;
        let mut written = write(&fixture.osts, &opened, 8 * MIB, 1);
        written.mtime = None;
        let op = MetaOp::EndWrite {
            ino,
            report: written,
            keep_lease: true,
        };
        client.change(0, op).await.unwrap();
        fixture.osts[1].set_down(true);
        client.truncate(ino, MIB).await.unwrap_err();
        fixture.kill(&instance.platform).await;
        // At the start neither can be done; then the truncate must come first, or the file would have its old size again.
        let ServerInstance { mds, .. } = fixture.start().await;
        assert_eq!(
            (mds.recovery().cuts_left, mds.recovery().sessions_left),
            (1, 1)
        );
        fixture.osts[1].set_down(false);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let status = mds.status().await;
        assert_eq!((status.unfinished.cuts, status.unfinished.sessions), (0, 0));
        let client = Client::open(&mds).await;
        assert_eq!(client.attr(ino).await.unwrap().size, MIB);
        mds.stop().await.unwrap();
    });
}

/// An OST took a part of a write that failed, and refuses to truncate it: the writer has the server record the file's end, and
/// dies.
#[test]
fn a_file_ends_where_its_writer_reported_although_an_ost_refused_to_truncate() {
    simulate(async {
        let fixture = Simulated::new(9);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let ino = client.create(0, InodeId::ROOT, "file").await.unwrap();
        let opened = client.begin_write(ino).await;
        let mut report = write(&fixture.osts, &opened, 5 * MIB, 1);
        // The OSTs took more, but no client reported it.
        write(&fixture.osts, &opened, 8 * MIB, 2);
        report.size = 5 * MIB;
        let keep = MetaOp::EndWrite {
            ino,
            report,
            keep_lease: true,
        };
        client.change(0, keep).await.unwrap();
        fixture.osts[1].set_down(true);
        let refused = client.truncate(ino, 5 * MIB).await;
        assert!(
            matches!(refused, Err(FsError::TargetDown { .. })),
            "{refused:?}"
        );
        fixture.kill(&instance.platform).await;
        // The writer does not reconnect, and the OST stays down for a while.
        let ServerInstance { mds, platform } = fixture.start().await;
        let other = Client::open(&mds).await;
        assert_eq!(other.attr(ino).await.unwrap().size, 5 * MIB);
        fixture.osts[1].set_down(false);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(other.attr(ino).await.unwrap().size, 5 * MIB);
        let status = mds.status().await.unfinished;
        assert_eq!((status.cuts, status.sessions), (0, 0));
        let opened = other.open_file(ino).await;
        for (component, stripe, ost, object, _) in opened.layout.objects(ino) {
            let most = opened.layout.components[component].object_size(stripe, 5 * MIB);
            let size = fixture.osts[usize::from(ost.0)].size(object).unwrap_or(0);
            assert!(size <= most, "{object}: {size}, at most {most}");
        }
        mds.stop().await.unwrap();
        fixture.kill(&platform).await;
        fixture.check().await;
    });
}

#[test]
fn a_truncate_that_waits_for_a_silent_ost_delays_no_other() {
    simulate(async {
        let fixture = Simulated::new(10);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        // Each file has one object, on either OST.
        let mut inodes = Vec::new();
        for number in 0..100 {
            let name = format!("f{number}");
            let ino = client.create(0, InodeId::ROOT, &name).await.unwrap();
            let opened = client.begin_write(ino).await;
            let written = write(&fixture.osts, &opened, MIB, 1);
            client.end_write(ino, written).await;
            inodes.push(ino);
        }
        fixture.osts.iter().for_each(|ost| ost.set_down(true));
        for ino in &inodes {
            client.truncate(*ino, 7).await.unwrap_err();
        }
        fixture.osts[1].set_stuck(true);
        fixture.osts.iter().for_each(|ost| ost.set_down(false));
        tokio::time::sleep(Duration::from_secs(10)).await;
        let left = |ost: &FakeOst| {
            let uncut = |object: &_| ost.size(*object) != Some(7);
            ost.list().iter().filter(|object| uncut(object)).count() as u64
        };
        let (zero, one) = (left(&fixture.osts[0]), left(&fixture.osts[1]));
        assert!(zero == 0 && one > 32, "{zero}, {one}");
        assert_eq!(instance.mds.status().await.unfinished.cuts, one);
        fixture.osts[1].set_stuck(false);
        tokio::time::sleep(Duration::from_secs(80)).await;
        assert_eq!(left(&fixture.osts[1]), 0);
        assert_eq!(instance.mds.status().await.unfinished.cuts, 0);
        instance.mds.stop().await.unwrap();
    });
}
