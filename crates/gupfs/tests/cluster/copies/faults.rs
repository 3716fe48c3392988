//! Metadata servers die, hang and lose their directories while programs work.

use super::copied_cluster::CopiedCluster;
use crate::load;
use rustix::process::Signal;
use std::time::Duration;

/// How often the owner is killed.
fn kills() -> usize {
    let set = std::env::var("GUPFS_COPIES_KILLS");
    set.map_or(4, |set| set.parse().unwrap())
}

#[test]
fn owners_are_killed_and_every_operation_is_executed_once() {
    let Some(mut cluster) = CopiedCluster::start(2) else {
        return;
    };
    let journals = load::while_working(&cluster.points(), || {
        for kill in 0..kills() {
            std::thread::sleep(Duration::from_millis(200 + (kill as u64 * 377) % 900));
            let owner = cluster.owner();
            cluster.servers[owner].daemon.kill();
            let next = cluster.owner();
            assert_ne!(next, owner);
            cluster.servers[owner].daemon.start_again();
            cluster.wait_whole();
        }
    });
    let done: u64 = journals.iter().map(|journal| journal.operations).sum();
    eprintln!(
        "{} kills of the owner, {done} operations, each done once",
        kills()
    );
    cluster.stop();
}

#[test]
fn an_owner_that_hangs_is_followed_by_a_copy_and_goes_on_as_one() {
    let Some(cluster) = CopiedCluster::start(2) else {
        return;
    };
    load::while_working(&cluster.points(), || {
        for millis in [7_000, 1_500] {
            let owner = cluster.owner();
            cluster.servers[owner].daemon.signal(Signal::STOP);
            std::thread::sleep(Duration::from_millis(millis));
            cluster.servers[owner].daemon.signal(Signal::CONT);
            cluster.wait_whole();
            // A short time changes nothing.
            assert_eq!(cluster.owner() == owner, millis < 2_000);
        }
    });
    cluster.stop();
}

#[test]
fn a_copy_is_lost_with_its_directory_and_comes_back_with_all_records() {
    let Some(mut cluster) = CopiedCluster::start(1) else {
        return;
    };
    load::while_working(&cluster.points(), || {
        let lost = (cluster.owner() + 1) % 3;
        cluster.servers[lost].daemon.kill();
        cluster.wait_counting(2);
        let mds = cluster.servers[lost].dir.join("mds");
        for part in ["log", "index"] {
            std::fs::remove_dir_all(mds.join(part)).unwrap();
            std::fs::create_dir(mds.join(part)).unwrap();
        }
        cluster.servers[lost].daemon.start_again();
        cluster.wait_whole();
        // What it has got suffices.
        let owner = cluster.owner();
        let other = 3 - owner - lost;
        cluster.servers[other].daemon.kill();
        cluster.wait_counting(2);
        cluster.servers[owner].daemon.kill();
        assert_eq!(cluster.owner(), lost);
        for server in [owner, other] {
            cluster.servers[server].daemon.start_again();
        }
        cluster.wait_whole();
    });
    cluster.stop();
}

#[test]
fn all_servers_are_killed_at_once_and_go_on_together() {
    let Some(mut cluster) = CopiedCluster::start(2) else {
        return;
    };
    load::while_working(&cluster.points(), || {
        std::thread::sleep(Duration::from_millis(500));
        for server in &mut cluster.servers {
            server.daemon.kill();
        }
        for server in &mut cluster.servers {
            server.daemon.start_again();
        }
        cluster.wait_whole();
        std::thread::sleep(Duration::from_millis(500));
    });
    cluster.stop();
}

#[test]
fn without_etcd_the_owner_serves_and_a_take_over_waits_for_it() {
    let Some(mut cluster) = CopiedCluster::start(2) else {
        return;
    };
    let points = cluster.points();
    load::while_working(&points, || {
        let owner = cluster.owner();
        cluster.etcd.members[0].kill();
        // Longer than the term of the lease.
        std::thread::sleep(Duration::from_secs(8));
        std::fs::write(points[0].join("while-etcd-is-away"), b"written").unwrap();
        let list = cluster.list().expect("the owner answers");
        assert!(list["arbiter_error"].is_string(), "{list}");
        cluster.servers[owner].daemon.kill();
        std::thread::sleep(Duration::from_secs(1));
        cluster.etcd.start(0);
        cluster.etcd.wait_until_healthy();
        assert_ne!(cluster.owner(), owner);
        cluster.servers[owner].daemon.start_again();
        cluster.wait_whole();
    });
    let read = std::fs::read(points[1].join("while-etcd-is-away"));
    assert_eq!(read.unwrap(), b"written");
    cluster.stop();
}
