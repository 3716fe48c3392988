//! An owner whose disk is full.

use super::cluster::Cluster;
use super::seeds::simulate;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

#[test]
fn an_owner_without_room_moves_the_metadata_to_the_copy_that_has_some() {
    simulate(async {
        let cluster = Cluster::started(13).await;
        let (_, owned) = cluster.hosts[0]
            .owned()
            .expect("the first host is the owner");
        for host in &cluster.hosts {
            host.has_room.store(false, SeqCst);
        }
        assert!(!owned.ownership.move_to_room().await);
        cluster.hosts[2].has_room.store(true, SeqCst);
        assert!(owned.ownership.move_to_room().await);
        while cluster.hosts[2].owned().is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(cluster.hosts[1].owned().is_none());
    });
}
