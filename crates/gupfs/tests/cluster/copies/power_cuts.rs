//! Power losses of metadata servers with copies: each server's directory is on a disk of its own, which loses what was not synced.

use super::copied_cluster::{CopiedCluster, CopiedClusterOptions};
use crate::images::Images;
use crate::load;
use crate::running::{TIMEOUT, can_mount, gupfs};
use crate::test_cluster::{TestCluster, text};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How often each set of servers loses power.
fn cuts() -> usize {
    let set = std::env::var("GUPFS_COPIES_CUTS");
    set.map_or(1, |set| set.parse().unwrap())
}

/// Creates files without a sync until it is stopped, so that some changes are answered and not durable at any time; returns their number.
fn create_files(top: &Path, ends: &AtomicBool) -> u64 {
    fs::create_dir(top).unwrap();
    let mut count = 0;
    while !ends.load(Relaxed) {
        File::create_new(top.join(format!("f{count}"))).unwrap();
        count += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    count
}

/// The directory has exactly the files that were created.
fn has_all_files(top: &Path, count: u64) {
    let names = fs::read_dir(top).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let found: BTreeSet<String> = names.collect();
    let expected = (0..count).map(|number| format!("f{number}")).collect();
    assert!(
        found == expected,
        "{}: {} of {count} files",
        top.display(),
        found.len()
    );
}

/// What a program got from fsync: file number n has the text "n" when the number is in the book.
#[derive(Default)]
struct SyncedFiles(u64);

impl SyncedFiles {
    /// Creates files and syncs each.
    fn add(&mut self, mount: &Path, count: u64) {
        for number in self.0..self.0 + count {
            let mut file = File::create_new(mount.join(format!("synced{number}"))).unwrap();
            file.write_all(number.to_string().as_bytes()).unwrap();
            file.sync_all().unwrap();
        }
        self.0 += count;
    }

    fn check(&self, mount: &Path) {
        for number in 0..self.0 {
            let found = fs::read_to_string(mount.join(format!("synced{number}")));
            assert_eq!(found.unwrap(), number.to_string(), "synced before a cut");
        }
    }
}

/// Three metadata servers, each with a disk.
struct ServersWithDisks {
    // The daemons end before their disks.
    cluster: CopiedCluster,
    disks: Vec<Images>,
}

impl ServersWithDisks {
    fn start() -> Option<ServersWithDisks> {
        if !can_mount() {
            return None;
        }
        let disks: Vec<Images> = (0..3).map(|_| Images::make()).collect();
        let options = CopiedClusterOptions {
            stores: disks.iter().map(Images::store).enumerate().collect(),
            ..CopiedClusterOptions::default()
        };
        let cluster = CopiedCluster::start_with(2, options)?;
        Some(ServersWithDisks { cluster, disks })
    }

    /// These servers lose power at the same time, and get it again after a while in which the others go on.
    fn cut(&mut self, lost: &[usize], go_on: impl FnOnce(&mut CopiedCluster)) {
        for server in lost {
            self.cluster.servers[*server].daemon.kill();
        }
        for server in lost {
            self.disks[*server].lose();
        }
        go_on(&mut self.cluster);
        for server in lost {
            self.cluster.servers[*server].daemon.start_again();
        }
        self.cluster.wait_whole();
    }

    /// Changes of clients that the present owner had lost, and has made again. Waits until all clients have said theirs.
    fn made_again(&self) -> u64 {
        let owner = &self.cluster.servers[self.cluster.owner()];
        let begun = Instant::now();
        loop {
            let status = TestCluster::status_of(&owner.dir);
            let missing = status["mds"]["missing"].as_array();
            if missing.is_some_and(Vec::is_empty) {
                return status["mds"]["made_again"].as_u64().unwrap();
            }
            assert!(begun.elapsed() < TIMEOUT, "clients are missing: {status:#}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Stops everything; `gupfs check` finds each copy of the metadata whole.
    fn stop_and_check(mut self) {
        let dirs: Vec<String> = (self.cluster.servers.iter())
            .map(|server| text(&server.dir))
            .collect();
        let osts = self.cluster.root().join("osts");
        self.cluster.end_all_equal();
        for dir in dirs {
            let checked = gupfs(["check", &dir, "--data", "--ost", &text(&osts)]);
            assert!(checked.status.success(), "{checked:?}");
        }
    }
}

/// In turn the owner, a copy, both, and all servers lose power.
fn cut_in_turn(servers: &mut ServersWithDisks, points: &[PathBuf], synced: &mut SyncedFiles) {
    let (mut made_again, mut turns) = (0, 0);
    for cut in 0..cuts() {
        for turn in 0..4 {
            let owner = servers.cluster.owner();
            let copy = (owner + 1 + cut % 2) % 3;
            let lost = match turn {
                0 => vec![owner],
                1 => vec![copy],
                2 => vec![owner, copy],
                _ => vec![owner, copy, 3 - owner - copy],
            };
            let [here, there] = [turns % 2, (turns + 1) % 2].map(|mount| &points[mount as usize]);
            synced.add(here, 5);
            // Each sync of a program makes all changes durable.
            std::thread::sleep(Duration::from_millis(100 + (turns * 377) % 900));
            servers.cut(&lost, |cluster| {
                if lost.len() < 3 {
                    assert_eq!(cluster.owner() != owner, lost.contains(&owner));
                    fs::write(here.join(format!("during{turns}")), b"written").unwrap();
                }
            });
            synced.check(there);
            let again = servers.made_again();
            eprintln!("{lost:?} lost power, {again} operations made again");
            assert!(
                again == 0 || lost.len() == 3,
                "a server had kept all: {again} made again"
            );
            made_again += again;
            turns += 1;
        }
    }
    eprintln!("{turns} cuts, {made_again} operations made again");
    assert!(made_again > 0, "no cut of all servers undid anything");
}

#[test]
fn power_cuts_of_any_servers_undo_nothing_that_was_answered_or_synced() {
    let Some(mut servers) = ServersWithDisks::start() else {
        return;
    };
    let points = servers.cluster.points();
    let created: Vec<PathBuf> = (0..2)
        .map(|number| points[number].join(format!("created{number}")))
        .collect();
    let (mut synced, mut counts) = (SyncedFiles::default(), Vec::new());
    let ends = AtomicBool::new(false);
    let journals = load::while_working(&points, || {
        std::thread::scope(|scope| {
            let creators: Vec<_> = created
                .iter()
                .map(|top| scope.spawn(|| create_files(top, &ends)))
                .collect();
            let ending = load::Ends(&ends);
            cut_in_turn(&mut servers, &points, &mut synced);
            drop(ending);
            counts.extend(creators.into_iter().map(|creator| creator.join().unwrap()));
        });
    });
    for (top, count) in created.iter().zip(&counts) {
        for point in &points {
            has_all_files(&point.join(top.file_name().unwrap()), *count);
        }
    }
    let done: u64 = journals.iter().map(|journal| journal.operations).sum();
    eprintln!("{done} operations, {counts:?} files created");
    servers.stop_and_check();
}

/// No client is left that could replay what was answered: what fsync returned for is on the disks.
#[test]
fn what_a_client_had_synced_is_there_after_it_was_lost_with_the_power_of_all_servers() {
    let Some(mut servers) = ServersWithDisks::start() else {
        return;
    };
    let points = servers.cluster.points();
    let mut synced = SyncedFiles::default();
    synced.add(&points[0], 30);
    servers.cut(&[0, 1, 2], |cluster| drop(cluster.mounts.remove(0)));
    synced.check(&points[1]);
    servers.stop_and_check();
}
