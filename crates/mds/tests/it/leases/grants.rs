//! What a reply grants, and to whom.

use super::session::*;
use crate::client::Client;
use crate::fixture::{DirFixture, Simulated, simulate};
use gupfs_proto::lease::{GrantNumber, LeaseKey};
use gupfs_proto::meta::{AccessMode, MetaOp, OpenMode};
use gupfs_proto::{FsError, InodeId};

#[test]
fn a_session_that_did_not_accept_leases_gets_plain_replies_and_is_asked_nothing() {
    simulate(async {
        let fixture = Simulated::new(1);
        let instance = start(&fixture).await;
        let one = LeaseSession::of(&instance.mds, Client::open(&instance.mds).await);
        one.keep_renewing();
        let two = LeaseSession::open(&instance.mds).await;
        let dir = one.client.mkdir(0, InodeId::ROOT, "d").await.unwrap();
        let file = one.client.create(0, dir, "f").await.unwrap();
        for op in [
            MetaOp::GetAttr { ino: file },
            look_up(dir, "f"),
            look_up(dir, "absent"),
            list(dir),
            MetaOp::ListXattr { ino: file },
            chmod(file, 0o600),
            link(file, dir, "g"),
            unlink(dir, "g"),
        ] {
            let reply = one.send(op.clone()).await;
            assert!(reply.is_plain, "{op:?}: {reply:?}");
        }
        let of_sessions = lease_status(&instance.mds).await.sessions;
        assert!(!of_sessions.contains_key(&one.id()), "{of_sessions:?}");
        // Another session changes all that it has read.
        two.send(chmod(file, 0o644)).await.outcome.unwrap();
        two.send(unlink(dir, "f")).await.outcome.unwrap();
        two.send(Client::creation(dir, "absent"))
            .await
            .outcome
            .unwrap();
        assert_eq!(one.connection.revocations(), []);
        assert_eq!(lease_status(&instance.mds).await.revocations, 0);
    });
}

/// Were leases granted, a client that dies would delay a change for ever.
#[test]
fn a_server_whose_sessions_have_no_term_grants_no_leases() {
    simulate(async {
        let fixture = DirFixture::new();
        let mds = fixture.start().await;
        let client = Client::open(&mds).await;
        let accepted = client.read(MetaOp::AcceptLeases).await;
        assert_eq!(accepted, Err(FsError::NotSupported));
        let session = LeaseSession::of(&mds, client);
        assert!(session.attr(InodeId::ROOT).await.is_plain);
        mds.stop().await.unwrap();
    });
}

/// An operation in the envelope of open capabilities passes no check of the connection that reads the operation itself.
#[test]
fn leases_are_not_accepted_in_an_envelope() {
    simulate(async {
        let fixture = Simulated::new(2);
        let instance = start(&fixture).await;
        let client = Client::open(&instance.mds).await;
        let op = MetaOp::WithOpenCapability {
            open_capabilities: vec![],
            op: gupfs_proto::wire::encode_op(&MetaOp::AcceptLeases),
        };
        let accepted = client.read(op).await;
        assert!(
            matches!(accepted, Err(FsError::Malformed(_))),
            "{accepted:?}"
        );
    });
}

#[test]
fn a_reply_grants_what_it_says() {
    simulate(async {
        let fixture = Simulated::new(3);
        let instance = start(&fixture).await;
        let one = LeaseSession::open(&instance.mds).await;
        let dir = one.client.mkdir(0, InodeId::ROOT, "d").await.unwrap();
        let file = one.client.create(0, dir, "f").await.unwrap();
        let attributes = LeaseKey::Attributes(file);
        assert_eq!(one.attr(file).await.keys(), [attributes].into());
        let found = one.look_up(dir, "f").await;
        let name = found.name_key();
        assert_eq!(found.keys(), [name, attributes].into());
        let absent = one.look_up(dir, "absent").await;
        assert_eq!(absent.outcome, Err(FsError::NotFound));
        assert_eq!(absent.keys().len(), 1);
        assert_ne!(absent.name_key(), name);
        let listed = one.list(dir).await.keys();
        assert_eq!(listed, [LeaseKey::Names(dir), name, attributes].into());
        let open = OpenMode {
            access: AccessMode::READ,
            truncate: false,
            kill_privileges: false,
        };
        let opened = one.send(MetaOp::Open { ino: file, open }).await;
        assert_eq!(opened.keys(), [attributes, LeaseKey::Data(file)].into());
        let refused = one.send(get_xattr(file)).await;
        assert_eq!(refused.outcome, Err(FsError::NoAttribute));
        assert_eq!(refused.keys(), [attributes].into());
    });
}

/// Only the writer knows the file's size and times.
#[test]
fn no_other_session_gets_a_lease_on_a_file_while_a_session_writes_it() {
    simulate(async {
        let fixture = Simulated::new(4);
        let instance = start(&fixture).await;
        let one = LeaseSession::open(&instance.mds).await;
        let two = LeaseSession::open(&instance.mds).await;
        let file = one.client.create(0, InodeId::ROOT, "f").await.unwrap();
        let attributes = LeaseKey::Attributes(file);
        assert!(two.attr(file).await.number_of(attributes).is_some());
        one.client.begin_write(file).await;
        assert!(two.connection.revoked_keys().contains(&attributes));
        let found = two.look_up(InodeId::ROOT, "f");
        // The server asks the writer, whose connection says "done".
        assert!(!found.await.keys().contains(&attributes));
        assert!(!two.list(InodeId::ROOT).await.keys().contains(&attributes));
        assert!(one.attr(file).await.keys().contains(&attributes));
        one.client.end_write(file, Default::default()).await;
        assert!(two.attr(file).await.number_of(attributes).is_some());
    });
}

#[test]
fn grants_to_a_session_have_rising_numbers_and_a_revocation_covers_all_that_it_was_granted_before()
{
    simulate(async {
        let fixture = Simulated::new(5);
        let instance = start(&fixture).await;
        let one = LeaseSession::open(&instance.mds).await;
        let two = LeaseSession::open(&instance.mds).await;
        let dir = two.client.mkdir(0, InodeId::ROOT, "d").await.unwrap();
        for i in 0..20 {
            two.client.create(0, dir, &format!("f{i}")).await.unwrap();
        }
        let mut numbers = Vec::new();
        let mut highest = std::collections::BTreeMap::new();
        for round in 0..5 {
            let mut replies = vec![one.list(dir).await, one.attr(dir).await];
            for i in 0..20 {
                replies.push(one.look_up(dir, &format!("f{i}")).await);
            }
            replies.push(
                one.send(Client::creation(InodeId::ROOT, &format!("g{round}")))
                    .await,
            );
            for grant in replies.iter().flat_map(|reply| &reply.grants) {
                numbers.push(grant.number);
                highest.insert(grant.key, grant.number);
            }
            two.send(unlink(dir, &format!("f{round}")))
                .await
                .outcome
                .unwrap();
            let revocation = one.connection.revocations()[round].clone();
            assert!(!revocation.keys.is_empty());
            for key in &revocation.keys {
                assert!(highest[key] <= revocation.upto, "{key:?}: {revocation:?}");
            }
            quiet().await;
        }
        assert_eq!(numbers[0], GrantNumber(1));
        let rising = numbers.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(rising && numbers.len() > 200, "{numbers:?}");
    });
}

#[test]
fn a_repeated_request_gets_its_reply_without_leases() {
    simulate(async {
        let fixture = Simulated::new(6);
        let instance = start(&fixture).await;
        let one = LeaseSession::open(&instance.mds).await;
        one.attr(InodeId::ROOT).await;
        let creation = Client::creation(InodeId::ROOT, "f");
        let slot_seq = Some(one.next_slot_seq());
        let first = one.send_as(slot_seq, creation.clone()).await;
        assert!(!first.grants.is_empty() && !first.changed.is_empty());
        let again = one.send_as(slot_seq, creation).await;
        assert_eq!(again.attr(), first.attr());
        assert!(again.is_plain, "{again:?}");
    });
}
