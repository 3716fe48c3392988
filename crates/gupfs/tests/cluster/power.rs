//! Power losses of one server while its clients continue to run.

use crate::images::Images;
use crate::load::{self, Ends};
use crate::running::can_mount;
use crate::test_cluster::TestCluster;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

fn cuts() -> usize {
    let set = std::env::var("GUPFS_CLUSTER_CUTS");
    set.map_or(5, |set| set.parse().unwrap())
}

#[test]
fn power_cuts_of_the_metadata_server_undo_no_acknowledged_change() {
    if !can_mount() {
        return;
    }
    let mut disk = Images::make();
    let mut cluster = TestCluster::with_store(disk.store(), 1, 2);
    let mounts: Vec<_> = cluster
        .mounts
        .iter()
        .map(|mount| mount.at.clone())
        .collect();
    let mut made_again = 0;
    let journals = load::while_working(&mounts, || {
        for cut in 0..cuts() {
            std::thread::sleep(Duration::from_millis(300 + (cut as u64 * 377) % 900));
            cluster.mds.kill();
            disk.lose();
            cluster.mds.start_again();
            cluster.wait_until("back", |status| {
                status["mds"]["missing"]
                    .as_array()
                    .is_some_and(Vec::is_empty)
            });
            made_again += cluster.status()["mds"]["made_again"].as_u64().unwrap();
        }
    });
    let done: u64 = journals.iter().map(|journal| journal.operations).sum();
    eprintln!(
        "{} cuts, {done} operations, {made_again} of them made again",
        cuts()
    );
    assert!(made_again > 0, "no cut undid anything");
    cluster.stop();
    drop(disk);
}

const BLOCK: usize = 64 << 10;
/// Several components, so that a file has objects on all targets.
const BLOCKS: usize = 24;

/// The expectations of one program: which version of each block an fsync has made durable, or may not have yet.
struct Book {
    file: File,
    /// Of all blocks of the file every so manieth is this program's, from the first on.
    step: usize,
    first: usize,
    versions: Vec<u64>,
    unsynced: Vec<usize>,
    last: u64,
    syncs: u64,
    losses: u64,
}

impl Book {
    fn open(path: &Path, (first, step): (usize, usize)) -> Book {
        let mut open = File::options();
        let open = open.write(true).create(true).truncate(false);
        Book {
            file: open.open(path).unwrap(),
            step,
            first,
            versions: vec![0; BLOCKS],
            unsynced: Vec::new(),
            last: 0,
            syncs: 0,
            losses: 0,
        }
    }

    fn offset(&self, block: usize) -> u64 {
        ((block * self.step + self.first) * BLOCK) as u64
    }

    fn write(&mut self, block: usize) {
        self.last += 1;
        let bytes = [self.last.to_le_bytes(); BLOCK / 8].concat();
        let at = self.offset(block);
        self.file.write_all_at(&bytes, at).unwrap();
        self.versions[block] = self.last;
        self.unsynced.push(block);
    }

    /// Writes again what may be lost, as careful programs do.
    fn sync(&mut self) {
        while let Err(error) = self.file.sync_data() {
            assert_eq!(error.raw_os_error(), Some(5), "{error}");
            self.losses += 1;
            for block in std::mem::take(&mut self.unsynced) {
                self.write(block);
            }
        }
        self.unsynced.clear();
        self.syncs += 1;
    }

    /// Checks that all synced data exists.
    fn check(&self, file: &File) {
        for (block, version) in self.versions.iter().enumerate() {
            let mut bytes = vec![0; BLOCK];
            let got = file.read_at(&mut bytes, self.offset(block)).unwrap();
            let there = bytes[..got].chunks(8).map(|word| {
                let mut eight = [0; 8];
                eight[..word.len()].copy_from_slice(word);
                u64::from_le_bytes(eight)
            });
            let wrong = there.enumerate().find(|(_, there)| there != version);
            assert_eq!(wrong, None, "block {block} of version {version}");
        }
    }
}

#[test]
fn power_cuts_of_an_object_server_are_reported_by_fsync_and_lose_no_synced_data() {
    programs_sync_during_power_cuts(1);
}

#[test]
fn power_cuts_of_an_object_server_lose_no_synced_data_of_a_file_that_two_mounts_write() {
    programs_sync_during_power_cuts(4);
}

/// Four programs on two mounts; so many of them write the same file.
fn programs_sync_during_power_cuts(of_a_file: usize) {
    if !can_mount() {
        return;
    }
    let mut disk = Images::make();
    let objects = disk.store();
    std::fs::create_dir(&objects).unwrap();
    let mut cluster = TestCluster::with_objects(objects, 1, 2);
    let enough = AtomicBool::new(false);
    let books: Vec<Book> = std::thread::scope(|scope| {
        let work = |program: usize| {
            let mount = &cluster.mounts[program % 2].at;
            let path = mount.join(format!("file{}", program / of_a_file));
            let enough = &enough;
            scope.spawn(move || {
                let mut book = Book::open(&path, (program % of_a_file, of_a_file));
                for round in 0.. {
                    book.write((round * 7 + program) % BLOCKS);
                    if round % 20 == 19 {
                        book.sync();
                    }
                    if enough.load(Relaxed) {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                book.sync();
                book
            })
        };
        let programs: Vec<_> = (0..4).map(work).collect();
        let ends = Ends(&enough);
        let oss = &mut cluster.osses[0];
        for cut in 0..cuts() {
            std::thread::sleep(Duration::from_millis(300 + (cut as u64 * 377) % 900));
            oss.kill();
            disk.lose();
            oss.start_again();
        }
        drop(ends);
        programs.into_iter().map(|it| it.join().unwrap()).collect()
    });
    for (program, book) in books.iter().enumerate() {
        let other = &cluster.mounts[(program + 1) % 2].at;
        let other = other.join(format!("file{}", program / of_a_file));
        book.check(&File::open(other).unwrap());
    }
    let count = |of: fn(&Book) -> u64| books.iter().map(of).sum::<u64>();
    let (syncs, losses) = (count(|book| book.syncs), count(|book| book.losses));
    eprintln!("{} cuts, {syncs} syncs, {losses} told of a loss", cuts());
    assert!(losses > 0, "no cut took anything");
    drop(books);
    cluster.stop();
    drop(disk);
}
