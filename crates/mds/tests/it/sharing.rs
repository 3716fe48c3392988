//! Several sessions: who holds a file is asked, and whoever wants it has its turn.

use crate::client::Client;
use crate::house::{Simulated, simulate};
use gupfs_mds::Mds;
use gupfs_namespace::Parsed;
use gupfs_proto::limits::SERVER_TERM;
use gupfs_proto::meta::{Op, Written};
use gupfs_proto::recall::{Answer, Reply, Request};
use gupfs_proto::{InodeId, Refusal};
use gupfs_rpc::{Peer, Service};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// A session as the server asks it, and how it answers.
struct Asked {
    client: Client,
    name: &'static str,
    log: Arc<Mutex<Vec<String>>>,
    /// Wants a file again in the moment when it has given it back.
    greedy: bool,
    /// Says that it forgot a file before it says that it has it open.
    hasty: bool,
    /// Says nothing but "done".
    confused: AtomicBool,
}

impl Service<Request, Reply> for Asked {
    async fn answer(self: Arc<Self>, question: Request) -> Reply {
        self.say(format!("{} is asked to {}", self.name, question.name()));
        match question {
            Request::Granted { .. } => {}
            Request::Tell { ino } => self.end_write(ino, true).await,
            Request::GiveBack { ino } => {
                moment().await;
                self.end_write(ino, false).await;
                if self.greedy {
                    let again = self.clone();
                    tokio::spawn(async move { again.begin_write(ino).await });
                    moment().await;
                }
            }
            Request::Removed { inodes } => {
                if self.hasty {
                    self.client.forget(inodes[0]).await;
                }
                if !self.confused.load(SeqCst) {
                    return Ok(Answer::Open(vec![true; inodes.len()]));
                }
            }
        }
        Ok(Answer::Done)
    }
}

impl Asked {
    async fn new(mds: &Arc<Mds>, name: &'static str, log: &Arc<Mutex<Vec<String>>>) -> Asked {
        Asked {
            client: Client::open(mds).await,
            name,
            log: log.clone(),
            greedy: false,
            hasty: false,
            confused: AtomicBool::new(false),
        }
    }

    fn attached(self) -> Arc<Asked> {
        let asked = Arc::new(self);
        let mds = &asked.client.mds;
        mds.attach(asked.client.session, Peer::local(asked.clone()));
        asked
    }

    fn say(&self, what: String) {
        self.log.lock().push(what);
    }

    async fn begin_write(&self, ino: InodeId) {
        let op = Op::BeginWrite {
            ino,
            kill_privileges: false,
        };
        self.client.change(3, op).await.unwrap();
        self.say(format!("{} holds it", self.name));
    }

    async fn end_write(&self, ino: InodeId, keep: bool) {
        let op = Op::EndWrite {
            ino,
            written: Written::default(),
            keep,
        };
        self.client.change(2, op).await.unwrap();
    }
}

async fn moment() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

#[test]
fn whoever_wants_a_file_has_it_in_his_turn() {
    simulate(async {
        let house = Simulated::new(1);
        let life = house.start().await;
        let log = Arc::default();
        let mut one = Asked::new(&life.mds, "one", &log).await;
        one.greedy = true;
        let one = one.attached();
        let two = Asked::new(&life.mds, "two", &log).await.attached();
        let three = Asked::new(&life.mds, "three", &log).await.attached();
        let ino = one.client.create(0, InodeId::ROOT, "f").await.unwrap();
        one.begin_write(ino).await;
        let mut waiting = Vec::new();
        for who in [two, three.clone()] {
            waiting.push(tokio::spawn(async move { who.begin_write(ino).await }));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for waiting in waiting {
            waiting.await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let said = |what: &str| {
            let log = log.lock();
            let said = log.iter().filter_map(|line| line.strip_suffix(what));
            said.map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(said(" holds it"), ["one", "two", "three", "one"]);
        let asked = said(" is asked to give_back");
        assert_eq!(asked, ["one", "two", "three"]);
        // Somebody looks: it is told, and held on.
        assert_eq!(three.client.attr(ino).await.unwrap().size, 0);
        assert_eq!(log.lock().last().unwrap(), "one is asked to tell");
        one.end_write(ino, false).await;
        life.mds.stop().await.unwrap();
        house.kill(&life.platform).await;
        house.check().await;
    });
}

/// A client answers "give back" after what it has under way, so a copy of its request
/// that waited behind the one who asks would keep both waiting until their deadline.
#[test]
fn a_request_that_is_sent_again_is_answered_when_its_first_copy_was_though_others_wait_by_then() {
    simulate(async {
        let house = Simulated::new(6);
        let life = house.start().await;
        let log = Arc::default();
        let one = Asked::new(&life.mds, "one", &log).await.attached();
        let two = Client::open(&life.mds).await;
        let three = Asked::new(&life.mds, "three", &log).await.attached();
        let ino = one.client.create(0, InodeId::ROOT, "f").await.unwrap();
        one.begin_write(ino).await;
        let lane = two.next_lane(0);
        let begin = || Op::BeginWrite {
            ino,
            kill_privileges: false,
        };
        let first = two.ask(Some(lane), begin());
        let next = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            three.begin_write(ino).await;
        };
        // Its connection broke; the former copy goes on, and is answered to nobody.
        let again = async {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let reply = two.ask(Some(lane), begin()).await;
            assert!(reply.result.is_ok(), "{reply:?}");
            // Nothing of it is under way any more: it gives the file back, as it is asked to.
            let op = Op::EndWrite {
                ino,
                written: Written::default(),
                keep: false,
            };
            two.change(1, op).await.unwrap();
        };
        let all = async { tokio::join!(first, next, again) };
        let ended = tokio::time::timeout(Duration::from_secs(5), all).await;
        let (first, ..) = ended.expect("nobody waits for himself");
        assert!(first.result.is_ok(), "{first:?}");
        three.end_write(ino, false).await;
        life.mds.stop().await.unwrap();
        house.kill(&life.platform).await;
        house.check().await;
    });
}

#[test]
fn a_file_that_was_forgotten_before_it_was_said_to_be_open_goes() {
    simulate(async {
        for (hasty, confused) in [(true, false), (false, false), (false, true)] {
            let house = Simulated::new(2);
            let life = house.start().await;
            let log = Arc::default();
            let one = Asked::new(&life.mds, "one", &log).await.attached();
            let mut two = Asked::new(&life.mds, "two", &log).await;
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
            assert_eq!(two.client.attr(ino).await, Err(Refusal::Stale));
            assert_eq!(*log.lock(), ["two is asked to removed"]);
            life.mds.stop().await.unwrap();
            house.kill(&life.platform).await;
            let orphans = house.check().await;
            let orphans = orphans
                .iter()
                .filter(|(key, _)| matches!(key.parse(), Some(Parsed::Orphan { .. })));
            assert_eq!(orphans.count(), 0);
        }
    });
}

/// Whoever ended is not asked any more, also not about what was removed while he was cut off.
#[test]
fn a_removed_file_waits_for_who_is_cut_off_and_not_for_who_has_ended() {
    simulate(async {
        let house = Simulated::new(3);
        let life = house.start().await;
        let one = Client::open(&life.mds).await;
        let two = Client::open(&life.mds).await;
        let ino = one.create(0, InodeId::ROOT, "f").await.unwrap();
        one.unlink(0, InodeId::ROOT, "f").await.unwrap();
        one.forget(ino).await;
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(one.attr(ino).await.is_ok());
        let waits = life.mds.status().await.waits;
        let session = two.session;
        assert_eq!(
            waits[0].waits_for,
            format!("session {session} to say which removed files it has open")
        );
        two.change(0, Op::CloseSession).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(one.attr(ino).await, Err(Refusal::Stale));
        life.mds.stop().await.unwrap();
        house.kill(&life.platform).await;
        house.check().await;
    });
}

#[test]
fn a_client_that_is_gone_before_its_goodbye_is_answered_holds_nobody_up() {
    simulate(async {
        let house = Simulated::new(4);
        let life = house.start().await;
        let one = Client::open(&life.mds).await;
        let two = Client::open(&life.mds).await;
        let ino = one.create(0, InodeId::ROOT, "f").await.unwrap();
        let opened = one.begin_write(ino).await;
        crate::writers::write(&house.osts, &opened, 9_000, 4_000_000_000);
        for ost in &house.osts {
            ost.set_slow(Duration::from_secs(3));
        }
        let goodbye = tokio::spawn(async move { one.change(0, Op::CloseSession).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        goodbye.abort();
        let look = tokio::time::timeout(Duration::from_secs(20), two.attr(ino));
        assert_eq!(look.await.unwrap().unwrap().size, 9_000);
        life.mds.stop().await.unwrap();
    });
}

#[test]
fn a_server_that_did_not_run_for_a_minute_ends_nobody_for_it() {
    simulate(async {
        let house = Simulated::new(5);
        let platform = house.platform();
        let mut how = house.how(&platform);
        how.keep_sessions = true;
        let mds = house.start_as(how).await.unwrap();
        let one = Client::open(&mds).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        platform.clock.advance(Duration::from_secs(60));
        tokio::time::sleep(Duration::from_secs(5)).await;
        one.create(0, InodeId::ROOT, "f").await.unwrap();
        // It has the rest of its term, and no more.
        tokio::time::sleep(SERVER_TERM).await;
        let late = one.change(0, Client::creation(InodeId::ROOT, "g")).await;
        assert_eq!(late, Err(Refusal::SessionEnded));
        mds.stop().await.unwrap();
    });
}
