//! Hosts of metadata servers that others do not hear: cut off in both directions or in one, for short and long, and the owner from etcd alone.

use super::copied_cluster::{CopiedCluster, CopiedClusterOptions};
use crate::load;
use crate::networks::{Cut, Networks, cut_for};
use crate::partitions::long_cuts;
use crate::running::can_mount;
use std::fs;
use std::time::{Duration, Instant};

const HOSTS: [&str; 8] = [
    "etcd", "mds0", "mds1", "mds2", "oss", "mnt0", "mnt1", "admin",
];

/// Longer than the term of the owner's lease.
const SHORT: Duration = Duration::from_secs(5);

/// The longest time that a program may wait for another owner, with some for a debug build.
const PAUSE: Duration = Duration::from_secs(10);

/// Delivers again on drop, also when the test fails: otherwise its programs could not end.
struct Delivered<'a>(&'a Networks, Vec<(String, String)>);

impl Drop for Delivered<'_> {
    fn drop(&mut self) {
        for (from, to) in &self.1 {
            self.0.deliver(from, to);
        }
    }
}

/// What these hosts send to these others is lost for this time, or until the work is done if that takes longer.
fn lose_for<T>(
    networks: &Networks,
    (lost, time): (Vec<(String, String)>, Duration),
    meanwhile: impl FnOnce() -> T,
) -> T {
    let begun = Instant::now();
    let delivered = Delivered(networks, lost);
    for (from, to) in &delivered.1 {
        networks.lose(from, to);
    }
    let done = meanwhile();
    std::thread::sleep(time.saturating_sub(begun.elapsed()));
    done
}

fn pair(from: &str, to: &str) -> (String, String) {
    (from.to_string(), to.to_string())
}

fn others(host: &str) -> impl Iterator<Item = &'static str> {
    HOSTS.into_iter().filter(move |other| *other != host)
}

/// A cluster, each part on a host of its own, and the files that the test has made.
struct CutCluster {
    cluster: CopiedCluster,
    files: Vec<String>,
}

impl CutCluster {
    /// None, and the test counts as not run, where there are no networks, no etcd or no FUSE. The cluster is to be dropped before its networks.
    fn start() -> Option<(Networks, CutCluster)> {
        if !can_mount() {
            return None;
        }
        let networks = Networks::wire(&HOSTS)?;
        let options = CopiedClusterOptions {
            daemon_hosts: networks.daemon_hosts(),
            ..CopiedClusterOptions::default()
        };
        let cluster = CutCluster {
            cluster: CopiedCluster::start_with(2, options)?,
            files: Vec::new(),
        };
        Some((networks, cluster))
    }

    /// The owner's number, and its host.
    fn owner(&self) -> (usize, String) {
        let owner = self.cluster.owner();
        (owner, format!("mds{owner}"))
    }

    /// Makes a file on each mount.
    fn write(&mut self, what: &str) {
        let begun = Instant::now();
        for (number, point) in self.cluster.points().iter().enumerate() {
            let file = format!("{what}, mount {number}, {}", self.files.len());
            fs::write(point.join(&file), &file).unwrap();
            self.files.push(file);
        }
        let took = begun.elapsed();
        eprintln!("{what}: {took:?}");
        assert!(took < PAUSE, "{what}: a program waited {took:?}");
    }

    /// All servers count again, and both mounts have all files.
    fn agrees(&self) {
        let begun = Instant::now();
        self.cluster.wait_whole();
        eprintln!("all count again after {:?}", begun.elapsed());
        for point in self.cluster.points() {
            for file in &self.files {
                assert_eq!(fs::read_to_string(point.join(file)).unwrap(), *file);
            }
        }
    }

    fn stop(self) {
        self.cluster.stop();
    }
}

/// Under load the owner's host is silent for these times, one after the other.
fn another_owner_follows(times: &[Duration]) {
    let Some((networks, mut cluster)) = CutCluster::start() else {
        return;
    };
    let points = cluster.cluster.points();
    load::while_working(&points, || {
        for time in times {
            let (owner, host) = cluster.owner();
            cut_for(&networks, (&host, Cut::Silence, *time), || {
                cluster.write("the owner's host is silent");
                assert_ne!(cluster.cluster.owner(), owner);
            });
            cluster.agrees();
        }
    });
    cluster.stop();
}

#[test]
fn a_silent_host_of_the_owner_is_followed_by_a_copy_and_comes_back() {
    another_owner_follows(&[SHORT]);
}

#[test]
fn after_a_long_cut_of_the_owners_host_all_copies_count_again() {
    let times = long_cuts();
    if !times.is_empty() {
        another_owner_follows(&times);
    }
}

#[test]
fn an_owner_that_only_hears_or_is_only_heard_is_followed_by_a_copy() {
    let Some((networks, mut cluster)) = CutCluster::start() else {
        return;
    };
    let points = cluster.cluster.points();
    load::while_working(&points, || {
        for is_heard in [false, true] {
            let (owner, host) = cluster.owner();
            let lost = others(&host).map(|other| match is_heard {
                false => pair(&host, other),
                true => pair(other, &host),
            });
            let lost = lost.collect();
            let what = match is_heard {
                false => "the owner hears all and is heard by none",
                true => "the owner hears none and is heard by all",
            };
            lose_for(&networks, (lost, SHORT), || {
                cluster.write(what);
                assert_ne!(cluster.cluster.owner(), owner);
            });
            cluster.agrees();
        }
    });
    cluster.stop();
}

#[test]
fn an_owner_that_is_cut_off_from_etcd_alone_goes_on_as_long_as_its_copies_answer() {
    let Some((networks, mut cluster)) = CutCluster::start() else {
        return;
    };
    let points = cluster.cluster.points();
    load::while_working(&points, || {
        let (owner, host) = cluster.owner();
        let lost = vec![pair(&host, "etcd"), pair("etcd", &host)];
        lose_for(&networks, (lost, SHORT * 2), || {
            std::thread::sleep(SHORT);
            cluster.write("the owner is cut off from etcd");
            assert_eq!(cluster.cluster.owner(), owner);
        });
        cluster.agrees();
        assert_eq!(cluster.cluster.owner(), owner);
    });
    cluster.stop();
}
