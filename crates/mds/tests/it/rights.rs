//! The rights of a session: by the credentials of its requests, and by its open capabilities.

pub mod host;

use crate::fixture::{Simulated, simulate};
use gupfs_proto::capability::{CapabilityFault, OpenCapability, Rights};
use gupfs_proto::lock::LockOutcome;
use gupfs_proto::meta::{AccessMode, MetaOp, MetaReplyBody, ReplayRecord, SlotSeq};
use gupfs_proto::{FsError, InodeId};
use host::*;

#[test]
fn only_a_valid_open_capability_proves_an_open_file() {
    simulate(async {
        let fixture = Simulated::new(1);
        let instance = start(&fixture).await;
        open_root(&instance).await;
        let mut host = Host::enter(&instance.mds).await;
        let opened = host.create("f").await;
        let (ino, capability) = (opened.attr.ino, open_capability_of(&opened, BOTH));
        let denied = Err(FsError::Denied);
        let forged = Err(FsError::Capability(CapabilityFault::Forged));
        // A client writes for its programs as nobody, and shows that the file was opened.
        let wrote = host
            .send(
                &nobody(),
                with_open_capability(capability, &write(ino, b"ours")),
            )
            .await;
        assert!(matches!(wrote, Ok(MetaReplyBody::Attr(_))), "{wrote:?}");
        assert_eq!(host.send(&nobody(), write(ino, b"PWNED")).await, denied);
        // Made for another right, for another file, or at random.
        let other = host.create("g").await.attr.ino;
        let read_only = OpenCapability {
            rights: Rights::READ,
            ..capability
        };
        for wrong in [
            read_only,
            OpenCapability {
                ino: other,
                ..capability
            },
        ] {
            let op = with_open_capability(wrong, &write(wrong.ino, b"PWNED"));
            assert_eq!(host.send(&nobody(), op).await, forged);
        }
        // A valid one is for one file alone.
        let op = with_open_capability(capability, &write(other, b"PWNED"));
        assert_eq!(host.send(&nobody(), op).await, denied);
        // And for one session.
        let mut other_host = Host::enter(&instance.mds).await;
        let op = with_open_capability(capability, &write(ino, b"PWNED"));
        assert_eq!(other_host.send(&nobody(), op).await, forged);
        // One for reading gives no right to write.
        let reading = match host.send(&owner(), open(ino, AccessMode::READ)).await {
            Ok(MetaReplyBody::Opened(opened)) => open_capability_of(&opened, AccessMode::READ),
            other => panic!("{other:?}"),
        };
        let op = with_open_capability(reading, &write(ino, b"PWNED"));
        assert_eq!(host.send(&nobody(), op).await, denied);
        reads_and_locks_need_a_proof(&mut host, &mut other_host, ino, (capability, reading)).await;
        assert_eq!(host.bytes(ino).await, b"ours");
        // Open capabilities go with operations that need them, and are not nested.
        for op in [
            with_open_capability(
                capability,
                &with_open_capability(capability, &write(ino, b"PWNED")),
            ),
            with_open_capability(capability, &MetaOp::CloseSession),
        ] {
            let refused = host.send(&nobody(), op).await;
            assert!(matches!(refused, Err(FsError::Malformed(_))), "{refused:?}");
        }
    });
}

/// The session of `host` has two open capabilities of the file, one for all access and one for reading.
async fn reads_and_locks_need_a_proof(
    host: &mut Host,
    other_host: &mut Host,
    ino: InodeId,
    (capability, reading): (OpenCapability, OpenCapability),
) {
    let denied = Err(FsError::Denied);
    // An open without access returns bytes to a session that has the file open, and no open capability.
    let again = open(ino, AccessMode::empty());
    assert_eq!(other_host.send(&nobody(), again.clone()).await, denied);
    match host
        .send(&nobody(), with_open_capability(reading, &again))
        .await
    {
        Ok(MetaReplyBody::Opened(opened)) => {
            assert_eq!(opened.inline.as_deref(), Some(&b"ours"[..]));
            let capability = opened.capability;
            assert!(capability.is_none_or(|it| it.open_capability(ino, BOTH).is_none()));
        }
        other => panic!("{other:?}"),
    }
    // The record of the write lease proves its holder; capabilities and locks are for open files.
    let issue = |rights| MetaOp::IssueCapability { ino, rights };
    assert_eq!(host.send(&nobody(), issue(Rights::READ)).await, denied);
    assert_eq!(host.send(&nobody(), issue(Rights::WRITE)).await, denied);
    let permitted = host
        .send(
            &nobody(),
            with_open_capability(capability, &issue(Rights::READ)),
        )
        .await;
    assert!(matches!(
        permitted,
        Ok(MetaReplyBody::CapabilityIssued { .. })
    ));
    let op = with_open_capability(capability, &issue(Rights::WRITE));
    assert_eq!(host.send(&nobody(), op).await, denied);
    assert_eq!(other_host.send(&nobody(), take(ino, 1)).await, denied);
    let op = with_open_capability(reading, &take(ino, 1));
    assert_eq!(host.send(&nobody(), op).await, denied);
    match host
        .send(&nobody(), with_open_capability(capability, &take(ino, 2)))
        .await
    {
        Ok(MetaReplyBody::Lock(reply)) => assert_eq!(reply.outcome, Ok(LockOutcome::Done)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_open_capability_outlives_the_server_and_covers_a_replayed_change() {
    simulate(async {
        for seed in 0..8 {
            let fixture = Simulated::new(100 + seed);
            let instance = start(&fixture).await;
            open_root(&instance).await;
            let mut host = Host::enter(&instance.mds).await;
            let of = instance.mds.owner_epoch();
            let (slot_seq, created) = host.reply(&owner(), creation("f")).await;
            let Ok(MetaReplyBody::Opened(opened)) = &created.result else {
                panic!("{created:?}");
            };
            let (ino, capability) = (opened.attr.ino, open_capability_of(opened, BOTH));
            let creation = replay_record(owner(), &creation("f"), slot_seq, &created);
            let op = with_open_capability(capability, &write(ino, b"kept"));
            let (slot_seq, wrote) = host.reply(&nobody(), op.clone()).await;
            let writing = replay_record(nobody(), &op, slot_seq, &wrote);
            fixture.lose_power(&instance.platform).await;

            let instance = start(&fixture).await;
            host.mds = instance.mds.clone();
            let replay = replay_request(of, vec![creation, writing], vec![]);
            assert_eq!(host.send(&nobody(), replay).await, Ok(MetaReplyBody::Done));
            assert_eq!(host.bytes(ino).await, b"kept");
            let more = with_open_capability(capability, &write(ino, b"more"));
            host.send(&nobody(), more).await.unwrap();
            assert_eq!(host.bytes(ino).await, b"more");
            instance.mds.stop().await.unwrap();
            fixture.kill(&instance.platform).await;
        }
    });
}

/// Changes that were never made, for the sessions that replay them: of another session's file, by an open capability of another
/// session, and with an inode number that the server has not given yet.
fn forged_records(
    ino: InodeId,
    capability: OpenCapability,
    forged_record: impl Fn(&MetaOp) -> ReplayRecord,
) -> [ReplayRecord; 5] {
    let set = gupfs_proto::meta::SetAttr {
        mode: Some(0o4777),
        ctime: Some(Default::default()),
        ..Default::default()
    };
    let mut created = forged_record(&creation("g"));
    created.created = Some(InodeId(ino.0 + 10_000_000));
    [
        forged_record(&write(ino, b"PWNED")),
        forged_record(&with_open_capability(capability, &write(ino, b"PWNED"))),
        forged_record(&MetaOp::SetAttr { ino, set }),
        forged_record(&open(ino, AccessMode::empty())),
        created,
    ]
}

#[test]
fn a_replayed_change_is_checked_like_a_new_one() {
    simulate(async {
        let fixture = Simulated::new(7);
        let instance = start(&fixture).await;
        open_root(&instance).await;
        let mut host = Host::enter(&instance.mds).await;
        let opened = host.create("f").await;
        let (ino, capability) = (opened.attr.ino, open_capability_of(&opened, BOTH));
        let op = with_open_capability(capability, &write(ino, b"ours"));
        let (slot_seq, wrote) = host.reply(&nobody(), op).await;
        let mut forgers = Vec::new();
        for _ in 0..5 {
            forgers.push(Host::enter(&instance.mds).await);
        }
        let of = instance.mds.owner_epoch();
        fixture.kill(&instance.platform).await;
        let instance = start(&fixture).await;

        let slot_seq = slot_seq.map(|slot_seq| SlotSeq {
            sequence: slot_seq.sequence + 7,
            ..slot_seq
        });
        let forged_record = |op: &MetaOp| {
            let mut forged_record = replay_record(nobody(), op, slot_seq, &wrote);
            forged_record.change.seq.0 += 1_000;
            forged_record
        };
        let forged_records = forged_records(ino, capability, forged_record);
        let mut returns = Vec::new();
        for (mut forger, forged_record) in forgers.into_iter().zip(forged_records) {
            forger.mds = instance.mds.clone();
            returns.push(tokio::spawn(async move {
                let replay = replay_request(of, vec![forged_record], vec![]);
                forger.send(&nobody(), replay).await
            }));
        }
        host.mds = instance.mds.clone();
        // Nested beside an open capability, records would pass for any change: the server accepts none there.
        let hidden = with_open_capability(
            capability,
            &replay_request(of, vec![forged_record(&write(ino, b"x"))], vec![]),
        );
        let refused = host.send(&nobody(), hidden).await;
        assert!(matches!(refused, Err(FsError::Malformed(_))), "{refused:?}");
        // A lock on a file that the session does not prove to have open.
        let bare = replay_request(of, vec![], vec![lock(ino)]);
        assert_eq!(
            host.send(&nobody(), bare.clone()).await,
            Err(FsError::Denied)
        );
        assert_eq!(
            host.send(&nobody(), with_open_capability(capability, &bare))
                .await,
            Ok(MetaReplyBody::Done)
        );
        for returned in returns {
            let ended = returned.await.unwrap();
            assert_eq!(ended, Err(FsError::SessionEnded));
        }
        assert_eq!(host.bytes(ino).await, b"ours");
        match host.send(&owner(), MetaOp::GetAttr { ino }).await {
            Ok(MetaReplyBody::Attr(attr)) => assert_eq!(attr.mode.0, 0o600),
            other => panic!("{other:?}"),
        }
        instance.mds.stop().await.unwrap();
    });
}
