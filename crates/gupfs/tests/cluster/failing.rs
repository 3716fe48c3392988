//! Failing disks of servers: what fsync acknowledged is kept, and a server whose store has failed ends.

use crate::failing_disk::{FragileDisk, Syncer, forget_pages};
use crate::running::{TIMEOUT, TestStore, UpProcess, can_mount, gupfs};
use crate::test_cluster::TestCluster;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// The checksum flush of an object is complete so long after its last write, also on a host under load.
const SETTLED: Duration = Duration::from_secs(12);

#[test]
fn fsync_fails_after_a_loss_although_another_program_got_the_error() {
    if !can_mount() {
        return;
    }
    const FILES: usize = 300;
    let data = vec![b'D'; 64 << 10];
    let disk = FragileDisk::make(900);
    let test_store = TestStore::new();
    let store = disk.at.join("store");
    let running = UpProcess::start(&store, &test_store.mnt(), &["--osts", "1"]);
    let names: Vec<PathBuf> = (0..FILES)
        .map(|n| test_store.mnt().join(format!("f{n}")))
        .collect();
    // Create names, inodes and directories before the disk fails.
    for name in &names {
        fs::write(name, vec![b'w'; 8192]).unwrap();
    }
    assert!(
        gupfs(["sync".as_ref(), test_store.mnt().as_os_str()])
            .status
            .success()
    );
    std::thread::sleep(SETTLED);

    disk.fail();
    let other = Syncer::start(&disk.at);
    for name in &names {
        // The server may have noticed already.
        let written = OpenOptions::new().write(true).open(name);
        let _ = written.and_then(|file| file.write_all_at(&data, MIB));
    }
    // The server itself syncs closed files, many at a time.
    std::thread::sleep(SETTLED);
    let taken = other.leave();
    assert!(taken > 0, "the other program took no error");

    let is_synced = |name: &&PathBuf| File::open(name).and_then(|file| file.sync_all()).is_ok();
    let synced: Vec<&PathBuf> = names.iter().filter(is_synced).collect();
    assert!(
        synced.len() < FILES,
        "no write was lost: the disk did not fail"
    );
    forget_pages(&store);
    forget_pages(&test_store.mnt());
    let lost = synced.iter().filter(|name| {
        let mut found = vec![0; data.len()];
        let read = File::open(name).and_then(|file| file.read_exact_at(&mut found, MIB));
        read.is_err() || found != data
    });
    assert_eq!(lost.count(), 0, "of {} that were synced", synced.len());
    drop(running);
}

/// Files `kind0` and so on, small enough for inline data.
fn make(mount: &Path, kind: &str, count: usize) {
    for number in 0..count {
        fs::write(mount.join(format!("{kind}{number}")), [b'y'; 300]).unwrap();
    }
}

fn count(mount: &Path, kind: &str) -> usize {
    let names = fs::read_dir(mount).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    names
        .map(name)
        .filter(|name| name.to_str().unwrap().starts_with(kind))
        .count()
}

fn sync(mount: &Path) {
    let synced = gupfs(["sync".as_ref(), mount.as_os_str()]);
    assert!(synced.status.success(), "{synced:?}");
}

#[test]
fn synced_data_survives_an_index_whose_sync_failed_and_restarts_before_and_after_a_power_loss() {
    if !can_mount() {
        return;
    }
    let disk = FragileDisk::make(900);
    let mut cluster = TestCluster::with_store(disk.at.join("store"), 1, 0);
    let mount = cluster.mount();
    make(&mount, "first", 300);
    sync(&mount);
    assert_eq!(cluster.mds.stop(), 0);
    cluster.mds.start_again();

    disk.fail();
    make(&mount, "second", 2000); // the log has its space already
    sync(&mount);
    assert_ne!(
        cluster.mds.stop(),
        0,
        "the index was synced to a disk that takes nothing"
    );
    disk.heal();

    // In the same boot the page cache still has the lost data, as clean pages.
    cluster.mds.start_again();
    assert_eq!(
        (count(&mount, "first"), count(&mount, "second")),
        (300, 2000)
    );
    // Several segments of the log, so that some are dropped.
    let first = File::open(mount.join("first0")).unwrap();
    for round in 0..3500u32 {
        let value = [round.to_le_bytes(); 15_000].concat();
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::fsetxattr(&first, "user.a", &value, flags).unwrap();
    }
    drop(first);
    make(&mount, "third", 100);
    sync(&mount);
    assert_eq!(cluster.mds.stop(), 0);

    disk.mount_anew();
    cluster.mds.start_again();
    let found = ["first", "second", "third"].map(|kind| count(&mount, kind));
    assert_eq!(found, [300, 2000, 100]);
    cluster.end_all();
    let store = cluster.store();
    let osts = cluster.osts(0);
    let checked = gupfs([
        "check".as_ref(),
        store.as_os_str(),
        "--ost".as_ref(),
        osts.as_os_str(),
    ]);
    assert!(checked.status.success(), "{checked:?}");
    drop(cluster);
    drop(disk);
}

#[test]
fn a_metadata_server_whose_store_failed_ends_and_its_clients_continue_after_a_restart() {
    if !can_mount() {
        return;
    }
    let disk = FragileDisk::make(420);
    let mut cluster = TestCluster::with_store(disk.at.join("store"), 1, 0);
    let mount = cluster.mount();
    fs::write(mount.join("before"), b"before").unwrap();
    sync(&mount);
    disk.fail();
    let (done, enough) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            let one = |round: u32| {
                let file = File::create(mount.join(format!("x{}", round % 500)))?;
                let value = [round.to_le_bytes(); 15_000].concat();
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::fsetxattr(&file, format!("user.a{round}"), &value, flags)?;
                Ok::<(), std::io::Error>(())
            };
            for round in (0u32..).take_while(|_| !enough.load(Relaxed)) {
                match one(round) {
                    // A request while the store was failing.
                    Err(error) if error.raw_os_error() == Some(5) => {}
                    done => done?,
                }
                done.store(round, Relaxed);
            }
            Ok::<(), std::io::Error>(())
        });
        assert_ne!(cluster.mds.ends(), 0);
        disk.heal();
        cluster.mds.start_again();
        fs::write(mount.join("after"), b"after").unwrap();
        let before = done.load(Relaxed);
        let begun = Instant::now();
        while done.load(Relaxed) < before + 20 && !working.is_finished() {
            assert!(begun.elapsed() < TIMEOUT, "the program does not go on");
            std::thread::sleep(Duration::from_millis(10));
        }
        enough.store(true, Relaxed);
        working.join().unwrap().unwrap();
    });
    assert_eq!(fs::read(mount.join("before")).unwrap(), b"before");
    drop(cluster);
    drop(disk);
}

#[test]
fn an_object_server_whose_disk_failed_ends_and_fsync_fails_also_after_its_restart() {
    if !can_mount() {
        return;
    }
    let disk = FragileDisk::make(600);
    let mut cluster = TestCluster::with_objects(disk.at.clone(), 1, 0);
    let mount = cluster.mount();
    let files: Vec<File> = (0..8)
        .map(|number| File::create_new(mount.join(format!("f{number}"))).unwrap())
        .collect();
    for file in &files {
        file.write_all_at(&vec![1; MIB as usize], 0).unwrap();
        file.sync_all().unwrap();
    }
    disk.settle();
    let lost = File::create_new(mount.join("never-synced")).unwrap();
    lost.write_all_at(&[7; 8192], 0).unwrap();
    disk.fail();
    for file in &files {
        // On both OSTs, which are on one disk: each gets the error when it syncs.
        file.write_all_at(&vec![2; 2 * MIB as usize], 8 * MIB)
            .unwrap();
    }
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| files.iter().filter(|file| file.sync_all().is_ok()).count());
        assert_ne!(cluster.osses[0].ends(), 0);
        disk.heal();
        cluster.osses[0].start_again();
        assert_eq!(
            syncing.join().unwrap(),
            0,
            "so many fsyncs over lost bytes succeeded"
        );
    });
    // Its unsynced data counts as lost, whatever the page cache still has.
    assert_eq!(lost.sync_all().unwrap_err().raw_os_error(), Some(5));
    let mut found = vec![0; MIB as usize];
    for file in &files {
        let _ = file.sync_all(); // each open file is told once
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found.iter().all(|byte| *byte == 1));
        file.write_all_at(&[3; 4096], 0).unwrap();
        file.sync_all().unwrap();
    }
    drop((files, lost));
    drop(cluster);
    drop(disk);
}
