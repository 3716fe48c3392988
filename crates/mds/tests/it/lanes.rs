//! Asked again, answered again: a change happens once.

use crate::client::{Client, ask, name};
use crate::house::House;
use gupfs_proto::meta::{Answer, Lane, Op};
use gupfs_proto::{InodeId, Refusal, SessionId, Slot};
use std::sync::Arc;

#[tokio::test]
async fn the_same_lane_again_gives_the_same_answer_and_no_second_effect() {
    let house = House::new();
    let client = Client::open(&house.start().await).await;
    let creation = Client::creation(InodeId::ROOT, "once");
    let lane = client.next_lane(5);
    let first = client.ask(Some(lane), creation.clone()).await;
    let again = client.ask(Some(lane), creation.clone()).await;
    assert!(first.result.is_ok());
    assert_eq!(first.result, again.result);
    // A new number is a new request.
    let anew = client.ask(Some(client.next_lane(5)), creation).await;
    assert_eq!(anew.result, Err(Refusal::Exists));
    let removed = client.unlink(0, InodeId::ROOT, "once").await.unwrap();
    assert!(matches!(removed, Answer::Removed(removed) if removed.victim.is_some()));
    client.mds.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_delivered_twice_at_once_happens_once() {
    let house = House::new();
    let client = Arc::new(Client::open(&house.start().await).await);
    for i in 0..50 {
        let lane = client.next_lane(1);
        let op = Op::Mkdir {
            dir: InodeId::ROOT,
            name: name(&format!("d{i}")),
            make: crate::client::MAKE,
        };
        let [one, two] = [(); 2].map(|()| {
            let (client, op) = (client.clone(), op.clone());
            tokio::spawn(async move { client.ask(Some(lane), op).await.result })
        });
        let (one, two) = (one.await.unwrap(), two.await.unwrap());
        assert!(one.is_ok(), "{one:?}");
        assert_eq!(one, two);
    }
    assert_eq!(client.names(InodeId::ROOT, 7).await.len(), 50);
    client.mds.stop().await.unwrap();
}

#[tokio::test]
async fn a_number_that_was_passed_or_meant_another_request_is_malformed() {
    let house = House::new();
    let client = Client::open(&house.start().await).await;
    client.create(0, InodeId::ROOT, "a").await.unwrap();
    client.create(0, InodeId::ROOT, "b").await.unwrap();
    for (sequence, what) in [(1, "a"), (2, "c")] {
        let lane = Lane {
            slot: Slot(0),
            sequence,
        };
        let reply = client
            .ask(Some(lane), Client::creation(InodeId::ROOT, what))
            .await;
        assert!(
            matches!(reply.result, Err(Refusal::Malformed(_))),
            "{reply:?}"
        );
    }
    client.mds.stop().await.unwrap();
}

#[tokio::test]
async fn who_has_no_session_is_refused() {
    let house = House::new();
    let mds = house.start().await;
    let ino = InodeId::ROOT;
    for session in [SessionId(0), SessionId(12_345)] {
        let reply = ask(&mds, session, None, Op::GetAttr { ino }).await;
        assert_eq!(reply.result, Err(Refusal::SessionEnded));
    }
    let client = Client::open(&mds).await;
    client.change(0, Op::CloseSession).await.unwrap();
    assert_eq!(client.attr(ino).await, Err(Refusal::SessionEnded));
    mds.stop().await.unwrap();
}

/// A number that a power cut makes forgotten would be given to two clients.
#[tokio::test]
async fn a_session_is_durable_when_its_number_is_told() {
    let house = House::new();
    let mds = house.start().await;
    let op = Op::OpenSession {
        client: "a test".into(),
    };
    let reply = ask(&mds, SessionId(0), None, op).await;
    assert!(
        reply.result.is_ok() && reply.durable >= reply.seq,
        "{reply:?}"
    );
    mds.stop().await.unwrap();
}

#[tokio::test]
async fn session_numbers_rise_over_restarts_whatever_was_closed() {
    let house = House::new();
    let mut last = SessionId(0);
    for _ in 0..3 {
        let mds = house.start().await;
        for _ in 0..3 {
            let client = Client::open(&mds).await;
            assert!(client.session > last);
            last = client.session;
            client.change(0, Op::CloseSession).await.unwrap();
        }
        mds.stop().await.unwrap();
    }
}
