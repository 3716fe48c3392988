//! Several sessions: the server calls the holder of a write lease, and grants the lease in request order.

use crate::client::Client;
use crate::fixture::{Simulated, simulate};
use crate::rights;
use crate::writers::write;
use gupfs_mds::Mds;
use gupfs_namespace::ParsedKey;
use gupfs_proto::callback::{CallbackReply, CallbackReplyBody, CallbackRequest};
use gupfs_proto::limits::SERVER_TERM;
use gupfs_proto::meta::{AttrReport, MetaOp, MetaReplyBody};
use gupfs_proto::{FsError, InodeId};
use gupfs_rpc::{Peer, Service};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// A session as the receiver of callbacks, and how it replies.
struct CallbackClient {
    client: Client,
    name: &'static str,
    log: Arc<Mutex<Vec<String>>>,
    /// Requests the write lease again as soon as it has released it.
    greedy: bool,
    /// Forgets a file before it replies that it has it open.
    hasty: bool,
    /// Does not know that it has a write lease: the reply to its request was lost.
    unaware: bool,
    /// Replies only "done".
    confused: AtomicBool,
}

impl Service<CallbackRequest, CallbackReply> for CallbackClient {
    async fn handle(self: Arc<Self>, request: CallbackRequest) -> CallbackReply {
        self.note(format!("{} is asked to {}", self.name, request.name()));
        match request {
            CallbackRequest::LockGranted { .. }
            | CallbackRequest::RevokeLeases { .. }
            | CallbackRequest::LeaveOut { .. }
            | CallbackRequest::TargetsStop { .. } => {}
            CallbackRequest::Glimpse { .. }
            | CallbackRequest::Revoke { .. }
            | CallbackRequest::Downgrade { .. }
                if self.unaware => {}
            CallbackRequest::Downgrade { ino } => {
                let report = AttrReport {
                    size: 300,
                    ..AttrReport::default()
                };
                let op = MetaOp::DowngradeWrite { ino, report };
                self.client.change(2, op).await.unwrap();
            }
            CallbackRequest::Glimpse { ino } => self.end_write(ino, true).await,
            CallbackRequest::Revoke { ino } => {
                short_pause().await;
                self.end_write(ino, false).await;
                if self.greedy {
                    let again = self.clone();
                    tokio::spawn(async move { again.begin_write(ino).await });
                    short_pause().await;
                }
            }
            CallbackRequest::CheckOpen { inodes } => {
                if self.hasty {
                    self.client.forget(inodes[0]).await;
                }
                if !self.confused.load(SeqCst) {
                    return Ok(CallbackReplyBody::IsOpen(vec![true; inodes.len()]));
                }
            }
        }
        Ok(CallbackReplyBody::Done)
    }
}

impl CallbackClient {
    async fn new(
        mds: &Arc<Mds>,
        name: &'static str,
        log: &Arc<Mutex<Vec<String>>>,
    ) -> CallbackClient {
        CallbackClient {
            client: Client::open(mds).await,
            name,
            log: log.clone(),
            greedy: false,
            hasty: false,
            unaware: false,
            confused: AtomicBool::new(false),
        }
    }

    fn attached(self) -> Arc<CallbackClient> {
        let asked = Arc::new(self);
        let mds = &asked.client.mds;
        mds.attach(asked.client.session, Peer::local(asked.clone()));
        asked
    }

    fn note(&self, what: String) {
        self.log.lock().push(what);
    }

    async fn begin_write(&self, ino: InodeId) {
        let op = MetaOp::BeginWrite {
            ino,
            kill_privileges: false,
        };
        self.client.change(3, op).await.unwrap();
        self.note(format!("{} has the lease", self.name));
    }

    /// Whether the lease is concurrent, and the size in the reply.
    async fn begin_write_at(&self, ino: InodeId, contended: bool) -> (bool, u64) {
        let op = MetaOp::BeginWriteAt {
            ino,
            kill_privileges: false,
            contended,
        };
        match self.client.change(3, op).await.unwrap() {
            MetaReplyBody::WriteBegun {
                opened,
                is_concurrent,
            } => (is_concurrent, opened.attr.size),
            other => panic!("{other:?}"),
        }
    }

    async fn end_write(&self, ino: InodeId, keep: bool) {
        let op = MetaOp::EndWrite {
            ino,
            report: AttrReport::default(),
            keep_lease: keep,
        };
        self.client.change(2, op).await.unwrap();
    }
}

async fn short_pause() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

#[test]
fn write_leases_are_granted_in_request_order() {
    simulate(async {
        let fixture = Simulated::new(1);
        let instance = fixture.start().await;
        let log = Arc::default();
        let mut one = CallbackClient::new(&instance.mds, "one", &log).await;
        one.greedy = true;
        let one = one.attached();
        let two = CallbackClient::new(&instance.mds, "two", &log)
            .await
            .attached();
        let three = CallbackClient::new(&instance.mds, "three", &log)
            .await
            .attached();
        let ino = one.client.create(0, InodeId::ROOT, "f").await.unwrap();
        one.begin_write(ino).await;
        let mut waiting = Vec::new();
        for session in [two, three.clone()] {
            waiting.push(tokio::spawn(async move { session.begin_write(ino).await }));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for waiting in waiting {
            waiting.await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let noted = |what: &str| {
            let log = log.lock();
            let noted = log.iter().filter_map(|line| line.strip_suffix(what));
            noted.map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(noted(" has the lease"), ["one", "two", "three", "one"]);
        let asked = noted(" is asked to give_back");
        assert_eq!(asked, ["one", "two", "three"]);
        // Another session reads the attributes: the holder reports them, and keeps the lease.
        assert_eq!(three.client.attr(ino).await.unwrap().size, 0);
        assert_eq!(log.lock().last().unwrap(), "one is asked to tell");
        one.end_write(ino, false).await;
        instance.mds.stop().await.unwrap();
        fixture.kill(&instance.platform).await;
        fixture.check().await;
    });
}

#[test]
fn several_sessions_write_a_contended_file_at_the_same_time() {
    simulate(async {
        let fixture = Simulated::new(8);
        let instance = fixture.start().await;
        let log = Arc::default();
        let mut sessions = Vec::new();
        for name in ["one", "two", "three"] {
            let session = CallbackClient::new(&instance.mds, name, &log).await;
            sessions.push(session.attached());
        }
        let [one, two, three] = &sessions[..] else {
            panic!()
        };
        let ino = one.client.create(0, InodeId::ROOT, "f").await.unwrap();
        let taken = || std::mem::take(&mut *log.lock());
        assert_eq!(one.begin_write_at(ino, true).await, (false, 0));
        assert_eq!(two.begin_write_at(ino, false).await, (false, 0));
        assert_eq!(taken(), ["one is asked to give_back"]);
        assert_eq!(one.begin_write_at(ino, true).await, (true, 300));
        assert_eq!(taken(), ["two is asked to downgrade"]);
        assert_eq!(three.begin_write_at(ino, false).await, (true, 300));
        assert_eq!(taken(), [""; 0], "the file is shared already");
        // All are asked for their attributes, and all leases are revoked for one that must be alone.
        let four = CallbackClient::new(&instance.mds, "four", &log)
            .await
            .attached();
        assert_eq!(four.client.attr(ino).await.unwrap().size, 300);
        let mut asked = taken();
        asked.sort();
        assert_eq!(asked.len(), 3, "{asked:?}");
        four.begin_write(ino).await;
        assert_eq!(taken().len(), 4, "three revokes, and the grant");
        four.end_write(ino, false).await;
        instance.mds.stop().await.unwrap();
        fixture.kill(&instance.platform).await;
        fixture.check().await;
    });
}

/// A lease whose grant was lost with its reply, and a session that does not know of it.
#[test]
fn an_exclusive_lease_of_which_its_session_does_not_know_is_taken_for_a_concurrent_one() {
    simulate(async {
        let fixture = Simulated::new(9);
        let instance = fixture.start().await;
        let log = Arc::default();
        let mut one = CallbackClient::new(&instance.mds, "one", &log).await;
        one.unaware = true;
        let one = one.attached();
        let two = CallbackClient::new(&instance.mds, "two", &log)
            .await
            .attached();
        let ino = one.client.create(0, InodeId::ROOT, "f").await.unwrap();
        one.client.begin_write(ino).await;
        let (is_concurrent, _) = two.begin_write_at(ino, true).await;
        assert!(!is_concurrent, "no other session writes it");
        two.end_write(ino, false).await;
        instance.mds.stop().await.unwrap();
        fixture.kill(&instance.platform).await;
        fixture.check().await;
    });
}

/// A fence would end the session's work on all its files: its client goes on with a session that the server counts as alive.
#[test]
fn a_write_lease_of_which_its_session_does_not_know_is_taken_without_a_fence() {
    simulate(async {
        let fixture = Simulated::new(7);
        let instance = rights::host::start(&fixture).await;
        let log = Arc::default();
        let mut one = CallbackClient::new(&instance.mds, "one", &log).await;
        one.unaware = true;
        let one = one.attached();
        let two = CallbackClient::new(&instance.mds, "two", &log)
            .await
            .attached();
        let ino = one.client.create(0, InodeId::ROOT, "f").await.unwrap();
        let opened = one.client.begin_write(ino).await;
        write(&fixture.osts, &opened, 5_000, 4_000_000_000);
        two.begin_write(ino).await;
        assert_eq!(two.client.attr(ino).await.unwrap().size, 5_000);
        let fences = || {
            let requests = fixture.osts.iter().flat_map(|ost| ost.take_requests());
            requests
                .filter(|request| request.starts_with("fence"))
                .count()
        };
        assert_eq!(fences(), 0);
        assert!(instance.mds.has_session(one.client.session));
        // A session that has ended is fenced.
        instance.mds.end_session(two.client.session).await;
        assert!(fences() > 0);
        fixture.kill(&instance.platform).await;
    });
}

/// A client replies to a revoke after everything that it has in flight, so a copy of its request
/// that waited behind the next requester would keep both waiting until their deadline.
#[test]
fn a_repeated_request_is_answered_with_its_first_copy_although_others_wait() {
    simulate(async {
        let fixture = Simulated::new(6);
        let instance = fixture.start().await;
        let log = Arc::default();
        let one = CallbackClient::new(&instance.mds, "one", &log)
            .await
            .attached();
        let two = Client::open(&instance.mds).await;
        let three = CallbackClient::new(&instance.mds, "three", &log)
            .await
            .attached();
        let ino = one.client.create(0, InodeId::ROOT, "f").await.unwrap();
        one.begin_write(ino).await;
        let slot_seq = two.next_slot_seq(0);
        let begin = || MetaOp::BeginWrite {
            ino,
            kill_privileges: false,
        };
        let first = two.send(Some(slot_seq), begin());
        let next = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            three.begin_write(ino).await;
        };
        // Its connection broke; the first copy goes on, and its reply is lost.
        let again = async {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let reply = two.send(Some(slot_seq), begin()).await;
            assert!(reply.result.is_ok(), "{reply:?}");
            // It has nothing in flight any more: it releases the lease, as the callback demands.
            let op = MetaOp::EndWrite {
                ino,
                report: AttrReport::default(),
                keep_lease: false,
            };
            two.change(1, op).await.unwrap();
        };
        let all = async { tokio::join!(first, next, again) };
        let ended = tokio::time::timeout(Duration::from_secs(5), all).await;
        let (first, ..) = ended.expect("no session waits for itself");
        assert!(first.result.is_ok(), "{first:?}");
        three.end_write(ino, false).await;
        instance.mds.stop().await.unwrap();
        fixture.kill(&instance.platform).await;
        fixture.check().await;
    });
}

#[test]
fn a_file_forgotten_before_its_open_reply_arrives_is_removed() {
    simulate(async {
        for (hasty, confused) in [(true, false), (false, false), (false, true)] {
            let fixture = Simulated::new(2);
            let instance = fixture.start().await;
            let log = Arc::default();
            let one = CallbackClient::new(&instance.mds, "one", &log)
                .await
                .attached();
            let mut two = CallbackClient::new(&instance.mds, "two", &log).await;
            two.hasty = hasty;
            two.confused = AtomicBool::new(confused);
            let two = two.attached();
            let ino = two.client.create(0, InodeId::ROOT, "f").await.unwrap();
            one.client.unlink(0, InodeId::ROOT, "f").await.unwrap();
            one.client.forget(ino).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            if !hasty {
                assert_eq!(two.client.attr(ino).await.unwrap().nlink, 0);
                two.client.forget(ino).await;
            }
            assert_eq!(two.client.attr(ino).await, Err(FsError::Stale));
            assert_eq!(*log.lock(), ["two is asked to removed"]);
            instance.mds.stop().await.unwrap();
            fixture.kill(&instance.platform).await;
            let orphans = fixture.check().await;
            let orphans = orphans
                .iter()
                .filter(|(key, _)| matches!(key.parse(), Some(ParsedKey::Orphan { .. })));
            assert_eq!(orphans.count(), 0);
        }
    });
}

/// The server does not wait for an ended session, also not about files removed while it was disconnected.
#[test]
fn a_removed_file_waits_for_a_disconnected_session_and_not_for_an_ended_one() {
    simulate(async {
        let fixture = Simulated::new(3);
        let instance = fixture.start().await;
        let one = Client::open(&instance.mds).await;
        let two = Client::open(&instance.mds).await;
        let ino = one.create(0, InodeId::ROOT, "f").await.unwrap();
        one.unlink(0, InodeId::ROOT, "f").await.unwrap();
        one.forget(ino).await;
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(one.attr(ino).await.is_ok());
        let waits = instance.mds.status().await.waits;
        let session = two.session;
        assert_eq!(
            waits[0].waits_for,
            format!("session {session} to report which removed files it has open")
        );
        two.change(0, MetaOp::CloseSession).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(one.attr(ino).await, Err(FsError::Stale));
        instance.mds.stop().await.unwrap();
        fixture.kill(&instance.platform).await;
        fixture.check().await;
    });
}

#[test]
fn a_client_that_disconnects_before_its_close_is_answered_delays_no_other() {
    simulate(async {
        let fixture = Simulated::new(4);
        let instance = fixture.start().await;
        let one = Client::open(&instance.mds).await;
        let two = Client::open(&instance.mds).await;
        let ino = one.create(0, InodeId::ROOT, "f").await.unwrap();
        let opened = one.begin_write(ino).await;
        crate::writers::write(&fixture.osts, &opened, 9_000, 4_000_000_000);
        for ost in &fixture.osts {
            ost.set_slow(Duration::from_secs(3));
        }
        let goodbye = tokio::spawn(async move { one.change(0, MetaOp::CloseSession).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        goodbye.abort();
        let look = tokio::time::timeout(Duration::from_secs(20), two.attr(ino));
        assert_eq!(look.await.unwrap().unwrap().size, 9_000);
        instance.mds.stop().await.unwrap();
    });
}

#[test]
fn a_server_that_did_not_run_for_a_minute_ends_no_session_for_it() {
    simulate(async {
        let fixture = Simulated::new(5);
        let platform = fixture.platform();
        let mut options = fixture.start_options(&platform);
        options.keep_sessions = true;
        let mds = fixture.start_as(options).await.unwrap();
        let one = Client::open(&mds).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        platform.clock.advance(Duration::from_secs(60));
        tokio::time::sleep(Duration::from_secs(5)).await;
        one.create(0, InodeId::ROOT, "f").await.unwrap();
        // The session has the rest of its term, and no more.
        tokio::time::sleep(SERVER_TERM).await;
        let late = one.change(0, Client::creation(InodeId::ROOT, "g")).await;
        assert_eq!(late, Err(FsError::SessionEnded));
        mds.stop().await.unwrap();
    });
}
