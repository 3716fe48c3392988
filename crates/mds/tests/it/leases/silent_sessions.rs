//! Sessions that do not answer: a change waits until their clients surely answer nothing from memory any more, and no longer.

use super::session::*;
use crate::fixture::{Simulated, simulate};
use gupfs_proto::InodeId;
use gupfs_proto::lease::LeaseKey;
use gupfs_proto::limits::SERVER_TERM;
use gupfs_proto::meta::MetaOp;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How late the server notices that a term is over.
const NOTICED_WITHIN: Duration = Duration::from_secs(2);

/// A file, a silent session with a lease on its attributes, and two others.
struct Silent {
    silent: Arc<LeaseSession>,
    /// When the server heard it last.
    heard: Instant,
    changer: Arc<LeaseSession>,
    watcher: Arc<LeaseSession>,
    file: InodeId,
}

impl Silent {
    async fn new(mds: &Arc<gupfs_mds::Mds>) -> Silent {
        let silent = LeaseSession::open_silent(mds).await;
        let changer = LeaseSession::open(mds).await;
        let watcher = LeaseSession::open(mds).await;
        let file = changer.client.create(0, InodeId::ROOT, "f").await.unwrap();
        seconds(3).await;
        let held = silent.attr(file).await;
        assert!(held.number_of(LeaseKey::Attributes(file)).is_some());
        silent.connection.hold_answers();
        silent.client.read(MetaOp::Renew).await.unwrap();
        Silent {
            silent,
            heard: Instant::now(),
            changer,
            watcher,
            file,
        }
    }

    /// Returns when the change is made, and checks until then that nobody sees it.
    async fn wait_for_change(&self, changing: JoinHandle<LeasedReply>) -> LeasedReply {
        let before = self.watcher.attr(self.file).await.attr();
        while !changing.is_finished() {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let seen = self.watcher.attr(self.file).await;
            assert!(changing.is_finished() || seen.attr() == before, "{seen:?}");
            assert!(changing.is_finished() || seen.grants.is_empty(), "{seen:?}");
        }
        changing.await.unwrap()
    }

    fn assert_term_is_just_over(&self) {
        let since = self.heard.elapsed();
        assert!(since >= SERVER_TERM, "{since:?}");
        assert!(since <= SERVER_TERM + NOTICED_WITHIN, "{since:?}");
    }
}

#[test]
fn a_change_waits_for_the_end_of_a_silent_sessions_term() {
    simulate(async {
        let fixture = Simulated::new(1);
        let instance = start(&fixture).await;
        let all = Silent::new(&instance.mds).await;
        seconds(4).await;
        let changing = all.changer.begin(chmod(all.file, 0o600));
        let changed = all.wait_for_change(changing).await;
        assert_eq!(changed.outcome.map(|_| ()), Ok(()));
        all.assert_term_is_just_over();
        let status = lease_status(&instance.mds).await;
        assert!(
            !status.sessions.contains_key(&all.silent.id()),
            "{status:?}"
        );
        assert_eq!((status.closed_keys, status.waiting_for), (0, 0));
    });
}

/// Its host may not use the cluster any more, but its client may not know.
#[test]
fn a_change_waits_for_the_term_of_a_session_that_the_server_has_ended() {
    simulate(async {
        let fixture = Simulated::new(2);
        let instance = start(&fixture).await;
        let all = Silent::new(&instance.mds).await;
        instance.mds.end_session(all.silent.id()).await;
        assert!(!instance.mds.has_session(all.silent.id()));
        seconds(4).await;
        let changing = all.changer.begin(chmod(all.file, 0o600));
        let changed = all.wait_for_change(changing).await;
        assert!(changed.outcome.is_ok(), "{changed:?}");
        all.assert_term_is_just_over();
        assert_eq!(all.silent.connection.revocations(), []);
    });
}

#[test]
fn a_change_goes_on_when_the_silent_session_is_ended_and_its_term_is_over() {
    simulate(async {
        let fixture = Simulated::new(3);
        let instance = start(&fixture).await;
        let all = Silent::new(&instance.mds).await;
        let changing = all.changer.begin(chmod(all.file, 0o600));
        all.silent.connection.wait_for_revocations(1).await;
        seconds(1).await;
        instance.mds.end_session(all.silent.id()).await;
        let changed = all.wait_for_change(changing).await;
        assert!(changed.outcome.is_ok(), "{changed:?}");
        all.assert_term_is_just_over();
    });
}

/// Otherwise a client could keep everybody from changing whatever it may read.
#[test]
fn a_session_that_renews_and_does_not_answer_is_ended_and_the_change_waits_for_its_term() {
    simulate(async {
        let fixture = Simulated::new(7);
        let instance = start(&fixture).await;
        let mut all = Silent::new(&instance.mds).await;
        let changing = all.changer.begin(chmod(all.file, 0o600));
        let begun = Instant::now();
        while all.silent.client.read(MetaOp::Renew).await.is_ok() {
            all.heard = Instant::now();
            assert!(begun.elapsed() < Duration::from_secs(25), "it is not ended");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert!(begun.elapsed() >= Duration::from_secs(20));
        let changed = all.wait_for_change(changing).await;
        assert!(changed.outcome.is_ok(), "{changed:?}");
        all.assert_term_is_just_over();
        assert!(!instance.mds.has_session(all.silent.id()));
    });
}

/// The time without a connection does not count: its term does.
#[test]
fn a_session_that_answers_over_its_next_connection_is_not_ended() {
    simulate(async {
        let fixture = Simulated::new(8);
        let instance = start(&fixture).await;
        let all = Silent::new(&instance.mds).await;
        let changing = all.changer.begin(chmod(all.file, 0o600));
        all.silent.connection.wait_for_revocations(1).await;
        seconds(10).await;
        instance.mds.detach(all.silent.id());
        seconds(11).await;
        all.silent.client.read(MetaOp::Renew).await.unwrap();
        let next = all.silent.reconnect();
        next.hold_answers();
        seconds(8).await;
        next.answer();
        let changed = tokio::time::timeout(Duration::from_secs(1), changing);
        assert!(changed.await.unwrap().unwrap().outcome.is_ok());
        seconds(3).await;
        assert!(instance.mds.has_session(all.silent.id()));
    });
}

#[test]
fn a_change_waits_for_no_session_that_its_client_has_closed() {
    simulate(async {
        let fixture = Simulated::new(4);
        let instance = start(&fixture).await;
        let all = Silent::new(&instance.mds).await;
        let changing = all.changer.begin(chmod(all.file, 0o600));
        all.silent.connection.wait_for_revocations(1).await;
        all.silent.send(MetaOp::CloseSession).await.outcome.unwrap();
        let changed = tokio::time::timeout(Duration::from_secs(1), changing);
        assert!(changed.await.unwrap().unwrap().outcome.is_ok());
        let again = all.changer.begin(chmod(all.file, 0o644));
        let changed = tokio::time::timeout(Duration::from_secs(1), again);
        assert!(changed.await.unwrap().unwrap().outcome.is_ok());
    });
}

#[test]
fn a_revocation_waits_for_the_next_connection_of_its_session() {
    simulate(async {
        let fixture = Simulated::new(5);
        let instance = start(&fixture).await;
        let all = Silent::new(&instance.mds).await;
        all.silent.keep_renewing();
        instance.mds.detach(all.silent.id());
        let changing = all.changer.begin(chmod(all.file, 0o600));
        seconds(10).await;
        assert!(!changing.is_finished());
        let next = all.silent.reconnect();
        next.hold_answers();
        next.wait_for_revocations(1).await;
        seconds(5).await;
        assert!(!changing.is_finished());
        next.answer();
        let changed = tokio::time::timeout(Duration::from_secs(1), changing);
        assert!(changed.await.unwrap().unwrap().outcome.is_ok());
        assert_eq!(all.silent.connection.revocations(), []);
        assert_eq!(next.revocations().len(), 1);
    });
}

/// The connection broke under the revocation, and the client accepts leases again over the next one.
#[test]
fn a_revocation_without_an_answer_is_sent_again_over_the_next_connection() {
    simulate(async {
        let fixture = Simulated::new(6);
        let instance = start(&fixture).await;
        let all = Silent::new(&instance.mds).await;
        all.silent.keep_renewing();
        let changing = all.changer.begin(chmod(all.file, 0o600));
        all.silent.connection.wait_for_revocations(1).await;
        instance.mds.detach(all.silent.id());
        seconds(5).await;
        let next = all.silent.reconnect();
        next.hold_answers();
        all.silent.send(MetaOp::AcceptLeases).await;
        seconds(5).await;
        assert!(!changing.is_finished());
        // A reply from before may still arrive, so the leases are revoked although the client says that it has none.
        assert_eq!(next.revocations(), all.silent.connection.revocations());
        next.answer();
        let changed = tokio::time::timeout(Duration::from_secs(1), changing);
        assert!(changed.await.unwrap().unwrap().outcome.is_ok());
    });
}

/// A reply from before may still arrive, so the server counts the former leases until they are revoked.
#[test]
fn a_session_that_accepts_leases_again_is_asked_for_those_that_it_had_before() {
    simulate(async {
        let fixture = Simulated::new(9);
        let instance = start(&fixture).await;
        let all = Silent::new(&instance.mds).await;
        let next = all.silent.reconnect();
        all.silent.send(MetaOp::AcceptLeases).await.outcome.unwrap();
        let changed = all.changer.send(chmod(all.file, 0o600)).await;
        assert!(changed.outcome.is_ok(), "{changed:?}");
        let asked = next.revoked_keys();
        assert_eq!(asked, [LeaseKey::Attributes(all.file)].into());
    });
}
