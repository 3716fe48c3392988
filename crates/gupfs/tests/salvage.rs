//! `gupfs check --salvage`, and a start with `--accept-loss`: they keep all readable records of a damaged metadata store unchanged,
//! and report the losses.
//!
//! `GUPFS_FLIPS`: bits that are flipped, instead of the few of a short run.

#![allow(clippy::disallowed_methods)] // a real process is waited for, in real time

mod running;

use running::{TIMEOUT, TestStore, UpProcess, can_mount};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

const MIB: usize = 1 << 20;

/// The permitted contents of a store: names below the mount, and every content that each file ever had.
#[derive(Default)]
struct History {
    names: BTreeSet<PathBuf>,
    bytes: BTreeSet<Vec<u8>>,
}

/// A stopped store with a past, and a copy of its metadata to go back to.
struct Store {
    test_store: TestStore,
    history: History,
    /// As it was when it was stopped.
    last: BTreeMap<PathBuf, Vec<u8>>,
}

impl Store {
    fn new() -> Store {
        let test_store = TestStore::new();
        let running = test_store.up();
        let mut history = History::default();
        // Only the metadata is restored to an earlier state: objects of new files that were removed since may still exist.
        history.bytes.insert(new_bytes());
        let at = |name: &str| test_store.mnt().join(name);
        for n in 0..6 {
            let dir = format!("d{n}");
            fs::create_dir(at(&dir)).unwrap();
            history.names.insert(dir.into());
            for m in 0..4 {
                history.write(
                    &test_store,
                    &format!("d{n}/small{m}"),
                    format!("{n} {m}").repeat(9).into(),
                );
                let byte = (n * 16 + m + 1) as u8;
                history.write(
                    &test_store,
                    &format!("d{n}/large{m}"),
                    vec![byte; 100_000 + m * 7],
                );
            }
            sync(&test_store);
        }
        let many: Vec<u8> = (0..9 * MIB)
            .map(|at| (at / 4096 + at / MIB) as u8)
            .collect();
        history.write(&test_store, "striped", many);
        // Written again, renamed, linked, removed.
        history.write(&test_store, "d0/small0", "something else".into());
        for (from, to) in [("d1/small1", "d2/moved"), ("d3/large0", "renamed")] {
            fs::rename(at(from), at(to)).unwrap();
            history.names.insert(to.into());
        }
        fs::hard_link(at("d4/small2"), at("d5/linked")).unwrap();
        history.names.insert("d5/linked".into());
        std::os::unix::fs::symlink("striped", at("link")).unwrap();
        history.names.insert("link".into());
        for gone in ["d0/large3", "d0/small3"] {
            fs::remove_file(at(gone)).unwrap();
        }
        sync(&test_store);
        assert_eq!(running.stop(), 0);
        let running = test_store.up();
        let last = read_all(&test_store.mnt());
        // The copy must not name objects of removed files that a later start removes: the copy is restored beside them. (Not before
        // the restart: the kernel may forget a removed file later.)
        running.wait_until_purged();
        assert_eq!(running.stop(), 0);
        let store = Store {
            test_store,
            history,
            last,
        };
        copy(&store.mds(), &store.original());
        store
    }

    fn mds(&self) -> PathBuf {
        self.test_store.store().join("mds")
    }

    fn original(&self) -> PathBuf {
        self.test_store.dir().join("original")
    }

    fn restore(&self) {
        fs::remove_dir_all(self.mds()).unwrap();
        copy(&self.original(), &self.mds());
    }

    /// Exit code, JSON and standard error.
    fn check(&self, more: &[&str]) -> (i32, serde_json::Value, String) {
        let store = self.test_store.store();
        let mut args = vec!["check", store.to_str().unwrap(), "--json"];
        args.extend(more);
        let output = gupfs_in_time(&args);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!printed.contains("panicked"), "{printed}");
        assert!(
            printed.len() < 16 << 10,
            "the report is too long to read: {printed}"
        );
        let json = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code().unwrap_or(-1), json, printed)
    }

    fn salvage(&self) -> (i32, serde_json::Value) {
        let (code, json, printed) = self.check(&["--salvage"]);
        assert!(code == 0 || code == 4, "{code} {printed} {json:#}");
        let (again, problems, printed) = self.check(&[]);
        assert_eq!(again, 0, "{printed} {problems:#} after {json:#}");
        (code, json)
    }

    /// Checks that all names and contents existed before, and that new files can be created. Returns them.
    fn serves_what_was(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        // Objects may have contents that are newer than the metadata.
        let running = UpProcess::start(
            &self.test_store.store(),
            &self.test_store.mnt(),
            &["--accept-loss"],
        );
        let found = read_all(&self.test_store.mnt());
        for (path, bytes) in &found {
            let in_lost_found = path.starts_with("lost+found");
            assert!(
                in_lost_found || self.history.names.contains(path),
                "{path:?} was never there"
            );
            assert!(
                bytes.is_empty() || self.history.bytes.contains(bytes),
                "{path:?} never held these {} bytes, which begin with {:?}",
                bytes.len(),
                &bytes[..bytes.len().min(16)]
            );
        }
        for n in 0..4 {
            let new = self.test_store.mnt().join(format!("new{n}"));
            let file = fs::File::create(&new).unwrap();
            file.write_all_at(&[255], 200_000).unwrap();
            drop(file);
            assert!(
                fs::read(&new).unwrap() == new_bytes(),
                "a new file has bytes of a lost one"
            );
            fs::remove_file(new).unwrap();
        }
        assert_eq!(running.stop(), 0);
        // The next restored copy knows nothing of their objects. (After a restart: the kernel may forget a removed file later.)
        let running = self.test_store.up();
        running.wait_until_purged();
        assert_eq!(running.stop(), 0);
        found
    }
}

impl History {
    fn write(&mut self, test_store: &TestStore, name: &str, bytes: Vec<u8>) {
        fs::write(test_store.mnt().join(name), &bytes).unwrap();
        self.names.insert(name.into());
        self.bytes.insert(bytes);
    }
}

/// Of each new file: a hole, and one byte.
fn new_bytes() -> Vec<u8> {
    let mut bytes = vec![0; 200_000];
    bytes.push(255);
    bytes
}

fn sync(test_store: &TestStore) {
    let root = fs::File::open(test_store.mnt()).unwrap();
    root.sync_all().unwrap();
}

/// `gupfs`, which is killed if it does not end.
fn gupfs_in_time(args: &[&str]) -> std::process::Output {
    let mut child = running::command()
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A pipe without a reader would block it.
    let stdout = read_to_end(child.stdout.take().unwrap());
    let stderr = read_to_end(child.stderr.take().unwrap());
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > TIMEOUT {
            child.kill().unwrap();
            panic!("gupfs {args:?} does not end");
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    std::process::Output {
        status,
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

fn read_to_end(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        from.read_to_end(&mut all).unwrap();
        all
    })
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp")
        .args(["-a", "--sparse=always"])
        .args([from, to])
        .status();
    assert!(done.unwrap().success());
}

/// Regular files by their paths below `top`, symbolic links with their targets. Files that cannot be read are left out: an error is not
/// wrong data.
fn read_all(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![top.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            let name = path.strip_prefix(top).unwrap().to_path_buf();
            if kind.is_dir() {
                dirs.push(path);
            } else if kind.is_symlink() {
                fs::read_link(&path).unwrap();
                found.insert(name, Vec::new());
            } else if let Ok(bytes) = fs::read(&path) {
                found.insert(name, bytes);
            }
        }
    }
    found
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files_below(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// Offsets of bytes that were written, of the first MiB.
fn written(path: &Path) -> Vec<u64> {
    let mut bytes = vec![0; MIB.min(fs::metadata(path).unwrap().len() as usize)];
    fs::File::open(path)
        .unwrap()
        .read_exact_at(&mut bytes, 0)
        .unwrap();
    (0..bytes.len() as u64)
        .filter(|at| bytes[*at as usize] != 0)
        .collect()
}

fn flip(path: &Path, at: u64, bit: u8) {
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
}

fn segments(store: &Store) -> Vec<PathBuf> {
    files_below(&store.mds().join("log"))
}

/// Flips a bit in the middle of the records in the log's first segment.
fn damage_log(store: &Store) {
    let log = &segments(store)[0];
    let offsets = written(log);
    flip(log, offsets[offsets.len() / 2], 3);
}

fn kinds(list: &serde_json::Value) -> BTreeSet<String> {
    let list = list.as_array().into_iter().flatten();
    list.map(|loss| loss["kind"].as_str().unwrap().to_string())
        .collect()
}

#[test]
fn an_undamaged_store_is_not_changed() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    let before = files_below(&store.mds());
    let (code, json) = store.salvage();
    assert_eq!(
        (code, &json["aside"]),
        (0, &serde_json::Value::Null),
        "{json:#}"
    );
    assert_eq!(kinds(&json["lost"]), BTreeSet::new());
    assert!(files_below(&store.mds()).len().abs_diff(before.len()) < 4);
    assert_eq!(store.serves_what_was(), store.last);
}

#[test]
fn the_index_is_kept_although_the_log_is_damaged() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    damage_log(&store);
    let (code, json) = store.salvage();
    assert_eq!(code, 4, "{json:#}");
    assert!(kinds(&json["lost"]).contains("LogDamaged"), "{json:#}");
    assert_eq!(store.serves_what_was(), store.last, "{json:#}");
    let aside = Path::new(json["aside"].as_str().unwrap());
    assert!(aside.join("log").is_dir() && aside.join("index").is_dir());
}

#[test]
fn the_log_is_kept_although_the_index_is_missing() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    for manifest in files_below(&store.mds().join("index/keyspaces")) {
        if manifest.file_name().unwrap() == "current" {
            flip(&manifest, 9, 1);
        }
    }
    let (_, _, printed) = store.check(&[]);
    assert!(
        printed.contains("the index is damaged") && printed.contains("--salvage"),
        "{printed}"
    );
    let (code, json) = store.salvage();
    assert_eq!(code, 4, "{json:#}");
    assert_eq!(
        kinds(&json["lost"]),
        BTreeSet::from(["IndexUnreadable".into()]),
        "{json:#}"
    );
    assert_eq!(store.serves_what_was(), store.last, "{json:#}");
}

#[test]
fn with_half_a_log_its_part_is_kept_and_other_files_are_rebuilt_from_objects() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    fs::remove_dir_all(store.mds().join("index")).unwrap();
    damage_log(&store);
    let (code, json) = store.salvage();
    assert_eq!(code, 4, "{json:#}");
    assert!(kinds(&json["lost"]).contains("BatchesLost"), "{json:#}");
    let found = store.serves_what_was();
    // All large files have objects, whatever became of their names.
    let bytes: BTreeSet<&Vec<u8>> = found.values().collect();
    let large = store.last.values().filter(|bytes| bytes.len() > 50_000);
    for file in large {
        assert!(
            bytes.contains(file),
            "a file of {} bytes is lost: {json:#}",
            file.len()
        );
    }
}

#[test]
fn with_neither_log_nor_index_files_are_rebuilt_from_their_objects() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    fs::remove_dir_all(store.mds().join("index")).unwrap();
    for segment in segments(&store) {
        let file = fs::OpenOptions::new().write(true).open(segment).unwrap();
        file.write_all_at(&vec![7; MIB], 0).unwrap();
    }
    let (code, json) = store.salvage();
    assert_eq!(code, 4, "{json:#}");
    let running = UpProcess::start(
        &store.test_store.store(),
        &store.test_store.mnt(),
        &["--accept-loss"],
    );
    let lost_found = fs::metadata(store.test_store.mnt().join("lost+found")).unwrap();
    assert_eq!((lost_found.mode() & 0o7777, lost_found.uid()), (0o700, 0));
    assert_eq!(running.stop(), 0);
    let found = store.serves_what_was();
    let right: BTreeSet<&Vec<u8>> = (store.last.values())
        .filter(|bytes| bytes.len() > 50_000)
        .collect();
    let made: BTreeSet<&Vec<u8>> = found.values().collect();
    assert_eq!(made.len(), right.len(), "{json:#}");
    assert!(made == right, "not all bytes came back");
    assert!(found.keys().all(|path| path.starts_with("lost+found")));
}

#[test]
fn accept_loss_starts_a_damaged_store_with_its_readable_part() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    // The index is behind, so that the log must be read.
    fs::remove_dir_all(store.mds().join("index")).unwrap();
    damage_log(&store);
    let printed = store.test_store.refusal(&[]);
    assert!(
        printed.contains("the log is damaged: batch") && printed.contains("--salvage"),
        "{printed}"
    );
    let running = UpProcess::start(
        &store.test_store.store(),
        &store.test_store.mnt(),
        &["--accept-loss"],
    );
    let names = read_all(&store.test_store.mnt())
        .into_keys()
        .collect::<Vec<_>>();
    assert!(!names.is_empty());
    for name in names {
        let known = name.starts_with("lost+found") || store.history.names.contains(&name);
        assert!(known, "{name:?} was never there");
    }
    fs::create_dir(store.test_store.mnt().join("after")).unwrap();
    assert_eq!(running.stop(), 0);
    // From then on it starts as usual.
    let running = store.test_store.up();
    assert!(store.test_store.mnt().join("after").is_dir());
    assert_eq!(running.stop(), 0);
}

#[test]
fn an_interrupted_salvage_is_completed_by_the_next() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    damage_log(&store);
    // An interruption between writing the swap file and the first rename, and one before, in the middle of the work.
    fs::create_dir_all(store.mds().join("salvage.new/copy")).unwrap();
    fs::create_dir(store.mds().join("salvaged-then")).unwrap();
    fs::write(store.mds().join("salvage.swap"), "salvaged-then").unwrap();
    let (code, _, printed) = store.check(&[]);
    assert!(code != 0 && printed.contains("interrupted"), "{printed}");
    store.salvage();
    assert_eq!(store.serves_what_was(), store.last);
}

/// The flipped bit: in a file of the metadata or of a target.
#[test]
fn flipped_bits_are_reported_and_salvaged() {
    if !can_mount() {
        return;
    }
    let flips: usize = std::env::var("GUPFS_FLIPS").map_or(8, |text| text.parse().unwrap());
    let store = Store::new();
    let mut files: Vec<(PathBuf, Vec<u64>)> = files_below(&store.original())
        .into_iter()
        .map(|path| (path.clone(), written(&path)))
        .filter(|(_, offsets)| !offsets.is_empty())
        .collect();
    assert!(files.len() > 8, "{files:?}");
    // The same flips in every run, and in each file before the second in any.
    let seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut chance = (0..).map(|n: u64| (n + 1).wrapping_mul(seed) >> 17);
    files.sort_by_key(|(path, _)| {
        path.to_string_lossy()
            .bytes()
            .rev()
            .map(u64::from)
            .sum::<u64>()
            % 11
    });
    for n in 0..flips {
        let (path, offsets) = &files[n % files.len()];
        let at = offsets[chance.next().unwrap() as usize % offsets.len()];
        let name = path.strip_prefix(store.original()).unwrap();
        store.restore();
        flip(&store.mds().join(name), at, (at % 8) as u8);
        // Also where the index has not all of it: then the log is read from its beginning.
        if n % 3 == 2 && !name.starts_with("index") {
            fs::remove_dir_all(store.mds().join("index")).unwrap();
        }
        eprintln!("flip {n}: {name:?} at {at}");
        let (_, json) = store.salvage();
        let found = store.serves_what_was();
        if json["lost"].as_array().unwrap().is_empty() {
            assert_eq!(
                found, store.last,
                "{name:?} at {at}: a loss that was not told"
            );
        }
    }
}

/// A damaged target is reported, and the metadata is unaffected.
#[test]
fn flipped_bits_of_a_target_are_reported() {
    if !can_mount() {
        return;
    }
    let flips: usize = std::env::var("GUPFS_FLIPS").map_or(6, |text| text.parse().unwrap());
    let store = Store::new();
    let ost = store.test_store.store().join("ost0");
    let whole = store.test_store.dir().join("whole-ost");
    copy(&ost, &whole);
    let files: Vec<(PathBuf, Vec<u64>)> = files_below(&whole)
        .into_iter()
        .filter(|path| !path.starts_with(whole.join("objects")))
        .map(|path| (path.clone(), written(&path)))
        .filter(|(_, offsets)| !offsets.is_empty())
        .collect();
    for n in 0..flips {
        let (path, offsets) = &files[n * 5 % files.len()];
        let at = offsets[n * 7_919 % offsets.len()];
        let name = path.strip_prefix(&whole).unwrap();
        fs::remove_dir_all(&ost).unwrap();
        copy(&whole, &ost);
        flip(&ost.join(name), at, (at % 8) as u8);
        let (code, json, printed) = store.check(&["--salvage"]);
        assert!(
            [0, 1, 4].contains(&code),
            "{name:?} at {at}: {code} {printed} {json:#}"
        );
        if code == 1 {
            let told = kinds(&json["problems"]);
            assert!(told.contains("TargetDown"), "{name:?} at {at}: {json:#}");
        }
        fs::remove_dir_all(&ost).unwrap();
        copy(&whole, &ost);
        store.restore();
    }
}
