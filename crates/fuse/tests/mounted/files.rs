//! Programs' operations on files.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::thread;

use rustix::fs::{AtFlags, RenameFlags, StatxFlags, XattrFlags};

use crate::shared_mapping::SharedMapping;
use crate::test_mount::{errno, memory, memory_direct, until};

#[test]
fn written_bytes_are_read_cached_and_direct() {
    for mount in [memory(), memory_direct()].into_iter().flatten() {
        let bytes: Vec<u8> = (0..3_000_001u32).map(|n| (n * 7 % 251) as u8).collect();
        fs::write(mount.path("file"), &bytes).unwrap();
        assert!(fs::read(mount.path("file")).unwrap() == bytes);
        assert_eq!(
            fs::metadata(mount.path("file")).unwrap().len(),
            bytes.len() as u64
        );
        let file = File::open(mount.path("file")).unwrap();
        let mut part = [0; 100];
        file.read_exact_at(&mut part, 1_048_570).unwrap();
        assert_eq!(part[..], bytes[1_048_570..1_048_670]);
        assert_eq!(file.read_at(&mut part, bytes.len() as u64).unwrap(), 0);
    }
}

#[test]
fn parallel_writers_at_different_offsets_do_not_interfere() {
    let Some(mount) = memory_direct() else { return };
    let file = File::create(mount.path("file")).unwrap();
    thread::scope(|scope| {
        for writer in 0..8u8 {
            let file = &file;
            scope.spawn(move || {
                for block in 0..50 {
                    let at = (block * 8 + u64::from(writer)) * 5000;
                    file.write_all_at(&[writer + 1; 5000], at).unwrap();
                }
            });
        }
    });
    let bytes = fs::read(mount.path("file")).unwrap();
    assert_eq!(bytes.len(), 8 * 50 * 5000);
    assert!(
        bytes
            .chunks(5000)
            .enumerate()
            .all(|(n, chunk)| chunk.iter().all(|byte| *byte == (n % 8) as u8 + 1))
    );
}

#[test]
fn appending_and_truncating_change_the_size() {
    let Some(mount) = memory() else { return };
    fs::write(mount.path("file"), "0123456789").unwrap();
    OpenOptions::new()
        .append(true)
        .open(mount.path("file"))
        .unwrap()
        .write_all(b"abc")
        .unwrap();
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"0123456789abc");
    let file = OpenOptions::new()
        .write(true)
        .open(mount.path("file"))
        .unwrap();
    file.set_len(4).unwrap();
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"0123");
    file.set_len(6).unwrap();
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"0123\0\0");
    drop(
        OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(mount.path("file"))
            .unwrap(),
    );
    assert_eq!(fs::metadata(mount.path("file")).unwrap().len(), 0);
}

#[test]
fn names_are_created_renamed_linked_and_removed() {
    let Some(mount) = memory() else { return };
    fs::write(mount.path("a"), "a").unwrap();
    fs::create_dir_all(mount.path("d/e")).unwrap();
    fs::rename(mount.path("a"), mount.path("d/b")).unwrap();
    assert_eq!(errno(fs::metadata(mount.path("a"))), libc::ENOENT);
    fs::hard_link(mount.path("d/b"), mount.path("c")).unwrap();
    assert_eq!(fs::metadata(mount.path("c")).unwrap().nlink(), 2);
    symlink("d/b", mount.path("link")).unwrap();
    assert_eq!(
        fs::read_link(mount.path("link")).unwrap().to_str(),
        Some("d/b")
    );
    assert_eq!(fs::read(mount.path("link")).unwrap(), b"a");
    assert_eq!(errno(fs::remove_dir(mount.path("d"))), libc::ENOTEMPTY);
    fs::write(mount.path("other"), "other").unwrap();
    let exchange = |flags| {
        rustix::fs::renameat_with(
            rustix::fs::CWD,
            mount.path("c"),
            rustix::fs::CWD,
            mount.path("other"),
            flags,
        )
    };
    assert_eq!(
        exchange(RenameFlags::NOREPLACE),
        Err(rustix::io::Errno::EXIST)
    );
    exchange(RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(mount.path("c")).unwrap(), b"other");
    assert_eq!(fs::read(mount.path("other")).unwrap(), b"a");
    fs::remove_dir_all(mount.path("d")).unwrap();
    assert_eq!(fs::metadata(mount.path("other")).unwrap().nlink(), 1);
    let long = "x".repeat(256);
    assert_eq!(errno(fs::write(mount.path(&long), "")), libc::ENAMETOOLONG);
}

#[test]
fn a_directory_of_a_hundred_thousand_names_is_listed_completely_and_once() {
    let Some(mount) = memory() else { return };
    let names: Vec<String> = (0..100_000)
        .map(|n| format!("a name with the number {n}"))
        .collect();
    mount.fs.fill(&names);
    let read = |with_attributes: bool| {
        let entries = fs::read_dir(mount.root()).unwrap().map(Result::unwrap);
        let name = |entry: fs::DirEntry| {
            if with_attributes {
                assert!(entry.metadata().unwrap().is_file());
            }
            entry.file_name().into_string().unwrap()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort_unstable();
        names
    };
    let mut expected = names.clone();
    expected.sort_unstable();
    assert!(read(false) == expected);
    assert!(read(true) == expected);
    // Names are removed during the listing: those that remain are listed exactly once.
    let mut entries = fs::read_dir(mount.root()).unwrap();
    let mut seen: Vec<String> = entries
        .by_ref()
        .take(1000)
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in names.iter().step_by(50) {
        fs::remove_file(mount.path(name)).unwrap();
    }
    seen.extend(entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()));
    seen.sort_unstable();
    let before = seen.len();
    seen.dedup();
    assert_eq!(before, seen.len());
    let stayed = names
        .iter()
        .enumerate()
        .filter(|(n, _)| n % 50 != 0)
        .map(|(_, name)| name);
    assert!(
        stayed
            .into_iter()
            .all(|name| seen.binary_search(name).is_ok())
    );
}

#[test]
fn a_mapping_and_its_file_have_the_same_bytes() {
    for mount in [memory(), memory_direct()].into_iter().flatten() {
        fs::write(mount.path("file"), vec![b'.'; 10_000]).unwrap();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(mount.path("file"))
            .unwrap();
        let mut map = SharedMapping::shared(&file, 10_000);
        assert!(map.bytes().iter().all(|byte| *byte == b'.'));
        map.bytes_mut()[5000..5005].copy_from_slice(b"hello");
        map.sync();
        let mut part = [0; 7];
        file.read_exact_at(&mut part, 4999).unwrap();
        assert_eq!(&part, b".hello.");
    }
}

#[test]
fn extended_attributes_are_set_listed_and_removed() {
    let Some(mount) = memory() else { return };
    let path = mount.path("file");
    fs::write(&path, "").unwrap();
    let big = vec![7; 65536];
    rustix::fs::setxattr(&path, "user.big", &big, XattrFlags::empty()).unwrap();
    rustix::fs::setxattr(&path, "trusted.x", b"1", XattrFlags::CREATE).unwrap();
    let again = rustix::fs::setxattr(&path, "trusted.x", b"1", XattrFlags::CREATE);
    assert_eq!(again, Err(rustix::io::Errno::EXIST));
    let mut value = vec![0; 65536];
    assert_eq!(
        rustix::fs::getxattr(&path, "user.big", &mut value[..]),
        Ok(65536)
    );
    assert!(value == big);
    assert_eq!(
        rustix::fs::getxattr(&path, "user.big", &mut value[..100]),
        Err(rustix::io::Errno::RANGE)
    );
    let size = rustix::fs::listxattr(&path, &mut value[..]).unwrap();
    assert_eq!(&value[..size], b"trusted.x\0user.big\0");
    rustix::fs::removexattr(&path, "user.big").unwrap();
    assert_eq!(
        rustix::fs::getxattr(&path, "user.big", &mut value[..]),
        Err(rustix::io::Errno::NODATA)
    );
}

#[test]
fn an_o_tmpfile_file_is_deleted_unless_it_is_linked() {
    let Some(mount) = memory() else { return };
    let open = || {
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_TMPFILE)
            .open(mount.root())
            .unwrap()
    };
    let (mut kept, lost) = (open(), open());
    kept.write_all(b"kept").unwrap();
    assert_eq!(fs::read_dir(mount.root()).unwrap().count(), 0);
    let descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&kept));
    let follow = AtFlags::SYMLINK_FOLLOW;
    rustix::fs::linkat(
        rustix::fs::CWD,
        descriptor,
        rustix::fs::CWD,
        mount.path("named"),
        follow,
    )
    .unwrap();
    drop((kept, lost));
    assert_eq!(fs::read(mount.path("named")).unwrap(), b"kept");
    until("only the root and one file are left", || {
        mount.fs.inodes() == 2
    });
}

#[test]
fn statx_returns_the_creation_time() {
    let Some(mount) = memory() else { return };
    let path = mount.path("file");
    fs::write(&path, "x").unwrap();
    let btime =
        |path| rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), StatxFlags::ALL).unwrap();
    let before = btime(&path);
    assert!(before.stx_mask & StatxFlags::BTIME.bits() != 0);
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(&path, "y").unwrap();
    let after = btime(&path);
    let nanos = |time: rustix::fs::StatxTimestamp| {
        i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
    };
    assert_eq!(nanos(before.stx_btime), nanos(after.stx_btime));
    assert!(nanos(after.stx_mtime) > nanos(after.stx_btime));
}

#[test]
fn an_unlinked_file_is_usable_until_it_is_closed() {
    for mount in [memory(), memory_direct()].into_iter().flatten() {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(mount.path("file"))
            .unwrap();
        file.write_all(b"before").unwrap();
        fs::remove_file(mount.path("file")).unwrap();
        file.write_all(b" after").unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "before after");
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        drop(file);
        until("only the root is left", || mount.fs.inodes() == 1);
    }
}

#[test]
fn attributes_are_set_as_requested() {
    let Some(mount) = memory() else { return };
    let path = mount.path("file");
    fs::write(&path, "x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4711)).unwrap();
    std::os::unix::fs::chown(&path, Some(1234), Some(5678)).unwrap();
    let file = File::open(&path).unwrap();
    // Before 1970.
    let long_ago = rustix::fs::Timespec {
        tv_sec: -86_400,
        tv_nsec: 5,
    };
    let times = rustix::fs::Timestamps {
        last_access: long_ago,
        last_modification: long_ago,
    };
    rustix::fs::futimens(&file, &times).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (1234, 5678));
    assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (-86_400, 5));
    assert_eq!(metadata.mode() & 0o777, 0o711);
}

#[test]
fn space_is_allocated_punched_searched_and_copied() {
    let Some(mount) = memory() else { return };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(mount.path("file"))
        .unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 100_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 100_000);
    file.write_all_at(b"data", 50_000).unwrap();
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 50_002, 10).unwrap();
    let mut part = [0; 4];
    file.read_exact_at(&mut part, 50_000).unwrap();
    assert_eq!(&part, b"da\0\0");
    assert_eq!(
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(10)),
        Ok(100_000)
    );
    let copy = File::create(mount.path("copy")).unwrap();
    let (mut from, mut to) = (50_000, 7);
    let copied = rustix::fs::copy_file_range(&file, Some(&mut from), &copy, Some(&mut to), 1 << 40);
    assert_eq!(copied, Ok(50_000));
    assert_eq!(fs::read(mount.path("copy")).unwrap()[7..9], *b"da");
    let statfs = rustix::fs::statvfs(mount.root()).unwrap();
    assert_eq!((statfs.f_namemax, statfs.f_bsize), (255, 4096));
}

#[test]
fn a_write_by_another_user_clears_setuid_and_a_write_by_root_does_not() {
    for mount in [memory(), memory_direct()].into_iter().flatten() {
        let path = mount.path("program");
        let mode = || fs::metadata(&path).unwrap().mode() & 0o7777;
        for (work, by_other_user) in [
            ("printf x >> $0", 0o777),
            (": > $0", 0o777),
            ("truncate -s 9 $0", 0o777),
        ] {
            for (uid, expected) in [("0", 0o6777), ("1234", by_other_user)] {
                fs::write(&path, "x").unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
                let mut command = std::process::Command::new("setpriv");
                command
                    .args([
                        &format!("--reuid={uid}"),
                        "--clear-groups",
                        "sh",
                        "-c",
                        work,
                    ])
                    .arg(&path);
                assert!(command.status().unwrap().success());
                assert_eq!(mode(), expected, "{work} by {uid}");
            }
        }
    }
}
