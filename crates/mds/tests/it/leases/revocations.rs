//! A change of what another session has leases on: before that session has answered, nobody sees the change, and its requester gets no reply.

use super::session::*;
use crate::client::Client;
use crate::fixture::{ServerInstance, Simulated, simulate};
use gupfs_proto::lease::LeaseKey;
use gupfs_proto::limits::REVOKED_KEYS_MAX;
use gupfs_proto::meta::{MetaOp, SetAttr, SetTime};
use gupfs_proto::{InodeId, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A directory that one session has read, and that another changes; a third one watches.
struct Watched {
    instance: ServerInstance,
    reader: Arc<LeaseSession>,
    changer: Arc<LeaseSession>,
    watcher: Arc<LeaseSession>,
    dir: InodeId,
    file: InodeId,
    other: InodeId,
}

impl Watched {
    async fn new(seed: u64) -> Watched {
        let fixture = Simulated::new(seed);
        let instance = start(&fixture).await;
        let reader = LeaseSession::open(&instance.mds).await;
        let changer = LeaseSession::open(&instance.mds).await;
        let watcher = LeaseSession::open(&instance.mds).await;
        let made = &changer.client;
        let dir = made.mkdir(0, InodeId::ROOT, "d").await.unwrap();
        let file = made.create(0, dir, "f").await.unwrap();
        let other = made.create(0, dir, "g").await.unwrap();
        changer.send(set_xattr(file, b"red")).await;
        made.change(1, MetaOp::CloseSession).await.unwrap();
        let changer = LeaseSession::open(&instance.mds).await;
        quiet().await;
        Watched {
            instance,
            reader,
            changer,
            watcher,
            dir,
            file,
            other,
        }
    }

    fn reads(&self) -> Vec<MetaOp> {
        vec![
            MetaOp::GetAttr { ino: self.dir },
            look_up(self.dir, "f"),
            look_up(self.dir, "g"),
            look_up(self.dir, "new"),
            list(self.dir),
            get_xattr(self.file),
        ]
    }

    async fn read_all(&self, session: &LeaseSession) -> Vec<LeasedReply> {
        let mut replies = Vec::new();
        for op in self.reads() {
            replies.push(session.send(op).await);
        }
        replies
    }
}

fn outcomes(replies: &[LeasedReply]) -> Vec<String> {
    let outcomes = replies.iter().map(|reply| format!("{:?}", reply.outcome));
    outcomes.collect()
}

fn keys(replies: &[LeasedReply]) -> BTreeSet<LeaseKey> {
    replies.iter().flat_map(LeasedReply::keys).collect()
}

/// Makes a change while the reader holds leases on everything, and checks what each session sees before and after the reader's answer.
/// `revoked` gives the keys that must be revoked, of the directory, the file and the names `f`, `g`, `new`.
async fn check_change(
    seed: u64,
    change: impl Fn(&Watched) -> MetaOp,
    revoked: impl Fn(&Watched, [LeaseKey; 3]) -> Vec<LeaseKey>,
) {
    let all = Watched::new(seed).await;
    let before = all.read_all(&all.reader).await;
    let names = [1, 2, 3].map(|reply| before[reply].name_key());
    let expected: BTreeSet<_> = revoked(&all, names).into_iter().collect();
    assert!(keys(&before).is_superset(&expected), "{before:?}");
    all.reader.connection.hold_answers();
    let op = change(&all);
    let changing = all.changer.begin(op.clone());
    all.reader.connection.wait_for_revocations(1).await;
    for _ in 0..2 {
        seconds(8).await;
        assert!(!changing.is_finished(), "{op:?}");
        for session in [&all.watcher, &all.changer, &all.reader] {
            let seen = all.read_all(session).await;
            assert_eq!(outcomes(&seen), outcomes(&before), "{op:?}");
            let closed = keys(&seen);
            let granted: Vec<_> = closed.intersection(&expected).collect();
            assert!(granted.is_empty(), "{op:?}: {granted:?}");
        }
    }
    let [revocation] = &all.reader.connection.revocations()[..] else {
        panic!("{op:?}: {:?}", all.reader.connection.revocations());
    };
    let asked: BTreeSet<_> = revocation.keys.iter().copied().collect();
    assert_eq!(asked, expected, "{op:?}");
    assert_eq!(lease_status(&all.instance.mds).await.waiting_for, 1);
    all.reader.connection.answer();
    let changed = changing.await.unwrap();
    assert!(changed.outcome.is_ok(), "{op:?}: {changed:?}");
    let after = all.read_all(&all.watcher).await;
    assert_ne!(outcomes(&after), outcomes(&before), "{op:?}");
    assert_eq!(outcomes(&all.read_all(&all.reader).await), outcomes(&after));
    let status = lease_status(&all.instance.mds).await;
    assert_eq!((status.closed_keys, status.waiting_for), (0, 0), "{op:?}");
    let granted = keys(&after);
    let still_there = expected.iter().filter(|key| key.inode() != all.other);
    for key in still_there {
        assert!(granted.contains(key), "{op:?}: {key:?} stays closed");
    }
}

fn names_and_attributes(dir: InodeId) -> [LeaseKey; 2] {
    [LeaseKey::Names(dir), LeaseKey::Attributes(dir)]
}

#[test]
fn a_change_of_attributes_waits_for_the_answer_of_their_holder() {
    simulate(check_change(
        1,
        |all| chmod(all.file, 0o600),
        |all, _| vec![LeaseKey::Attributes(all.file)],
    ));
}

#[test]
fn a_change_of_an_extended_attribute_waits_for_the_answer_of_its_holder() {
    simulate(check_change(
        2,
        |all| set_xattr(all.file, b"blue"),
        |all, _| vec![LeaseKey::Attributes(all.file)],
    ));
}

#[test]
fn a_creation_waits_for_the_holders_of_the_absent_name_the_listing_and_the_directory() {
    simulate(check_change(
        3,
        |all| Client::creation(all.dir, "new"),
        |all, [_, _, new]| [&names_and_attributes(all.dir)[..], &[new]].concat(),
    ));
}

#[test]
fn an_unlink_waits_for_the_holders_of_the_name_the_listing_the_directory_and_the_file() {
    simulate(check_change(
        4,
        |all| unlink(all.dir, "g"),
        |all, [_, g, _]| {
            let file = LeaseKey::Attributes(all.other);
            [&names_and_attributes(all.dir)[..], &[g, file]].concat()
        },
    ));
}

#[test]
fn a_rename_over_a_name_waits_for_the_holders_of_both_names_and_both_files() {
    simulate(check_change(
        5,
        |all| rename(all.dir, "f", "g"),
        |all, [f, g, _]| {
            let files = [all.file, all.other].map(LeaseKey::Attributes);
            [&names_and_attributes(all.dir)[..], &[f, g], &files].concat()
        },
    ));
}

#[test]
fn a_link_waits_for_the_holders_of_the_name_the_listing_the_directory_and_the_file() {
    simulate(check_change(
        6,
        |all| link(all.file, all.dir, "new"),
        |all, [_, _, new]| {
            let file = LeaseKey::Attributes(all.file);
            [&names_and_attributes(all.dir)[..], &[new, file]].concat()
        },
    ));
}

/// One that has answered is not asked again because another one is slow.
#[test]
fn each_holder_gets_one_message_and_all_are_asked_at_once() {
    simulate(async {
        let all = Watched::new(7).await;
        let holders = [&all.reader, &all.watcher];
        for holder in holders {
            all.read_all(holder).await;
            holder.connection.hold_answers();
        }
        let changing = all.changer.begin(rename(all.dir, "f", "g"));
        for holder in holders {
            holder.connection.wait_for_revocations(1).await;
        }
        let waits = all.instance.mds.status().await.waits;
        assert_eq!(waits.len(), 2, "{waits:?}");
        all.reader.connection.answer();
        seconds(5).await;
        assert!(!changing.is_finished());
        all.watcher.connection.answer();
        assert!(changing.await.unwrap().outcome.is_ok());
        for holder in holders {
            assert_eq!(holder.connection.revocations().len(), 1);
        }
    });
}

/// Many names of one directory are revoked with one message each, and nothing else is.
#[test]
fn a_change_revokes_nothing_of_what_stays_as_it_is() {
    simulate(async {
        let all = Watched::new(8).await;
        all.read_all(&all.reader).await;
        let held = lease_status(&all.instance.mds).await.leases;
        all.changer.send(chmod(all.other, 0o600)).await;
        let revoked = all.reader.connection.revoked_keys();
        assert_eq!(revoked, [LeaseKey::Attributes(all.other)].into());
        // The requester got a lease on the same attributes.
        assert_eq!(lease_status(&all.instance.mds).await.leases, held);
        // Access times are excepted.
        let before = all.watcher.attr(all.file).await.attr();
        let atime = Timestamp::new(before.atime.secs + 5, 0);
        let set = SetAttr {
            atime: Some(SetTime::To(atime)),
            ctime: Some(before.ctime),
            ..SetAttr::default()
        };
        let ino = all.file;
        let reported = all.changer.send(MetaOp::SetAttr { ino, set }).await;
        assert_eq!(reported.attr().atime, atime);
        assert_eq!(all.reader.connection.revocations().len(), 1);
    });
}

#[test]
fn a_session_that_holds_too_many_leases_is_asked_for_its_oldest_and_no_change_waits_for_it() {
    simulate(async {
        let fixture = Simulated::new(9);
        let instance = start(&fixture).await;
        let one = LeaseSession::open(&instance.mds).await;
        let first = one.look_up(InodeId::ROOT, "absent0").await.name_key();
        one.connection.hold_answers();
        let mut refused = 0;
        for i in 1..(1 << 16) + 2_000 {
            let absent = one.look_up(InodeId::ROOT, &format!("absent{i}")).await;
            refused += usize::from(absent.grants.is_empty());
            tokio::task::yield_now().await;
        }
        let held = lease_status(&instance.mds).await.leases;
        assert_eq!(
            held,
            1 << 16,
            "no more than its part, also without an answer"
        );
        assert_eq!(refused, 2_000);
        let [revocation] = &one.connection.revocations()[..] else {
            panic!("{}", one.connection.revocations().len());
        };
        assert_eq!(revocation.keys.len(), REVOKED_KEYS_MAX);
        assert_eq!(revocation.keys[0], first);
        // A change of something else waits for nothing.
        one.send(chmod(InodeId::ROOT, 0o755)).await.outcome.unwrap();
        one.connection.answer();
        seconds(1).await;
        let held = lease_status(&instance.mds).await.leases;
        assert!(held <= (1 << 16) - REVOKED_KEYS_MAX as u64 + 1, "{held}");
    });
}
