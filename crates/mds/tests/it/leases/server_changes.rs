//! What the server changes by itself is revoked before, as what a session changes.

use super::session::*;
use crate::fixture::{Simulated, simulate};
use crate::writers::write;
use bytes::Bytes;
use gupfs_proto::lease::LeaseKey;
use gupfs_proto::limits::SERVER_TERM;
use gupfs_proto::meta::{AccessMode, MetaOp, OpenMode, WritePosition};
use gupfs_proto::{FsError, InodeId};
use std::time::Duration;
use tokio::time::Instant;

const MIB: u64 = 1 << 20;

#[test]
fn a_removed_file_is_there_until_the_holder_of_its_attributes_has_answered() {
    simulate(async {
        let fixture = Simulated::new(1);
        let instance = start(&fixture).await;
        let one = LeaseSession::open(&instance.mds).await;
        let two = LeaseSession::open(&instance.mds).await;
        let three = LeaseSession::open(&instance.mds).await;
        let file = two.client.create(0, InodeId::ROOT, "f").await.unwrap();
        // The server asks this session whether it has the file open.
        instance.mds.detach(three.id());
        two.send(unlink(InodeId::ROOT, "f")).await.outcome.unwrap();
        two.client.forget(file).await;
        let attributes = LeaseKey::Attributes(file);
        assert_eq!(one.attr(file).await.keys(), [attributes].into());
        one.connection.hold_answers();
        let asked = one.connection.revocations().len();
        three.reconnect();
        one.connection.wait_for_revocations(asked + 1).await;
        assert_eq!(one.connection.revocations()[asked].keys, [attributes]);
        seconds(10).await;
        let seen = two.attr(file).await;
        assert!(seen.outcome.is_ok() && seen.grants.is_empty(), "{seen:?}");
        one.connection.answer();
        seconds(1).await;
        assert_eq!(two.attr(file).await.outcome, Err(FsError::Stale));
    });
}

/// Its size is decided, but not its blocks: the attributes change once more.
#[test]
fn nobody_gets_a_lease_on_a_file_whose_truncate_is_under_way() {
    simulate(async {
        let fixture = Simulated::new(2);
        let instance = start(&fixture).await;
        let one = LeaseSession::open(&instance.mds).await;
        let two = LeaseSession::open(&instance.mds).await;
        let file = two.client.create(0, InodeId::ROOT, "f").await.unwrap();
        let opened = two.client.begin_write(file).await;
        let written = write(&fixture.osts, &opened, 5 * MIB, 1);
        two.client.end_write(file, written).await;
        let attributes = LeaseKey::Attributes(file);
        assert!(one.attr(file).await.number_of(attributes).is_some());
        two.attr(file).await;
        fixture
            .osts
            .iter()
            .for_each(|ost| ost.set_slow(Duration::from_secs(3)));
        let op = crate::client::Client::truncation(file, 1);
        let truncating = two.begin(op);
        seconds(1).await;
        assert!(one.connection.revoked_keys().contains(&attributes));
        for session in [&one, &two] {
            assert!(
                session
                    .list(InodeId::ROOT)
                    .await
                    .number_of(attributes)
                    .is_none()
            );
        }
        assert!(!truncating.is_finished());
        let truncated = truncating.await.unwrap();
        assert!(truncated.number_of(attributes).is_some(), "{truncated:?}");
        assert_eq!(truncated.attr(), two.client.attr(file).await.unwrap());
        assert_eq!(one.attr(file).await.attr(), truncated.attr());
        assert!(one.attr(file).await.number_of(attributes).is_some());
        assert_eq!(two.connection.revocations(), []);
    });
}

#[test]
fn bytes_in_the_inode_change_when_the_holder_of_the_data_has_answered() {
    simulate(async {
        let fixture = Simulated::new(3);
        let instance = start(&fixture).await;
        let one = LeaseSession::open(&instance.mds).await;
        let two = LeaseSession::open(&instance.mds).await;
        let file = two.client.create(0, InodeId::ROOT, "f").await.unwrap();
        let open = OpenMode {
            access: AccessMode::READ,
            truncate: false,
            kill_privileges: false,
        };
        one.send(MetaOp::Open { ino: file, open }).await;
        one.connection.hold_answers();
        let writing = two.begin(MetaOp::WriteInline {
            ino: file,
            at: WritePosition::Offset(0),
            data: Bytes::from_static(b"ours"),
            kill_privileges: false,
        });
        seconds(5).await;
        assert!(!writing.is_finished());
        assert_eq!(two.attr(file).await.attr().size, 0);
        let keys = [LeaseKey::Attributes(file), LeaseKey::Data(file)];
        assert_eq!(one.connection.revoked_keys(), keys.into());
        one.connection.answer();
        assert!(writing.await.unwrap().outcome.is_ok());
        assert_eq!(one.attr(file).await.attr().size, 4);
    });
}

/// The writer of a file holds its attributes. The server ends its session, and its client may not know.
#[test]
fn a_file_is_recovered_after_the_term_of_its_ended_writer() {
    simulate(async {
        let fixture = Simulated::new(4);
        let instance = start(&fixture).await;
        let one = LeaseSession::open_silent(&instance.mds).await;
        let two = LeaseSession::open(&instance.mds).await;
        let file = one.client.create(0, InodeId::ROOT, "f").await.unwrap();
        let opened = one.client.begin_write(file).await;
        write(&fixture.osts, &opened, 3 * MIB, 4_000_000_000);
        let held = one.attr(file).await;
        assert!(held.number_of(LeaseKey::Attributes(file)).is_some());
        one.client.read(MetaOp::Renew).await.unwrap();
        let heard = Instant::now();
        let (mds, id) = (instance.mds.clone(), one.id());
        let ended = tokio::spawn(async move { mds.end_session(id).await });
        tokio::task::yield_now().await;
        assert!(!instance.mds.has_session(id));
        let seen = two.attr(file).await.attr();
        assert_eq!(seen.size, 3 * MIB);
        let since = heard.elapsed();
        assert!(since >= SERVER_TERM, "{since:?}");
        assert!(since <= SERVER_TERM + Duration::from_secs(2), "{since:?}");
        ended.await.unwrap();
    });
}
