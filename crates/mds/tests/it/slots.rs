//! A repeated request gets the same reply: its change happens once.

use crate::client::{Client, name, send};
use crate::fixture::DirFixture;
use gupfs_proto::meta::{MetaOp, MetaReplyBody, SlotSeq};
use gupfs_proto::{FsError, InodeId, SessionId, Slot};
use std::sync::Arc;

#[tokio::test]
async fn a_repeated_slot_sequence_gets_the_same_reply_and_has_no_second_effect() {
    let fixture = DirFixture::new();
    let client = Client::open(&fixture.start().await).await;
    let creation = Client::creation(InodeId::ROOT, "once");
    let slot_seq = client.next_slot_seq(5);
    let first = client.send(Some(slot_seq), creation.clone()).await;
    let again = client.send(Some(slot_seq), creation.clone()).await;
    assert!(first.result.is_ok());
    assert_eq!(first.result, again.result);
    // What the first reply waited for, the second one waits for, too.
    let change = again.change.expect("it changed something");
    assert_eq!(Some(change), first.change);
    assert!(again.durable >= change.seq, "{again:?}");
    // A new sequence number is a new request.
    let anew = client.send(Some(client.next_slot_seq(5)), creation).await;
    assert_eq!(anew.result, Err(FsError::Exists));
    let removed = client.unlink(0, InodeId::ROOT, "once").await.unwrap();
    assert!(matches!(removed, MetaReplyBody::Removed(removed) if removed.victim.is_some()));
    client.mds.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_delivered_twice_at_once_happens_once() {
    let fixture = DirFixture::new();
    let client = Arc::new(Client::open(&fixture.start().await).await);
    for i in 0..50 {
        let slot_seq = client.next_slot_seq(1);
        let op = MetaOp::Mkdir {
            dir: InodeId::ROOT,
            name: name(&format!("d{i}")),
            create_mode: crate::client::MAKE,
        };
        let [one, two] = [(); 2].map(|()| {
            let (client, op) = (client.clone(), op.clone());
            tokio::spawn(async move { client.send(Some(slot_seq), op).await.result })
        });
        let (one, two) = (one.await.unwrap(), two.await.unwrap());
        assert!(one.is_ok(), "{one:?}");
        assert_eq!(one, two);
    }
    assert_eq!(client.list_names(InodeId::ROOT, 7).await.len(), 50);
    client.mds.stop().await.unwrap();
}

#[tokio::test]
async fn an_old_sequence_number_or_one_of_another_request_is_malformed() {
    let fixture = DirFixture::new();
    let client = Client::open(&fixture.start().await).await;
    client.create(0, InodeId::ROOT, "a").await.unwrap();
    client.create(0, InodeId::ROOT, "b").await.unwrap();
    for (sequence, what) in [(1, "a"), (2, "c")] {
        let slot_seq = SlotSeq {
            slot: Slot(0),
            sequence,
        };
        let reply = client
            .send(Some(slot_seq), Client::creation(InodeId::ROOT, what))
            .await;
        assert!(
            matches!(reply.result, Err(FsError::Malformed(_))),
            "{reply:?}"
        );
    }
    client.mds.stop().await.unwrap();
}

#[tokio::test]
async fn a_request_without_a_registered_session_is_refused() {
    let fixture = DirFixture::new();
    let mds = fixture.start().await;
    let ino = InodeId::ROOT;
    for session in [SessionId(0), SessionId(12_345)] {
        let reply = send(&mds, session, None, MetaOp::GetAttr { ino }).await;
        assert_eq!(reply.result, Err(FsError::SessionEnded));
    }
    let client = Client::open(&mds).await;
    client.change(0, MetaOp::CloseSession).await.unwrap();
    assert_eq!(client.attr(ino).await, Err(FsError::SessionEnded));
    mds.stop().await.unwrap();
}

/// A number that a power loss undoes would be given to two clients.
#[tokio::test]
async fn a_session_is_durable_when_its_number_is_returned() {
    let fixture = DirFixture::new();
    let mds = fixture.start().await;
    let op = MetaOp::OpenSession {
        client: "a test".into(),
    };
    let reply = send(&mds, SessionId(0), None, op).await;
    assert!(
        reply.result.is_ok() && reply.durable >= reply.seq,
        "{reply:?}"
    );
    mds.stop().await.unwrap();
}

#[tokio::test]
async fn session_numbers_rise_over_restarts_whatever_was_closed() {
    let fixture = DirFixture::new();
    let mut last = SessionId(0);
    for _ in 0..3 {
        let mds = fixture.start().await;
        for _ in 0..3 {
            let client = Client::open(&mds).await;
            assert!(client.session > last);
            last = client.session;
            client.change(0, MetaOp::CloseSession).await.unwrap();
        }
        mds.stop().await.unwrap();
    }
}
