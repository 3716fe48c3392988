//! Owners of two shard groups: sequence numbers, instances and sessions of one mean nothing to the other.

use crate::sessions::{RestartCluster, seconds};
use crate::user::{me, name};
use gupfs_proto::{FsError, OwnerEpoch, ShardGroup};

#[tokio::test(start_paused = true)]
async fn a_client_takes_nothing_from_the_owner_of_another_group_and_replays_nothing_to_it() {
    let group = ShardGroup(1);
    let first = RestartCluster::new(41).await;
    let mut other = RestartCluster::of_group(42, group).await;
    let (one, two) = (first.users[0].clone(), other.users[0].clone());
    assert_eq!(one.client.session().group(), ShardGroup::FIRST);
    assert_eq!(two.client.session().group(), group);
    let epochs = [&first, &other].map(|cluster| cluster.servers.mds.owner_epoch());
    assert_eq!(epochs, [OwnerEpoch(1), OwnerEpoch::new(group, 1)]);
    // Both owners number their changes alike. Some of the second one's are not durable.
    let sessions = [one.client.session(), two.client.session()];
    for user in [&one, &two] {
        let file = user.create("file").await;
        user.write(&file, 0, &[7; 100_000]).await;
        user.close(file).await;
    }
    // The client of the second owner reaches the first one at its owner's address.
    other.cut_off(0);
    other.connections[0].connect_to(&first.servers.mds);
    let (root, text) = (two.client.root(), name("elsewhere"));
    let refused = two.client.lookup(&me(), root, &text).await;
    assert_eq!(refused.err(), Some(FsError::OtherInstance(epochs[0])));
    let refused = two.try_create_in(root, "elsewhere").await;
    assert_eq!(refused.err(), Some(FsError::OtherInstance(epochs[0])));
    let found = one.client.lookup(&me(), root, &text).await;
    assert_eq!(found.err(), Some(FsError::NotFound));
    assert!(two.client.status().replayable_changes > 0);
    // The second one loses power: what it answered is replayed to its successor, and nothing to the first one.
    let before = first.servers.mds.status().await.staged;
    other.restart(true).await;
    assert_eq!(
        other.servers.mds.owner_epoch(),
        OwnerEpoch::new(group, epochs[1].counter() + 1)
    );
    other.reconnect(0);
    other.reconnect(1);
    seconds(1).await;
    let file = two
        .open(
            two.client
                .lookup(&me(), root, &name("file"))
                .await
                .unwrap()
                .ino,
        )
        .await;
    assert_eq!(two.read(&file, 99_999, 10).await, [7]);
    assert_eq!(first.servers.mds.status().await.staged, before);
    assert_eq!([one.client.session(), two.client.session()], sessions);
    one.create("goes on").await;
}
