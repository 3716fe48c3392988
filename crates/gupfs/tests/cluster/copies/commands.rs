//! What administrators do with the copies: move, orderly restarts, removal, a copy that goes on alone.

use super::copied_cluster::{CopiedCluster, etcd_flags, start_server};
use crate::load;
use crate::running::gupfs;
use crate::test_cluster::text;

fn failed(args: &[&str]) -> String {
    let output = gupfs(args);
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_metadata_moves_and_every_server_is_restarted_while_programs_work() {
    let Some(mut cluster) = CopiedCluster::start(2) else {
        return;
    };
    load::while_working(&cluster.points(), || {
        let (mds, key) = (cluster.addresses(), cluster.key());
        let owner = cluster.owner();
        let next = (owner + 1) % 3;
        let to = cluster.servers[next].address.clone();
        let moved = gupfs(["mds", "move", &to, "--mds", &mds, "--key", &key]);
        assert!(moved.status.success(), "{moved:?}");
        assert_eq!(cluster.owner(), next);
        cluster.wait_whole();
        for server in 0..3 {
            assert_eq!(cluster.servers[server].daemon.stop(), 0);
            cluster.servers[server].daemon.start_again();
            cluster.wait_whole();
        }
    });
    cluster.stop();
}

#[test]
fn a_copy_is_removed_and_another_one_is_made() {
    let Some(mut cluster) = CopiedCluster::start(1) else {
        return;
    };
    let (mds, key) = (cluster.addresses(), cluster.key());
    let owner = cluster.owner();
    let address = cluster.servers[owner].address.clone();
    let why = failed(&["mds", "remove", &address, "--mds", &mds, "--key", &key]);
    assert!(why.contains("move the metadata to another one"), "{why}");
    let why = failed(&["mds", "move", "node9", "--mds", &mds, "--key", &key]);
    assert!(
        why.contains("no copy of the metadata at 'node9:7700'"),
        "{why}"
    );
    let removed = (owner + 1) % 3;
    let address = cluster.servers[removed].address.clone();
    let done = gupfs(["mds", "remove", &address, "--mds", &mds, "--key", &key]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(cluster.servers[removed].daemon.ends(), 1);
    let join = ["--join", &cluster.servers[owner].address, "--key", &key];
    let new = start_server(
        &cluster.root().join("m9"),
        &etcd_flags(&cluster.etcd),
        &join,
    );
    cluster.servers[removed] = new;
    cluster.wait_whole();
    let file = cluster.points()[0].join("f");
    std::fs::write(&file, b"kept").unwrap();
    cluster.servers[owner].daemon.kill();
    assert_ne!(cluster.owner(), owner);
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    cluster.servers[owner].daemon.start_again();
    cluster.stop();
}

#[test]
fn two_of_three_are_lost_and_the_third_goes_on_alone() {
    let Some(mut cluster) = CopiedCluster::start(1) else {
        return;
    };
    let file = cluster.points()[0].join("f");
    std::fs::write(&file, b"kept").unwrap();
    rustix::fs::sync();
    let flags = etcd_flags(&cluster.etcd);
    let owner = cluster.owner();
    let last = (owner + 1) % 3;
    let dir = text(&cluster.servers[last].dir);
    let mut force = vec!["mds", "force", &dir, "--accept-loss"];
    force.extend(flags.iter().map(String::as_str));
    let why = failed(&force);
    assert!(why.contains("is in use by process"), "{why}");
    for server in &mut cluster.servers {
        server.daemon.kill();
    }
    // Within its term the owner might be alive.
    std::thread::sleep(std::time::Duration::from_secs(5));
    let forced = gupfs(&force);
    assert!(forced.status.success(), "{forced:?}");
    cluster.servers[last].daemon.start_again();
    assert_eq!(cluster.owner(), last);
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    for server in [owner, 3 - owner - last] {
        cluster.servers[server].daemon.start_again();
    }
    cluster.wait_whole();
    cluster.stop();
}

#[test]
fn a_key_that_was_revoked_stays_revoked_after_a_take_over() {
    let Some(mut cluster) = CopiedCluster::start(0) else {
        return;
    };
    let owner = cluster.owner();
    let dir = text(&cluster.servers[owner].dir);
    let other = text(&cluster.servers[(owner + 1) % 3].dir);
    let out = text(&cluster.root().join("host1.key"));
    let made = gupfs(["key", "client", "host1", &dir, "--out", &out]);
    assert!(made.status.success(), "{made:?}");
    let why = failed(&["key", "client", "host2", &other]);
    assert!(why.contains("does not own the metadata"), "{why}");
    let revoked = gupfs(["key", "revoke", "host1", &dir]);
    assert!(revoked.status.success(), "{revoked:?}");
    // The copies get the list within a second.
    let begun = std::time::Instant::now();
    let list = |server: usize| std::fs::read(cluster.servers[server].dir.join("client-keys.toml"));
    while (0..3).any(|server| list(server).ok() != list(owner).ok()) {
        assert!(
            begun.elapsed() < crate::running::TIMEOUT,
            "no copy has the list"
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    cluster.servers[owner].daemon.kill();
    let mds = cluster.addresses();
    let next = cluster.owner();
    assert_ne!(next, owner);
    let point = text(&cluster.root().join("refused"));
    std::fs::create_dir(&point).unwrap();
    let why = failed(&["mount", &mds, &point, "--key", &out]);
    assert!(why.contains("revoked"), "{why}");
    cluster.servers[owner].daemon.start_again();
    cluster.stop();
}
