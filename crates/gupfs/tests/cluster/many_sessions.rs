//! A thousand sessions of one metadata server: each is a client with a connection, without a mount.

use crate::crowd::Crowd;
use crate::running::resident;
use crate::test_cluster::{DaemonHosts, TestCluster};
use std::path::Path;
use std::time::Instant;

fn sessions() -> usize {
    let set = std::env::var("GUPFS_CLUSTER_SESSIONS");
    set.map_or(1_000, |set| set.parse().unwrap())
}

/// Closed files of all clients together.
fn files() -> usize {
    let set = std::env::var("GUPFS_CLUSTER_FILES");
    set.map_or(2_000, |set| set.parse().unwrap())
}

/// Memory that a metadata server may use: for each session, for each inode, and in addition.
fn memory_most() -> u64 {
    (200 << 20) + sessions() as u64 * (200 << 10) + files() as u64 * (2 << 10)
}

/// Sessions that the metadata server knows.
fn known(cluster: &TestCluster) -> usize {
    let status = cluster.status();
    status["mds"]["sessions"].as_object().unwrap().len()
}

#[test]
fn a_thousand_sessions_reconnect_to_a_metadata_server_that_was_killed() {
    // The usual limit of a shell: fewer than there are sessions.
    let few = ["sh", "-c", "ulimit -Sn 400; exec \"$0\" \"$@\""];
    let mut daemon_hosts = DaemonHosts::default();
    let before = few.map(str::to_string).to_vec();
    daemon_hosts.before.insert("mds".into(), before);
    let mut cluster = TestCluster::on(daemon_hosts, 1, 0);
    let begun = Instant::now();
    let crowd = Crowd::enter("member", sessions(), &cluster.at, Path::new(&cluster.key()));
    eprintln!("{} sessions after {:?}", sessions(), begun.elapsed());
    let begun = Instant::now();
    crowd.make_files(files() / sessions());
    eprintln!("{} more files after {:?}", files(), begun.elapsed());
    assert_eq!(known(&cluster), sessions());
    let took = resident(cluster.mds.pid());
    cluster.mds.kill();
    let begun = Instant::now();
    cluster.mds.start_again();
    let ready = begun.elapsed();
    crowd.go_on(0);
    let served = begun.elapsed();
    let takes = resident(cluster.mds.pid());
    eprintln!(
        "started again: ready after {ready:?}, all {} served after {served:?}; memory before {} MiB, after {} MiB",
        sessions(),
        took >> 20,
        takes >> 20
    );
    assert_eq!(known(&cluster), sessions());
    assert!(took.max(takes) < memory_most(), "{took}, {takes}");
    let begun = Instant::now();
    crowd.leave();
    eprintln!("all have left after {:?}", begun.elapsed());
    assert_eq!(known(&cluster), 0);
    cluster.stop();
}
