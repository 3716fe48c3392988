//! A directory that two sessions change by turns: a lease on it would be revoked sooner than it saves a request.

use super::session::*;
use crate::client::Client;
use crate::fixture::{Simulated, simulate};
use gupfs_proto::InodeId;
use gupfs_proto::lease::LeaseKey;
use std::time::Duration;

async fn grants_of_directory(reader: &LeaseSession, dir: InodeId) -> usize {
    let mut keys = reader.list(dir).await.keys();
    keys.extend(reader.attr(dir).await.keys());
    keys.extend(reader.look_up(dir, "absent").await.keys());
    // What is not about the directory is granted anyway.
    assert!(keys.iter().any(|key| key.inode() != dir), "{keys:?}");
    let of_dir = keys.into_iter().filter(|key| key.inode() == dir);
    of_dir.count()
}

#[test]
fn nobody_gets_leases_on_a_directory_that_two_sessions_change_within_a_second_until_it_is_quiet() {
    simulate(async {
        let fixture = Simulated::new(1);
        let instance = start(&fixture).await;
        let one = LeaseSession::open(&instance.mds).await;
        let two = LeaseSession::open(&instance.mds).await;
        let dir = one.client.mkdir(0, InodeId::ROOT, "d").await.unwrap();
        one.client.create(0, dir, "f").await.unwrap();
        tokio::time::sleep(Duration::from_millis(900)).await;
        assert_eq!(grants_of_directory(&two, dir).await, 4);
        let created = two.send(Client::creation(dir, "g")).await;
        assert_eq!(
            created.keys(),
            [LeaseKey::Attributes(created.attr().ino)].into()
        );
        for session in [&one, &two] {
            assert_eq!(grants_of_directory(session, dir).await, 0);
        }
        assert_eq!(lease_status(&instance.mds).await.shared_directories, 1);
        tokio::time::sleep(Duration::from_millis(4_800)).await;
        assert_eq!(grants_of_directory(&one, dir).await, 0);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(grants_of_directory(&one, dir).await, 5);
        assert_eq!(lease_status(&instance.mds).await.shared_directories, 0);
    });
}

#[test]
fn a_directory_that_one_session_changes_often_or_two_change_rarely_is_leased() {
    simulate(async {
        let fixture = Simulated::new(2);
        let instance = start(&fixture).await;
        let one = LeaseSession::open(&instance.mds).await;
        let two = LeaseSession::open(&instance.mds).await;
        let dir = one.client.mkdir(0, InodeId::ROOT, "d").await.unwrap();
        for i in 0..10 {
            one.send(Client::creation(dir, &format!("f{i}"))).await;
        }
        assert_eq!(grants_of_directory(&two, dir).await, 13);
        for (i, session) in [&two, &one, &two].into_iter().enumerate() {
            tokio::time::sleep(Duration::from_millis(1_100)).await;
            session.send(Client::creation(dir, &format!("g{i}"))).await;
        }
        assert_eq!(grants_of_directory(&one, dir).await, 16);
    });
}
