//! Many sessions and files when another server takes over.

use super::copied_cluster::CopiedCluster;
use crate::crowd::Crowd;
use crate::running::gupfs;
use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant};

/// Clients that make the files, and leave.
const MAKERS: usize = 16;

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |set| set.parse().unwrap())
}

/// What happens to the owner.
fn end_ownership(cluster: &mut CopiedCluster, owner: usize, how: &str) {
    let daemon = &mut cluster.servers[owner].daemon;
    match how {
        "killed" => daemon.kill(),
        "silent" => daemon.signal(Signal::STOP),
        _ => {
            let (to, all, key) = (
                cluster.servers[(owner + 1) % 3].address.clone(),
                cluster.addresses(),
                cluster.key(),
            );
            let moved = gupfs(["mds", "move", &to, "--mds", &all, "--key", &key]);
            assert!(moved.status.success(), "{moved:?}");
        }
    }
}

#[test]
fn many_sessions_go_on_when_another_server_takes_over() {
    let Some(mut cluster) = CopiedCluster::start(0) else {
        return;
    };
    let sessions = number("GUPFS_COPIES_SESSIONS", 100);
    let files = number("GUPFS_COPIES_FILES", 2_000);
    let (begun, key, at) = (
        Instant::now(),
        cluster.key(),
        cluster.servers[1].address.clone(),
    );
    // By others: all clients are in this process, and a thousand of them that drop a thousand leases each would take its time.
    let makers = Crowd::enter("maker", MAKERS, &at, Path::new(&key));
    makers.make_files(files / MAKERS);
    makers.leave();
    let crowd = Crowd::enter("member", sessions, &at, Path::new(&key));
    eprintln!(
        "{sessions} sessions, {files} files after {:.1?}",
        begun.elapsed()
    );
    for (round, how) in ["killed", "silent", "moved"].into_iter().enumerate() {
        cluster.wait_whole();
        let owner = cluster.owner();
        let mut all_served = Duration::ZERO;
        let longest = crowd.longest_create_during(round, || {
            std::thread::sleep(Duration::from_millis(500));
            let begun = Instant::now();
            end_ownership(&mut cluster, owner, how);
            crowd.go_on(round);
            all_served = begun.elapsed();
        });
        eprintln!(
            "owner {how}: longest create {longest:.2?}, all sessions served after {all_served:.2?}"
        );
        assert_ne!(cluster.owner(), owner);
        match how {
            "killed" => cluster.servers[owner].daemon.start_again(),
            "silent" => cluster.servers[owner].daemon.signal(Signal::CONT),
            _ => {}
        }
    }
    crowd.leave();
    cluster.stop();
}
