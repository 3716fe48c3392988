//! docs/operate.md, "Recovering": the test causes each loss of the chapter in a real cluster, executes its commands exactly as
//! printed, and checks its promises.
//!
//! A loss of the chapter without a test here fails, and so does a test without a loss.

#![allow(clippy::disallowed_methods)] // real processes are waited for, in real time

mod chapter;
#[allow(dead_code)]
#[path = "../cluster/failing_disk.rs"]
mod failing_disk;
#[path = "../power_cut/images.rs"]
mod images;
#[path = "../running/mod.rs"]
mod running;
mod site;

use failing_disk::FragileDisk;
use images::Images;
use rustix::process::{Pid, Signal, kill_process};
use site::{Site, at, recover, write_synced};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::time::Duration;

const MIB: usize = 1 << 20;
const EIO: Option<i32> = Some(5);

#[test]
fn each_loss_of_the_chapter_has_its_test_and_each_test_a_loss() {
    let code = include_str!("main.rs");
    let tests = code.split("#[test]\nfn ").skip(2);
    let tests = tests.filter_map(|rest| rest.split('(').next());
    let tests: BTreeSet<String> = tests.map(String::from).collect();
    let losses = chapter::losses();
    let named: BTreeSet<String> = losses.iter().map(chapter::Loss::test).collect();
    assert_eq!(tests, named, "tests of this file, and losses of operate.md");
    for loss in &losses {
        assert!(!loss.commands.is_empty(), "{}: no commands", loss.heading);
        let named = format!("recover(\"{}\"", loss.heading);
        assert!(code.contains(&named), "{}: not recovered", loss.heading);
    }
}

/// Files with an object each, so that each OST has some of them.
fn many(name: &str) -> impl Iterator<Item = (String, Vec<u8>)> {
    (1..=8).map(move |n| (format!("{name}{n}"), vec![n; 100_000]))
}

fn write_many(name: &str) {
    many(name).for_each(|(name, bytes)| write_synced(&name, &bytes));
}

fn read_many(name: &str) {
    for (name, bytes) in many(name) {
        assert!(fs::read(at(&name)).unwrap() == bytes, "{name}");
    }
}

#[test]
fn a_server_was_killed_or_its_host_lost_power() {
    recover("A server was killed, or its host lost power", |site| {
        let mut disk = Images::make();
        fs::create_dir(disk.store()).unwrap();
        fs::remove_dir("/srv/osts").unwrap();
        std::os::unix::fs::symlink(disk.store(), "/srv/osts").unwrap();
        site.set_up();
        write_many("kept");
        let file = File::create_new(at("working")).unwrap();
        file.write_all_at(&[1; MIB], 0).unwrap();
        file.sync_all().unwrap();
        file.write_all_at(&[2; MIB], 0).unwrap();
        site.kill("gupfs-mds");
        site.sh("systemctl cut gupfs-oss");
        disk.lose();

        site.follow();
        read_many("kept");
        assert_eq!(file.sync_all().unwrap_err().raw_os_error(), EIO);
        file.write_all_at(&[2; MIB], 0).unwrap();
        file.sync_all().unwrap();
        assert!(fs::read(at("working")).unwrap() == [2; MIB]);
        drop(file);
        site.sh("systemctl stop gupfs-mount gupfs-mds gupfs-oss");
    });
}

#[test]
fn a_disk_is_full() {
    recover("A disk is full", |site| {
        for disk in 1..=3 {
            site.disk(&format!("/srv/osts/disk{disk}"), 96);
        }
        site.sh("mount /srv/osts/disk1; mount /srv/osts/disk2");
        site.set_up();
        write_many("kept");
        fs::create_dir(at("scratch")).unwrap();
        let mut file = File::create(at("scratch/large")).unwrap();
        let full = loop {
            if let Err(error) = file.write_all(&vec![1; MIB]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        drop(file);

        site.follow();
        read_many("kept");
        // As soon as the space is known.
        let has_room = || fs::write(at("more"), vec![2; 20 * MIB]).is_ok();
        site.until("there is room", has_room);
        let added = || fs::read_dir("/srv/osts/disk3/objects").unwrap().count();
        let mut files = 0;
        site.until("the new OST is used", || {
            files += 1;
            write_synced(&format!("new{files}"), &[3; 100_000]);
            added() > 0
        });
    });
}

#[test]
fn a_disk_of_an_ost_failed() {
    recover("A disk of an OST failed", |site| {
        let disk = FragileDisk::make(300);
        site.disk("/srv/osts/disk1", 3 << 10); // as much as the other says it has
        let image = disk.at.with_file_name("below").join("image");
        let (at_first, image) = (disk.at.display(), image.display());
        site.sh(&format!(
            "umount {at_first}; mkdir /srv/osts/disk2; \
             echo '{image} /srv/osts/disk2 xfs loop,nodiscard 0 0' >> /etc/fstab; mount /srv/osts/disk1; mount /srv/osts/disk2"
        ));
        site.set_up();
        write_many("kept");
        // The data of lost files can be written again.
        site.sh(
            "sync -f /srv/osts/disk2; sleep 1; sync -f /srv/osts/disk2; fstrim /srv/osts/disk2",
        );
        disk.fail();
        let files: Vec<File> = (0..8)
            .map(|n| {
                OpenOptions::new()
                    .write(true)
                    .open(at(&format!("kept{}", n + 1)))
                    .unwrap()
            })
            .collect();
        let mut failed = 0;
        for file in &files {
            let written = file.write_all_at(&vec![9; 2 * MIB], 2 * MIB as u64);
            failed += usize::from(written.and_then(|()| file.sync_all()).is_err());
        }
        assert!(failed > 0 && failed < files.len(), "{failed} failed");
        drop(files);
        disk.heal();

        site.follow();
        for (name, bytes) in many("kept") {
            assert!(
                fs::read(at(&name)).unwrap()[..bytes.len()] == bytes,
                "{name}"
            );
        }
        write_many("kept");
        read_many("kept");
        site.sh("systemctl stop gupfs-mount gupfs-mds gupfs-oss; umount /srv/osts/disk2");
    });
}

#[test]
fn an_ost_is_lost() {
    recover("An OST is lost", |site| {
        // All of one size, so that each gets some of the files.
        for disk in 1..=3 {
            site.disk(&format!("/srv/osts/disk{disk}"), 512);
        }
        site.sh("mount /srv/osts/disk1; mount /srv/osts/disk2");
        site.set_up();
        write_many("kept");
        site.sh("mkdir /srv/backup/files; cp -a /mnt/gupfs/kept* /srv/backup/files");
        fs::write(at("small"), "in its inode").unwrap();
        // The disk disappears, and its server ends.
        site.sh("systemctl cut gupfs-oss; umount /srv/osts/disk2; sed -i /disk2/d /etc/fstab");

        site.follow();
        let lost = fs::read_to_string("/srv/backup/lost-files").unwrap();
        let lost = lost.lines().count();
        assert!(lost > 0 && lost < 8, "{lost} files are told to be lost");
        read_many("kept");
        assert_eq!(fs::read(at("small")).unwrap(), b"in its inode");
        site.until("new files go elsewhere", || !site.why_not(1).is_empty());
        write_many("new");
        read_many("new");
    });
}

#[test]
fn the_metadata_server_s_host_is_lost() {
    recover("The metadata server's host is lost", |site| {
        site.disk("/srv/gupfs", 2048);
        site.sh("mount /srv/gupfs");
        site.set_up();
        write_many("kept");
        let file = File::create_new(at("open")).unwrap();
        site.sh("systemctl cut gupfs-mds; umount /srv/gupfs");

        site.follow();
        read_many("kept");
        file.write_all_at(b"it goes on", 0).unwrap();
        file.sync_all().unwrap();
        drop(file);
        write_many("new");
        site.sh("systemctl stop gupfs-mount gupfs-mds; umount /srv/gupfs");
    });
}

#[test]
fn an_object_server_s_host_is_lost() {
    recover("An object server's host is lost", |site| {
        for disk in ["/srv/osts/disk1", "/srv/osts/disk2"] {
            site.disk(disk, 512);
            site.sh(&format!("mount {disk}"));
        }
        site.set_up();
        write_many("kept");
        // The other host has neither the key nor the address.
        site.sh("systemctl cut gupfs-oss; umount /srv/osts/disk1 /srv/osts/disk2; rm /etc/gupfs/cluster.key");
        site.sh("ip address delete 10.0.0.2/32 dev lo; sed -i s/0.0.0.0:7701/10.0.0.3:7701/ /etc/gupfs/oss.toml");

        site.follow();
        read_many("kept");
        write_many("new");
        assert_eq!(site.targets()[1]["address"], "10.0.0.3:7701");
    });
}

/// The line for line of the chapter by which a loss is accepted, for those that come before the one that is tried.
const ACCEPT: &str = "
gupfs mds /srv/gupfs --config /etc/gupfs/mds.toml --accept-loss &
until gupfs status /srv/gupfs > /dev/null; do sleep 0.1; done
gupfs stop /srv/gupfs
systemctl start gupfs-mds
";

/// Makes a backup of the metadata in /srv/backup/gupfs, which becomes older than the store.
fn back_up_metadata(site: &mut Site) {
    site.sh(
        "systemctl stop gupfs-mds; cp -a /srv/gupfs /srv/backup/gupfs; systemctl start gupfs-mds",
    );
}

fn accept_backup(site: &mut Site) {
    site.sh("systemctl stop gupfs-mds; mv /srv/gupfs /srv/backup/gupfs.right; cp -a /srv/backup/gupfs /srv/gupfs");
    site.sh(ACCEPT);
}

/// Objects in lost+found of OSTs.
fn count_set_aside() -> usize {
    let below = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
    let osts = below("/srv/osts".into()).map(|ost| ost.path().join("lost+found"));
    let groups = osts.flat_map(below).flat_map(|day| below(day.path()));
    groups.flat_map(|group| below(group.path())).count()
}

#[test]
fn the_metadata_are_lost_but_for_a_backup() {
    recover("The metadata are lost but for a backup", |site| {
        site.set_up();
        write_many("kept");
        back_up_metadata(site);
        write_many("later");
        site.sh("systemctl cut gupfs-mds; rm -r /srv/gupfs/mds/log");

        let printed = site.follow();
        assert!(
            printed.contains("8 objects were made since this copy"),
            "{printed}"
        );
        read_many("kept");
        assert!(!at("later1").exists());
        site.until("what no file has is set aside", || count_set_aside() == 8);
        write_many("new");
        read_many("new");
    });
}

#[test]
fn an_ost_was_unreachable_when_a_loss_was_accepted() {
    recover("An OST was unreachable when a loss was accepted", |site| {
        site.set_up();
        write_many("kept");
        back_up_metadata(site);
        write_many("later");
        site.sh("systemctl stop gupfs-oss; mv /srv/osts/disk2 /srv; systemctl start gupfs-oss");
        accept_backup(site);
        site.sh("mv /srv/disk2 /srv/osts");
        site.until("refused", || site.why_not(1).contains("that is lost"));

        site.follow();
        read_many("kept");
        site.until("what no file has is set aside", || count_set_aside() == 8);
        write_many("new");
        read_many("new");
    });
}

#[test]
fn the_wrong_backup_was_accepted() {
    recover("The wrong backup was accepted", |site| {
        site.set_up();
        write_many("kept");
        back_up_metadata(site);
        write_many("later");
        accept_backup(site);
        site.until("what no file has is set aside", || count_set_aside() == 8);
        write_many("meanwhile");

        site.follow();
        read_many("kept");
        read_many("later");
        assert!(!at("meanwhile1").exists());
        write_many("new");
        read_many("new");
    });
}

#[test]
fn an_ost_is_lost_but_for_a_copy() {
    recover("An OST is lost but for a copy", |site| {
        site.set_up();
        write_many("kept");
        site.sh("systemctl stop gupfs-oss; cp -a /srv/osts/disk2 /srv/backup/disk2; systemctl start gupfs-oss");
        write_many("later");
        site.sh("systemctl cut gupfs-oss; rm -r /srv/osts/disk2/objects");

        site.follow();
        read_many("kept");
        let lost = many("later").filter(|(name, bytes)| match fs::read(at(name)) {
            Ok(found) => {
                assert!(found == *bytes, "{name}");
                false
            }
            Err(error) => {
                assert_eq!(error.raw_os_error(), EIO, "{name}");
                true
            }
        });
        let lost = lost.count();
        assert!(lost > 0 && lost < 8, "{lost} files give EIO");
        write_many("new");
        read_many("new");
    });
}

#[test]
fn a_copy_of_an_ost_is_served_too() {
    recover("A copy of an OST is served, too", |site| {
        site.set_up();
        write_many("kept");
        site.sh("cp -a /srv/osts/disk2 /srv/osts/copy-of-disk2");
        write_many("later");
        // The copy comes first.
        site.sh("systemctl restart gupfs-oss");
        site.until("refused", || site.why_not(1).contains("copy"));

        site.follow();
        read_many("kept");
        read_many("later");
        write_many("new");
        read_many("new");
    });
}

#[test]
fn the_metadata_are_damaged() {
    recover("The metadata are damaged", |site| {
        site.set_up();
        write_many("kept");
        site.sh("systemctl stop gupfs-mds");
        // Two files that name the index's parts.
        let found = site.sh("find /srv/gupfs/mds/index/keyspaces -name current");
        for file in found.lines() {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .open(file)
                .unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, 9).unwrap();
            file.write_all_at(&[byte[0] ^ 2], 9).unwrap();
        }
        site.sh("systemctl start gupfs-mds");
        let says = || fs::read_to_string("/var/log/gupfs-mds.log").unwrap();
        site.until("told", || says().contains("--salvage"));

        let printed = site.follow();
        assert!(printed.contains("lost: cannot read the index"), "{printed}");
        read_many("kept");
        write_many("new");
        read_many("new");
    });
}

/// Root of the host is nobody with a key that is made without --root.
fn open_to_all() {
    fs::set_permissions("/mnt/gupfs", Permissions::from_mode(0o1777)).unwrap();
}

#[test]
fn a_client_key_is_lost_or_stolen() {
    recover("A client key is lost or stolen", |site| {
        site.set_up();
        open_to_all();
        write_many("kept");
        site.sh("mv /etc/gupfs/client.key stolen.key");

        site.follow();
        site.wait_for_mount();
        read_many("kept");
        write_many("new");
        let printed = site.sh("! gupfs status node1:7700 --key stolen.key");
        assert!(printed.contains("it was revoked"), "{printed}");
    });
}

#[test]
fn the_cluster_s_key_is_lost() {
    recover("The cluster's key is lost", |site| {
        site.set_up();
        write_many("kept");
        fs::remove_file("/srv/gupfs/cluster.key").unwrap();
        kill_process(site.daemon("gupfs-mds").unwrap(), Signal::KILL).unwrap();
        let says = || fs::read_to_string("/var/log/gupfs-mds.log").unwrap();
        site.until("told", || says().contains("cannot read the key"));

        site.follow();
        read_many("kept");
        write_many("new");
    });
}

#[test]
fn the_cluster_s_key_is_stolen() {
    recover("The cluster's key is stolen", |site| {
        site.set_up();
        open_to_all();
        write_many("kept");
        site.sh(
            "cp -p /etc/gupfs/cluster.key stolen.key; cp -p /etc/gupfs/client.key also-stolen.key",
        );

        site.follow();
        site.wait_for_mount();
        read_many("kept");
        write_many("new");
        for key in ["stolen.key", "also-stolen.key"] {
            let printed = site.sh(&format!("! gupfs status node1:7700 --key {key}"));
            assert!(printed.contains("cannot reach"), "{printed}");
        }
    });
}

#[test]
fn a_mount_hangs() {
    recover("A mount hangs", |site| {
        site.set_up();
        write_many("kept");
        site.sh("systemctl cut gupfs-oss");
        let reading = std::thread::spawn(|| fs::read(at("kept1")));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!reading.is_finished());

        let printed = site.follow();
        assert!(printed.contains("read waits for ost"), "{printed}");
        assert!(reading.join().unwrap().is_err());
        site.sh("systemctl start gupfs-oss");
        site.wait_for_mount();
        read_many("kept");
        write_many("new");
    });
}

#[test]
fn a_mount_s_process_died() {
    recover("A mount's process died", |site| {
        site.set_up();
        write_many("kept");
        let process = site.daemon("gupfs-mount").unwrap();
        let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
        let watchdog = children
            .unwrap()
            .trim()
            .parse()
            .ok()
            .and_then(Pid::from_raw);
        for pid in [watchdog.unwrap(), process] {
            kill_process(pid, Signal::KILL).unwrap();
        }
        site.until("dead", || {
            let found = fs::metadata("/mnt/gupfs");
            found.is_err_and(|error| error.raw_os_error() == Some(libc::ENOTCONN))
        });

        site.follow();
        site.until("mounted again", || at("kept1").exists());
        read_many("kept");
        write_many("new");
    });
}
