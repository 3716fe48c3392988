//! A session's own changes: they wait for no answer of this session, and their replies keep its leases current.

use super::session::*;
use crate::client::{Client, name};
use crate::fixture::{Simulated, simulate};
use gupfs_proto::InodeId;
use gupfs_proto::lease::LeaseKey;
use gupfs_proto::meta::{MetaOp, MetaReplyBody, RenameMode};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A bound that no wait for a silent session keeps.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(Duration::from_secs(2), what).await;
    ended.expect("it waits for no session")
}

fn changed_inodes(reply: &LeasedReply) -> BTreeSet<InodeId> {
    reply.changed.iter().map(|attr| attr.ino).collect()
}

#[test]
fn an_own_change_revokes_no_own_lease_and_reports_all_that_the_session_held() {
    simulate(async {
        let fixture = Simulated::new(1);
        let instance = start(&fixture).await;
        let one = LeaseSession::open(&instance.mds).await;
        one.connection.hold_answers();
        let from = one.client.mkdir(0, InodeId::ROOT, "from").await.unwrap();
        let to = one.client.mkdir(0, InodeId::ROOT, "to").await.unwrap();
        let file = one.client.create(0, from, "f").await.unwrap();
        let victim = one.client.create(0, to, "g").await.unwrap();
        one.client.change(0, link(victim, to, "h")).await.unwrap();
        let held = [from, to, victim];
        for ino in held {
            one.attr(ino).await;
        }
        let op = MetaOp::Rename {
            from,
            name: name("f"),
            to,
            new_name: name("g"),
            mode: RenameMode::Replace,
        };
        let reply = one.send(op).await;
        assert!(matches!(reply.outcome, Ok(MetaReplyBody::Removed(removed))
            if removed.victim == Some(victim) && removed.attr.is_some_and(|attr| attr.ino == file)));
        assert_eq!(changed_inodes(&reply), held.into());
        for attr in &reply.changed {
            let current = one.client.attr(attr.ino).await.unwrap();
            assert_eq!(*attr, current);
            assert!(reply.number_of(LeaseKey::Attributes(attr.ino)).is_some());
        }
        let creation = soon(one.send(Client::creation(from, "new"))).await;
        assert_eq!(changed_inodes(&creation), [from].into());
        let removal = soon(one.send(unlink(to, "h"))).await;
        assert_eq!(changed_inodes(&removal), [to, victim].into());
        assert_eq!(one.connection.revocations(), []);
    });
}

#[test]
fn an_own_change_reports_nothing_of_what_the_session_did_not_hold() {
    simulate(async {
        let fixture = Simulated::new(2);
        let instance = start(&fixture).await;
        let one = LeaseSession::open(&instance.mds).await;
        let two = LeaseSession::open(&instance.mds).await;
        let dir = one.client.mkdir(0, InodeId::ROOT, "d").await.unwrap();
        // Another session changes what it holds: it holds that no more.
        two.send(chmod(dir, 0o700)).await;
        let reply = one.send(Client::creation(dir, "f")).await;
        assert_eq!(reply.changed, []);
        assert!(reply.number_of(LeaseKey::Attributes(dir)).is_none());
    });
}

/// The client's handler of callbacks may wait until its own request is answered.
#[test]
fn an_own_change_waits_for_no_answer_that_its_session_owes() {
    simulate(async {
        let fixture = Simulated::new(3);
        let instance = start(&fixture).await;
        let [one, two, three] = three_sessions(&instance.mds).await;
        let dir = three.client.mkdir(0, InodeId::ROOT, "d").await.unwrap();
        quiet().await;
        one.list(dir).await;
        one.attr(dir).await;
        one.connection.hold_answers();
        let other = two.begin(Client::creation(dir, "two"));
        one.connection.wait_for_revocations(1).await;
        let own = soon(one.send(Client::creation(dir, "one"))).await;
        assert!(own.outcome.is_ok(), "{own:?}");
        // The key is closed: the session gets no lease on the directory's attributes with a number that outlives the revocation.
        assert!(own.number_of(LeaseKey::Attributes(dir)).is_none());
        seconds(1).await;
        assert!(!other.is_finished());
        one.connection.answer();
        assert!(soon(other).await.unwrap().outcome.is_ok());
        assert_eq!(three.client.list_names(dir, 100).await.len(), 2);
    });
}

#[test]
fn two_sessions_change_at_once_what_the_other_one_holds() {
    simulate(async {
        let fixture = Simulated::new(4);
        let instance = start(&fixture).await;
        let [one, two, three] = three_sessions(&instance.mds).await;
        let mut files = Vec::new();
        for file in ["f", "g"] {
            files.push(three.client.create(0, InodeId::ROOT, file).await.unwrap());
        }
        quiet().await;
        for round in 0..200 {
            // What two sessions change by turns is leased again.
            quiet().await;
            for session in [&one, &two] {
                for file in &files {
                    session.attr(*file).await;
                }
            }
            // Each session changes both, in the other's order.
            let changes = |session: &Arc<LeaseSession>, order: [usize; 2]| {
                let mode = 0o100 + round % 64;
                order.map(|at| session.begin(chmod(files[at], mode)))
            };
            let begun = [changes(&one, [0, 1]), changes(&two, [1, 0])];
            for change in begun.into_iter().flatten() {
                soon(change).await.unwrap().outcome.unwrap();
            }
        }
        let status = lease_status(&instance.mds).await;
        assert!(status.revocations >= 200, "{status:?}");
        assert_eq!((status.closed_keys, status.waiting_for), (0, 0));
    });
}

/// A client answers from its memory, whatever its own requests wait for.
#[test]
fn two_changes_that_need_each_others_leases_both_end() {
    simulate(async {
        let fixture = Simulated::new(5);
        let instance = start(&fixture).await;
        let [one, two, three] = three_sessions(&instance.mds).await;
        let (f, g) = (
            three.client.create(0, InodeId::ROOT, "f").await.unwrap(),
            three.client.create(0, InodeId::ROOT, "g").await.unwrap(),
        );
        one.attr(f).await;
        two.attr(g).await;
        let (first, second) = (one.begin(chmod(g, 0o600)), two.begin(chmod(f, 0o600)));
        for change in [first, second] {
            soon(change).await.unwrap().outcome.unwrap();
        }
        assert_eq!(one.connection.revocations().len(), 1);
        assert_eq!(two.connection.revocations().len(), 1);
    });
}

async fn three_sessions(mds: &Arc<gupfs_mds::Mds>) -> [Arc<LeaseSession>; 3] {
    [
        LeaseSession::open(mds).await,
        LeaseSession::open(mds).await,
        LeaseSession::open(mds).await,
    ]
}
