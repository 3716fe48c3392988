//! Any daemon may die and restart: clients wait and resend, and nothing is lost or executed twice.

use crate::load;
use crate::running::{TIMEOUT, can_mount};
use crate::test_cluster::TestCluster;
use std::fs;
use std::time::Duration;

fn kills() -> usize {
    let set = std::env::var("GUPFS_CLUSTER_KILLS");
    set.map_or(8, |set| set.parse().unwrap())
}

#[test]
fn servers_are_killed_and_every_operation_is_executed_once() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 2);
    let mounts: Vec<_> = cluster
        .mounts
        .iter()
        .map(|mount| mount.at.clone())
        .collect();
    let journals = load::while_working(&mounts, || {
        // A fixed order in which every daemon dies after every other.
        for kill in 0..kills() {
            std::thread::sleep(Duration::from_millis(300 + (kill as u64 * 377) % 900));
            let daemon = match [0, 1, 2, 0, 2, 1, 1, 0, 0, 2, 2][kill % 11] {
                0 => &mut cluster.mds,
                oss => &mut cluster.osses[oss - 1],
            };
            daemon.kill();
            std::thread::sleep(Duration::from_millis((kill as u64 * 211) % 700));
            daemon.start_again();
        }
    });
    let done: u64 = journals.iter().map(|journal| journal.operations).sum();
    eprintln!("{} kills, {done} operations, each done once", kills());
    cluster.stop();
}

#[test]
fn a_call_waits_for_an_unreachable_server_and_the_status_shows_it() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 1);
    let mount = cluster.mounts[0].at.clone();
    fs::write(mount.join("f"), vec![9; 100_000]).unwrap();
    cluster.osses[0].kill();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| fs::read(mount.join("f")));
        let begun = std::time::Instant::now();
        loop {
            let output = crate::running::gupfs([std::path::Path::new("status"), &mount]);
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            if printed.contains("NOT CONNECTED") && printed.contains("read waits for ost") {
                break;
            }
            assert!(begun.elapsed() < TIMEOUT, "{printed}");
            std::thread::sleep(Duration::from_millis(100));
        }
        cluster.osses[0].start_again();
        assert!(reading.join().unwrap().unwrap() == vec![9; 100_000]);
    });
    cluster.mds.kill();
    std::thread::scope(|scope| {
        let making = scope.spawn(|| fs::create_dir(mount.join("d")));
        std::thread::sleep(Duration::from_millis(700));
        cluster.mds.start_again();
        making.join().unwrap().unwrap();
    });
    cluster.stop();
}

#[test]
fn other_clients_wait_for_a_dead_mount_no_longer_than_its_term() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 2);
    let (a, b) = (cluster.mounts[0].at.clone(), cluster.mounts[1].at.clone());
    let mut writer = fs::File::create(a.join("f")).unwrap();
    std::io::Write::write_all(&mut writer, &vec![3; 200_000]).unwrap();
    cluster.mounts[0].daemon.kill();
    // Its session ends after its term, 22 s; then the file has the size of its objects. (A call that waits longer fails at its deadline.)
    let begun = std::time::Instant::now();
    assert!(fs::read(b.join("f")).unwrap() == vec![3; 200_000]);
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "{:?}",
        begun.elapsed()
    );
    fs::write(b.join("f"), "mine now").unwrap();
    drop(writer);
    cluster.mounts.remove(0);
    cluster.wait_until("one session", |status| {
        status["mds"]["sessions"].as_object().unwrap().len() == 1
    });
    cluster.stop();
}
