//! The server ends and starts: its table of leases is gone, and clients answer by theirs until they know.

use super::session::*;
use crate::client::Client;
use crate::fixture::{ServerInstance, Simulated, simulate};
use gupfs_proto::InodeId;
use gupfs_proto::attr::FileMode;
use gupfs_proto::lease::LeaseKey;
use gupfs_proto::limits::SERVER_TERM;
use gupfs_proto::meta::MetaOp;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A file, a session with a lease on its attributes, and another session.
struct Two {
    fixture: Simulated,
    instance: ServerInstance,
    holder: Arc<LeaseSession>,
    other: Arc<LeaseSession>,
    file: InodeId,
}

impl Two {
    async fn new(seed: u64) -> Two {
        let fixture = Simulated::new(seed);
        let instance = start(&fixture).await;
        let holder = LeaseSession::open(&instance.mds).await;
        let other = LeaseSession::open(&instance.mds).await;
        let file = other.client.create(0, InodeId::ROOT, "f").await.unwrap();
        other.client.sync().await.unwrap();
        let held = holder.attr(file).await;
        assert!(held.number_of(LeaseKey::Attributes(file)).is_some());
        Two {
            fixture,
            instance,
            holder,
            other,
            file,
        }
    }

    /// The next start, and the other session at it.
    async fn start_again(&self) -> (ServerInstance, Arc<LeaseSession>) {
        self.fixture.kill(&self.instance.platform).await;
        let next = start(&self.fixture).await;
        let status = lease_status(&next.mds).await;
        assert_eq!((status.leases, status.sessions.len()), (0, 0));
        let other = at(&next, &self.other);
        (next, other)
    }
}

/// The session at the next start.
fn at(next: &ServerInstance, session: &LeaseSession) -> Arc<LeaseSession> {
    let client = Client::of(&next.mds, session.id());
    // Its slots were used before.
    for slot in 0..64 {
        for _ in 0..100 {
            client.next_slot_seq(slot);
        }
    }
    LeaseSession::of(&next.mds, client)
}

fn replay(of: &ServerInstance) -> MetaOp {
    MetaOp::Replay {
        instance: of.mds.owner_epoch(),
        records: vec![],
        locks: vec![],
        last: true,
    }
}

#[test]
fn after_a_kill_nothing_changes_before_every_recorded_session_is_back() {
    simulate(async {
        let all = Two::new(1).await;
        let (next, other) = all.start_again().await;
        let back = other.begin(replay(&all.instance));
        let changing = other.begin(chmod(all.file, 0o600));
        seconds(15).await;
        assert!(!back.is_finished() && !changing.is_finished());
        let holder = at(&next, &all.holder);
        let returned = holder.send(replay(&all.instance)).await;
        assert!(
            returned.is_plain && returned.outcome.is_ok(),
            "{returned:?}"
        );
        assert!(back.await.unwrap().is_plain);
        assert!(changing.await.unwrap().outcome.is_ok());
        // Leases are asked for anew.
        assert!(holder.attr(all.file).await.is_plain);
        assert_eq!(holder.connection.revocations(), []);
        holder.send(MetaOp::AcceptLeases).await.outcome.unwrap();
        assert!(!holder.attr(all.file).await.grants.is_empty());
    });
}

#[test]
fn after_a_kill_nothing_changes_before_the_term_of_a_session_that_stays_away_is_over() {
    simulate(async {
        let all = Two::new(2).await;
        let (_next, other) = all.start_again().await;
        let started = Instant::now();
        other.keep_renewing();
        let back = other.begin(replay(&all.instance));
        let changed = other.send(chmod(all.file, 0o600)).await;
        assert!(changed.outcome.is_ok(), "{changed:?}");
        let since = started.elapsed();
        assert!(since >= SERVER_TERM, "{since:?}");
        assert!(since <= SERVER_TERM + Duration::from_secs(3), "{since:?}");
        assert!(back.await.unwrap().outcome.is_ok());
    });
}

#[test]
fn an_orderly_stop_revokes_all_leases_and_grants_none_and_the_next_start_waits_for_nobody() {
    simulate(async {
        let all = Two::new(3).await;
        for i in 0..5_000 {
            all.holder
                .look_up(InodeId::ROOT, &format!("absent{i}"))
                .await;
        }
        let begun = Instant::now();
        all.instance.mds.revoke_all_leases().await;
        assert!(begun.elapsed() < Duration::from_secs(1));
        assert_eq!(lease_status(&all.instance.mds).await.leases, 0);
        let revoked = all.holder.connection.revoked_keys();
        assert!(revoked.contains(&LeaseKey::Attributes(all.file)));
        assert!(revoked.len() > 5_000, "{}", revoked.len());
        // It serves until its connections are closed.
        let seen = all.holder.attr(all.file).await;
        assert!(seen.is_plain && seen.outcome.is_ok(), "{seen:?}");
        all.instance.mds.stop().await.unwrap();
        let (_next, other) = all.start_again().await;
        let changed = other.send(chmod(all.file, 0o600));
        let changed = tokio::time::timeout(Duration::from_secs(1), changed).await;
        assert!(changed.unwrap().outcome.is_ok());
    });
}

#[test]
fn an_orderly_stop_waits_two_seconds_for_a_silent_session_and_the_next_start_waits_for_it() {
    simulate(async {
        let all = Two::new(4).await;
        all.holder.connection.hold_answers();
        let begun = Instant::now();
        all.instance.mds.revoke_all_leases().await;
        let took = begun.elapsed();
        assert!(took >= Duration::from_secs(2), "{took:?}");
        assert!(took < Duration::from_millis(2_100), "{took:?}");
        all.instance.mds.stop().await.unwrap();
        let (next, other) = all.start_again().await;
        let back = other.begin(replay(&all.instance));
        let changing = other.begin(chmod(all.file, 0o600));
        seconds(15).await;
        assert!(!back.is_finished() && !changing.is_finished());
        let holder = at(&next, &all.holder);
        holder.send(replay(&all.instance)).await.outcome.unwrap();
        assert!(changing.await.unwrap().outcome.is_ok());
    });
}

/// A change that a power loss undid is made again for its session.
#[test]
fn a_replayed_change_grants_its_session_nothing() {
    simulate(async {
        let all = Two::new(5).await;
        let slot_seq = Some(all.holder.next_slot_seq());
        let op = chmod(all.file, 0o600);
        let reply = crate::client::send(&all.instance.mds, all.holder.id(), slot_seq, op.clone());
        let reply = reply.await;
        assert!(!LeasedReply::from(reply.result.clone()).grants.is_empty());
        all.fixture.lose_power(&all.instance.platform).await;
        let next = start(&all.fixture).await;
        let (holder, other) = (at(&next, &all.holder), at(&next, &all.other));
        let caller = gupfs_proto::Caller::root();
        let record = crate::rights::host::replay_record(caller, &op, slot_seq, &reply);
        let back = other.begin(replay(&all.instance));
        let replayed = holder.send(MetaOp::Replay {
            instance: all.instance.mds.owner_epoch(),
            records: vec![record],
            locks: vec![],
            last: true,
        });
        assert!(replayed.await.is_plain);
        assert!(back.await.unwrap().is_plain);
        let attr = other.attr(all.file).await.attr();
        assert_eq!(attr.mode, FileMode::from_bits(0o600));
        assert_eq!(lease_status(&next.mds).await.leases, 0);
    });
}
