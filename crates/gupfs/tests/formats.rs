//! Stores of previous versions (docs/formats/images) open with all their data.
//!
//! An image is an archive of a store whose process was killed, and a list of what is in it. For a new version of a format, the
//! program that writes it makes a new image; the old ones stay:
//!
//! ```sh
//! GUPFS_MAKE_IMAGE=store-2 cargo test -p gupfs --test formats
//! ```

mod running;

use expect_test::expect;
use running::{TestStore, UpProcess, can_mount, gupfs, wait_until_unmounted};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

fn images() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/images")
}

fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {printed}");
}

/// Bytes of no pattern that a compressor would find, and too few for that to matter.
fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

/// One of each kind of object that a store represents differently.
fn fill(mount: &Path) {
    let at = |name: &str| mount.join(name);
    fs::write(at("empty"), "").unwrap();
    fs::write(at("inline"), "a line in its inode\n").unwrap();
    fs::write(at("one object"), bytes(20_000, 1)).unwrap();
    // Several components: on all targets, mostly of one byte, so that the archive stays small.
    let mut striped = vec![b's'; 5 << 20];
    striped[3 << 20..][..1_000].copy_from_slice(&bytes(1_000, 2));
    fs::write(at("striped"), striped).unwrap();
    let sparse = File::create(at("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"behind a hole", 3 << 20).unwrap();
    fs::create_dir_all(at("dir/below")).unwrap();
    for number in 0..300 {
        fs::write(
            at("dir/below").join(format!("file{number}")),
            format!("{number}"),
        )
        .unwrap();
    }
    fs::hard_link(at("inline"), at("dir/hard link")).unwrap();
    symlink("../inline", at("dir/symbolic link")).unwrap();
    fs::set_permissions(at("one object"), fs::Permissions::from_mode(0o4750)).unwrap();
    std::os::unix::fs::chown(at("inline"), Some(1_000), Some(2_000)).unwrap();
    run(Command::new("mkfifo").arg(at("fifo")));
    let xattr = ["-n", "user.colour", "-v", "blue"];
    run(Command::new("setfattr").args(xattr).arg(at("inline")));
    let acl = ["-d", "-m", "u:1000:rwx"];
    run(Command::new("setfacl").args(acl).arg(at("dir")));
    let layout = ["layout", "set"];
    let dir = at("dir");
    let set = gupfs(
        layout
            .map(PathBuf::from)
            .into_iter()
            .chain([dir, "--count=2".into()]),
    );
    assert!(set.status.success(), "{set:?}");
    fs::write(at("dir/as told"), bytes(3_000, 3)).unwrap();
    fs::rename(at("empty"), at("renamed")).unwrap();
    fs::write(at("cut"), bytes(30_000, 4)).unwrap();
    let cut = OpenOptions::new().write(true).open(at("cut")).unwrap();
    cut.set_len(7_000).unwrap();
}

/// A line for each name in a mount, without values that differ between mounts.
fn listing(mount: &Path) -> String {
    let mut lines = Vec::new();
    let mut dirs = vec![mount.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            lines.push(line(mount, &path));
            if path.symlink_metadata().unwrap().is_dir() {
                dirs.push(path);
            }
        }
    }
    lines.sort();
    lines.concat()
}

fn line(mount: &Path, path: &Path) -> String {
    let found = path.symlink_metadata().unwrap();
    let mut line = path.strip_prefix(mount).unwrap().display().to_string();
    let (uid, gid, links) = (found.uid(), found.gid(), found.nlink());
    let mtime = format!("{}.{:09}", found.mtime(), found.mtime_nsec());
    let _ = write!(
        line,
        " · {:o} {uid}:{gid} {links} {mtime} ino {}",
        found.mode(),
        found.ino()
    );
    if found.is_symlink() {
        let _ = write!(line, " → {}", fs::read_link(path).unwrap().display());
    } else if found.is_file() {
        let content = fs::read(path).unwrap();
        // FNV-1a: it only has to differ.
        let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = content.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
        let _ = write!(line, " {} bytes {hash:016x}", content.len());
    }
    if !found.is_symlink() && !found.file_type().is_fifo() {
        let mut getfattr = Command::new("getfattr");
        getfattr.args(["-d", "-m", "-", "-e", "hex", "--absolute-names"]);
        let output = getfattr.arg(path).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        for attribute in printed.lines().filter(|line| line.contains('=')) {
            let _ = write!(line, " {attribute}");
        }
    }
    line + "\n"
}

/// Makes an image of a store of this version, if GUPFS_MAKE_IMAGE names one.
#[test]
fn an_image_is_made_if_a_name_is_given() {
    let Ok(name) = std::env::var("GUPFS_MAKE_IMAGE") else {
        return;
    };
    let test_store = TestStore::new();
    let running = test_store.up();
    fill(&running.mount);
    // The next start finds the complete log, not only the end of the purge.
    let list = listing(&running.mount);
    let path = running.mount.join("removed while it was open");
    let mut orphan = File::create_new(&path).unwrap();
    orphan.write_all(&bytes(10_000, 5)).unwrap();
    fs::remove_file(&path).unwrap();
    run(gupfs_command(&["sync"]).arg(&running.mount));
    running.kill();
    drop(orphan);
    wait_until_unmounted(&test_store.mnt());
    fs::remove_dir_all(test_store.store().join("run")).unwrap();
    let sparse = test_store.dir().join("sparse");
    run(Command::new("cp")
        .args(["-a", "--sparse=always"])
        .arg(test_store.store())
        .arg(&sparse));
    fs::create_dir_all(images()).unwrap();
    let archive = images().join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.env("GZIP", "-9n")
        .args(["-S", "-C"])
        .arg(&sparse)
        .arg("-czf")
        .arg(&archive);
    run(tar.arg("."));
    let size = fs::metadata(&archive).unwrap().len();
    assert!(size < 200 << 10, "{size} bytes");
    fs::write(images().join(format!("{name}.list")), list).unwrap();
}

fn gupfs_command(args: &[&str]) -> Command {
    let mut command = running::command();
    command.args(args);
    command
}

/// The names of all images.
fn all() -> Vec<String> {
    let found = fs::read_dir(images()).unwrap();
    let files = found.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = files
        .filter_map(|file| file.strip_suffix(".tar.gz").map(str::to_string))
        .collect();
    names.sort();
    names
}

fn unpack(name: &str) -> TestStore {
    let test_store = TestStore::new();
    fs::create_dir(test_store.store()).unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(test_store.store()).arg("-xzf");
    run(tar.arg(images().join(format!("{name}.tar.gz"))));
    test_store
}

#[test]
fn stores_of_all_versions_open_with_all_their_data() {
    if !can_mount() {
        return;
    }
    let names = all();
    assert!(names.iter().any(|name| name == "store-1"), "{names:?}");
    for name in names {
        let test_store = unpack(&name);
        let list = fs::read_to_string(images().join(format!("{name}.list"))).unwrap();
        let is_there = |running: &UpProcess| {
            let there = listing(&running.mount);
            assert!(
                there == list,
                "{name}: there is\n{there}\nand there was\n{list}"
            );
        };
        let new = test_store.mnt().join("new");
        let start = test_store.up();
        is_there(&start);
        fs::write(&new, bytes(100_000, 6)).unwrap();
        start.wait_until_purged();
        assert_eq!(start.stop(), 0);
        let start = test_store.up();
        assert!(fs::read(&new).unwrap() == bytes(100_000, 6));
        fs::remove_file(&new).unwrap();
        is_there(&start);
        start.wait_until_purged();
        assert_eq!(start.stop(), 0);
        // No object of the file that was open and removed is left either.
        let mut check = gupfs_command(&["check", "--data"]);
        let checked = check.arg(test_store.store()).output().unwrap();
        let printed = String::from_utf8_lossy(&checked.stdout);
        assert_eq!(checked.status.code(), Some(0), "{name}: {printed}");
    }
}

#[test]
fn a_store_of_an_unknown_version_is_refused_with_its_number() {
    if !can_mount() {
        return;
    }
    let test_store = unpack("store-1");
    let marker = test_store.store().join("gupfs.toml");
    let text = fs::read_to_string(&marker).unwrap();
    assert!(text.contains("version = 1\n"), "{text}");
    fs::write(&marker, text.replace("version = 1\n", "version = 2\n")).unwrap();
    let before = test_store.listing();
    expect![[r#"
        exit status: 1
        gupfs up: the store in 'DIR/store' has format version 2; this program reads up to version 1.
          → use the newer gupfs that wrote it.
    "#]]
    .assert_eq(&test_store.refusal(&[]));
    assert_eq!(test_store.listing(), before);
}
