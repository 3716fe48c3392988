//! `gupfs verify` finds nothing on three mounts while daemons are killed or stopped, or a host is disconnected: whatever happens to one of
//! them, there is an order of all operations that explains all results.

use crate::networks::{Cut, Networks, cut_for};
use crate::random::Random;
use crate::running::{can_mount, is_mounted};
use crate::test_cluster::{Daemon, TestCluster};
use crate::verified::{mounts_agree, verify_seconds};
use rustix::process::Signal;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A stop or a cut that sessions survive: their term is 20 s.
const SHORT: Duration = Duration::from_secs(5);

/// Faults that no session may notice.
fn three_mounts_agree(
    cluster: &mut TestCluster,
    seconds: u64,
    cause_fault: impl FnMut(&mut TestCluster),
) {
    let (mounts, before) = (cluster.mount_points(), cluster.sessions());
    let run = (&mounts[..], verify_seconds(seconds));
    mounts_agree(cluster, run, &[], cause_fault);
    // Otherwise the workers of that mount would have seen errors only.
    assert_eq!(cluster.sessions(), before, "a session has ended");
}

#[test]
fn mounts_agree_while_servers_are_killed() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 3);
    let mut random = Random::of_this_run();
    three_mounts_agree(&mut cluster, 8, |cluster| {
        let daemon = match random.below(4) {
            0 | 1 => &mut cluster.mds,
            oss => &mut cluster.osses[oss - 2],
        };
        random.pause(200..1_200);
        daemon.kill();
        random.pause(0..500);
        daemon.start_again();
    });
    cluster.stop();
}

/// Continued on drop, also when the test fails: a stopped mount would not end.
struct Stopped<'a>(&'a Daemon);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.signal(Signal::CONT);
    }
}

#[test]
fn mounts_agree_while_one_is_stopped_for_some_seconds() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 3);
    let (mut random, mut stops) = (Random::of_this_run(), 0);
    three_mounts_agree(&mut cluster, 7, |cluster| {
        random.pause(200..2_000);
        stops += 1;
        let daemon = &cluster.mounts[stops % 3].daemon;
        daemon.signal(Signal::STOP);
        let _continued = Stopped(daemon);
        std::thread::sleep(SHORT);
    });
    cluster.stop();
}

#[test]
fn mounts_agree_while_one_is_disconnected_for_some_seconds() {
    if !can_mount() {
        return;
    }
    let hosts = ["mds", "oss0", "oss1", "mnt0", "mnt1", "mnt2"];
    let Some(networks) = Networks::wire(&hosts) else {
        return;
    };
    let mut cluster = TestCluster::on(networks.daemon_hosts(), 2, 3);
    let (mut random, mut cuts) = (Random::of_this_run(), 0);
    three_mounts_agree(&mut cluster, 7, |_| {
        let how = [Cut::CardOff, Cut::Silence][random.below(2)];
        random.pause(200..2_000);
        cuts += 1;
        // Another one each time, so that each has time to renew its session.
        cut_for(&networks, (hosts[3 + cuts % 3], how, SHORT), || {});
    });
    cluster.stop();
}

/// Looks at all that `gupfs verify` makes, through another mount, until it is killed: that mount has leases on all of it.
const LOOK: &str = "while :; do find . -ls; cat $(find . -type f); done";

struct Looking(Child);

impl Looking {
    fn start(mount: &Path) -> Looking {
        let mut look = Command::new("sh");
        look.args(["-c", LOOK]).current_dir(mount);
        look.stdout(Stdio::null()).stderr(Stdio::null());
        Looking(look.spawn().unwrap())
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How often a mount that has leases on everything is killed, or stopped for longer than its term: none by default, because each takes 25 s.
fn lost_mounts() -> usize {
    let set = std::env::var("GUPFS_CLUSTER_VERIFY_LOST").unwrap_or_default();
    set.parse().unwrap_or(0)
}

/// Longer than the term of a session, and than the timeout of the mount watchdog, which ends a mount that does not run.
const LONG: Duration = Duration::from_secs(40);

/// `gupfs verify` itself uses two other mounts only: the calls on the lost one fail, and its paths then lead to the directory below.
#[test]
fn the_others_agree_while_a_mount_is_killed_or_stopped_for_too_long() {
    if !can_mount() {
        return;
    }
    for number in 0..lost_mounts() {
        let mut cluster = TestCluster::new(2, 3);
        let mut mounts = cluster.mount_points();
        let lost = mounts.pop().unwrap();
        let looking = Looking::start(&lost);
        let mut random = Random::of_this_run();
        let mut is_lost = false;
        // A call may wait for the end of the lost session.
        let run = (&mounts[..], 70);
        mounts_agree(&mut cluster, run, &["--deadline", "60"], |cluster| {
            if std::mem::replace(&mut is_lost, true) {
                return std::thread::sleep(Duration::from_millis(50));
            }
            random.pause(5_000..10_000);
            let daemon = &mut cluster.mounts[2].daemon;
            if number % 2 == 0 {
                return daemon.kill();
            }
            daemon.signal(Signal::STOP);
            let _continued = Stopped(daemon);
            std::thread::sleep(LONG);
        });
        drop(looking);
        cluster.wait_until("two sessions", |status| {
            status["mds"]["sessions"].as_object().unwrap().len() == 2
        });
        // It is not there any more, instead of with an old state.
        let begun = Instant::now();
        while is_mounted(&lost) {
            assert!(begun.elapsed() < LONG, "'{}' is mounted", lost.display());
            std::thread::sleep(Duration::from_millis(100));
        }
        cluster.mounts.truncate(2);
        cluster.stop();
    }
}
