//! What `gupfs up` refuses, its messages, and that it changes nothing.

mod running;

use expect_test::{Expect, expect};
use running::{TestStore, can_mount, gupfs, is_mounted, refused};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs;
use std::path::{Path, PathBuf};

/// Checks the refusal of a wrong store, and that nothing in it has changed.
fn check_refusal(test_store: &TestStore, more: &[&str], expected: Expect) {
    let before = test_store.listing();
    expected.assert_eq(&test_store.refusal(more));
    assert_eq!(
        test_store.listing(),
        before,
        "a refused directory was changed"
    );
    assert!(!is_mounted(&test_store.mnt()));
}

fn store_with(files: &[(&str, &str)]) -> TestStore {
    let test_store = TestStore::new();
    fs::create_dir(test_store.store()).unwrap();
    for (name, text) in files {
        let path = test_store.store().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    test_store
}

const MARKER: &str = "format = \"gupfs store\"\nversion = 1\nfeatures = []\ncluster = \"07\"\nmetadata = \"09\"\nvirtual_shards = 64\nosts = [0, 1]\n";

#[test]
fn a_directory_with_other_things_is_refused_and_untouched() {
    let test_store = store_with(&[
        ("letters/mum", "Dear"),
        ("thesis.tex", "x"),
        ("a", ""),
        ("b", ""),
    ]);
    check_refusal(
        &test_store,
        &[],
        expect![[r#"
            exit status: 1
            gupfs up: 'DIR/store' holds no gupfs store, and is not empty: 'a', 'b', 'letters', ….
              → give an empty or new directory for the store; the mount point is what --mount names.
        "#]],
    );
}

#[test]
fn a_newer_format_is_refused() {
    let test_store = store_with(&[("gupfs.toml", &MARKER.replace("version = 1", "version = 2"))]);
    check_refusal(
        &test_store,
        &[],
        expect![[r#"
            exit status: 1
            gupfs up: the store in 'DIR/store' has format version 2; this program reads up to version 1.
              → use the newer gupfs that wrote it.
        "#]],
    );
}

#[test]
fn an_unknown_feature_is_refused_by_name() {
    let test_store = store_with(&[("gupfs.toml", &MARKER.replace("[]", "[\"snapshots\"]"))]);
    check_refusal(
        &test_store,
        &[],
        expect![[r#"
            exit status: 1
            gupfs up: the store in 'DIR/store' uses features that this program does not support: snapshots.
              → use the newer gupfs that wrote it.
        "#]],
    );
}

#[test]
fn a_store_whose_marker_is_missing_is_explained() {
    let test_store = store_with(&[
        ("cluster.key", "k"),
        ("mds/log/1", ""),
        ("ost0/superblock", ""),
    ]);
    check_refusal(
        &test_store,
        &[],
        expect![[r#"
            exit status: 1
            gupfs up: 'DIR/store' looks like a gupfs store whose marker gupfs.toml is missing.
              → restore gupfs.toml from a backup; gupfs has changed nothing in the directory.
        "#]],
    );
}

#[test]
fn fewer_osts_than_there_are_is_refused() {
    let test_store = store_with(&[("gupfs.toml", MARKER)]);
    check_refusal(
        &test_store,
        &["--osts", "1"],
        expect![[r#"
            exit status: 2
            gupfs up: 'DIR/store' has 2 OSTs, and --osts asks for 1: gupfs cannot remove an OST, because files may lie on it.
              → start with --osts 2, or without --osts.
        "#]],
    );
}

#[test]
fn an_unfinished_initialisation_with_something_else_in_it_is_explained() {
    let begun = ("gupfs.init", MARKER);
    check_refusal(
        &store_with(&[begun, ("mds/x", ""), ("notes", "")]),
        &[],
        expect![[r#"
            exit status: 1
            gupfs up: an initialisation of 'DIR/store' was interrupted, and something else is in it now: 'notes'.
              → move these files to another directory and start again.
        "#]],
    );
    check_refusal(
        &store_with(&[begun, ("ost0/objects/0/abc.1.0", "data")]),
        &[],
        expect![[r#"
            exit status: 1
            TIME INFO an initialisation of this directory was interrupted; starting it again dir=DIR/store
            gupfs up: 'DIR/store/ost0' holds objects, but gupfs.toml does not list ost0.
              → if it belongs to another store, move it there; if not, restore gupfs.toml from a backup.
        "#]],
    );
}

#[test]
fn a_file_instead_of_a_directory_is_refused() {
    let test_store = TestStore::new();
    fs::write(test_store.store(), "").unwrap();
    expect![[r#"
        exit status: 1
        gupfs up: 'DIR/store' is not a directory.
    "#]]
    .assert_eq(&test_store.refusal(&[]));
}

#[test]
fn a_wrong_mount_point_is_refused_before_a_store_is_made() {
    let test_store = TestStore::new();
    fs::write(test_store.mnt().join("thing"), "").unwrap();
    expect![[r#"
        exit status: 2
        gupfs up: the mount point 'DIR/mnt' is not empty: it contains 'thing', which the mount would hide.
          → give an empty directory.
    "#]]
    .assert_eq(&test_store.refusal(&[]));
    fs::remove_dir_all(test_store.mnt()).unwrap();
    expect![[r#"
        exit status: 2
        gupfs up: cannot find the mount point 'DIR/mnt': No such file or directory (os error 2).
          → create it: mkdir -p 'DIR/mnt'.
    "#]]
    .assert_eq(&test_store.refusal(&[]));
    fs::write(test_store.mnt(), "").unwrap();
    expect![[r#"
        exit status: 2
        gupfs up: the mount point 'DIR/mnt' is not a directory.
    "#]]
    .assert_eq(&test_store.refusal(&[]));
    assert!(!test_store.store().exists());
}

#[test]
fn nested_store_and_mount_point_are_refused() {
    let test_store = TestStore::new();
    fs::create_dir_all(test_store.store().join("inner")).unwrap();
    let printed = |store: PathBuf, mnt: PathBuf| {
        let output = gupfs([
            "up".as_ref(),
            store.as_os_str(),
            "--mount".as_ref(),
            mnt.as_os_str(),
        ]);
        refused(&output, &test_store.dir())
    };
    expect![[r#"
        2
        gupfs up: the store 'DIR/mnt' and the mount point 'DIR/mnt' are the same directory.
          → give two directories of which none contains the other.
    "#]]
    .assert_eq(&printed(test_store.mnt(), test_store.mnt()));
    expect![[r#"
        2
        gupfs up: the store 'DIR/store' and the mount point 'DIR/store/inner' are nested: the mount point is inside the store.
          → give two directories of which none contains the other.
    "#]]
    .assert_eq(&printed(test_store.store(), test_store.store().join("inner")));
}

#[test]
fn a_wrong_configuration_is_refused_with_its_line() {
    let test_store = TestStore::new();
    let file = test_store.dir().join("gupfs.conf");
    fs::write(&file, "[mount]\nallow_others = true\n").unwrap();
    let output = gupfs(["config".as_ref(), "check".as_ref(), file.as_os_str()]);
    expect![[r#"
        2
        gupfs config: DIR/gupfs.conf, line 2: there is no key 'allow_others' in [mount].
          → probably 'allow_other' was meant; valid keys: point, allow_other, read_only, read_ahead, data_cache, write_behind, relay, transport, threads, deadline, atime, directory_atime, setuid, devices, exec, permissions, job.
    "#]]
    .assert_eq(&refused(&output, &test_store.dir()));
}

/// Mounts a small file system at DIR/store.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    fn at<'a>(path: &'a Path, options: &str, flags: MountFlags) -> SmallDisk<'a> {
        fs::create_dir_all(path).unwrap();
        let options = std::ffi::CString::new(options).unwrap();
        mount("tmpfs", path, "tmpfs", flags, options.as_c_str()).unwrap();
        SmallDisk(path)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        unmount(self.0, UnmountFlags::DETACH).unwrap();
    }
}

#[test]
fn a_disk_without_free_space_is_refused() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let store = test_store.store();
    let _disk = SmallDisk::at(&store, "size=64m", MountFlags::empty());
    check_refusal(
        &test_store,
        &[],
        expect![[r#"
            exit status: 1
            gupfs up: 'DIR/store' has 64.0 MiB free, and a new store needs 1.00 GiB.
              → free some space there, or give a directory on a larger file system.
        "#]],
    );
}

#[test]
fn a_read_only_disk_is_refused() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let store = test_store.store();
    let _disk = SmallDisk::at(&store, "size=2g", MountFlags::RDONLY);
    check_refusal(
        &test_store,
        &[],
        expect![[r#"
            exit status: 1
            gupfs up: cannot write 'DIR/store/gupfs.init': Read-only file system (os error 30).
              → its file system is mounted read-only: mount it writable, or give another directory.
        "#]],
    );
}

#[test]
fn a_mount_point_where_something_is_mounted_is_refused() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let mnt = test_store.mnt();
    let _disk = SmallDisk::at(&mnt, "size=1m", MountFlags::empty());
    expect![[r#"
        exit status: 2
        gupfs up: the mount point 'DIR/mnt' is in use: tmpfs is mounted there (from 'tmpfs').
          → unmount it (umount 'DIR/mnt'), or give another directory.
    "#]]
    .assert_eq(&test_store.refusal(&[]));
}

#[test]
fn a_store_in_use_is_refused_with_the_pid() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let running = test_store.up();
    let other = test_store.dir().join("other");
    fs::create_dir(&other).unwrap();
    let output = gupfs([
        "up".as_ref(),
        test_store.store().as_os_str(),
        "--mount".as_ref(),
        other.as_os_str(),
    ]);
    let printed = refused(&output, &test_store.dir()).replace(&running.pid().to_string(), "PID");
    expect![[r#"
        1
        gupfs up: 'DIR/store' is in use by process PID.
          → see its state with `gupfs status DIR/store`, or stop it with `gupfs stop DIR/store`.
    "#]]
    .assert_eq(&printed);
    let second = test_store.dir().join("second");
    let output = gupfs([
        "up".as_ref(),
        second.as_os_str(),
        "--mount".as_ref(),
        test_store.mnt().as_os_str(),
    ]);
    expect![[r#"
        2
        gupfs up: the mount point 'DIR/mnt' is in use: it is the mount of the store 'DIR/store', which is being served.
          → stop it with `gupfs stop 'DIR/mnt'`, or give another directory.
    "#]]
    .assert_eq(&refused(&output, &test_store.dir()));
    assert!(!second.exists());
    assert_eq!(running.stop(), 0);
}

#[test]
fn a_file_of_another_file_system_has_no_layout() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let output = gupfs(["layout".as_ref(), "get".as_ref(), file.as_os_str()]);
    expect![[r#"
        2
        gupfs layout: 'DIR/file' is neither a gupfs store (no gupfs.toml in it) nor on a gupfs mount.
    "#]]
    .assert_eq(&refused(&output, dir.path()));
}

#[test]
fn a_store_on_a_gupfs_mount_is_refused() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let running = test_store.up();
    let other = test_store.dir().join("other");
    fs::create_dir(&other).unwrap();
    let output = gupfs([
        "up".as_ref(),
        test_store.mnt().join("store").as_os_str(),
        "--mount".as_ref(),
        other.as_os_str(),
    ]);
    expect![[r#"
        2
        gupfs up: the store 'DIR/mnt/store' would be on the gupfs mount 'DIR/mnt'.
          → give a directory of a local file system.
    "#]]
    .assert_eq(&refused(&output, &test_store.dir()));
    assert!(!test_store.mnt().join("store").exists());
    assert_eq!(running.stop(), 0);
}
