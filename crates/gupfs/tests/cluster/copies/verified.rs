//! `gupfs verify` finds nothing on two mounts while the owner of the metadata is killed, hangs, or is another one.

use super::copied_cluster::CopiedCluster;
use crate::random::Random;
use crate::running::gupfs;
use crate::verified::{mounts_agree, verify_seconds};
use rustix::process::Signal;
use std::time::Duration;

/// How often the test asks whether another server has taken over from one that hangs.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Returns when another server owns the metadata, and all count.
fn take_over(cluster: &mut CopiedCluster, owner: usize, how: usize) {
    match how {
        0 => {
            let (to, at, key) = (
                cluster.servers[(owner + 1) % 3].address.clone(),
                cluster.addresses(),
                cluster.key(),
            );
            let moved = gupfs(["mds", "move", &to, "--mds", &at, "--key", &key]);
            assert!(moved.status.success(), "{moved:?}");
        }
        1 => {
            cluster.servers[owner].daemon.signal(Signal::STOP);
            while cluster.owner() == owner {
                std::thread::sleep(LOOK_EVERY);
            }
            cluster.servers[owner].daemon.signal(Signal::CONT);
        }
        _ => {
            cluster.servers[owner].daemon.kill();
            assert_ne!(cluster.owner(), owner);
            cluster.servers[owner].daemon.start_again();
        }
    }
    cluster.wait_whole();
    assert_ne!(cluster.owner(), owner);
}

#[test]
fn mounts_agree_while_the_metadata_has_one_owner_after_another() {
    let Some(mut cluster) = CopiedCluster::start(2) else {
        return;
    };
    let mut random = Random::of_this_run();
    let (mounts, mut owners) = (cluster.points(), 0);
    let run = (&mounts[..], verify_seconds(10));
    mounts_agree(&mut cluster, run, &[], |cluster| {
        random.pause(200..1_200);
        let owner = cluster.owner();
        take_over(cluster, owner, random.below(4));
        owners += 1;
    });
    eprintln!("{owners} owners after the first");
    cluster.stop();
}
