//! `gupfs check` finds each kind of planted damage, and repairs those whose repair loses nothing.

mod plant;
#[path = "../running/mod.rs"]
mod running;

use gupfs_namespace::{
    DentryPosition, EntryRecord, InodeBody, ParsedKey, RecordKey, RecordKind, Usage, XattrRecord,
};
use gupfs_proto::data::{BlockChecksums, ObjectExistence, ObjectOwner};
use gupfs_proto::{InodeId, ObjectOffset, Presence};
use gupfs_store::object::WriteRequest;
use plant::{data_file, in_objects, in_records};
use running::{TestStore, UpProcess, can_mount, gupfs};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Bytes of the file that has an object.
const LARGE: usize = 3 << 20;

/// A stopped store with a bit of everything.
struct Store {
    test_store: TestStore,
    dir: InodeId,
    small: InodeId,
    large: InodeId,
}

impl Store {
    fn new() -> Store {
        let test_store = TestStore::new();
        let running = test_store.up();
        let at = |name: &str| test_store.mnt().join(name);
        fs::create_dir(at("dir")).unwrap();
        fs::create_dir(at("dir/sub")).unwrap();
        fs::write(at("dir/small"), "few bytes").unwrap();
        fs::hard_link(at("dir/small"), at("second-name")).unwrap();
        fs::write(at("large"), vec![5; LARGE]).unwrap();
        fs::write(at("untouched"), vec![6; 100_000]).unwrap();
        std::os::unix::fs::symlink("large", at("link")).unwrap();
        let value = rustix::fs::setxattr(
            at("large"),
            "user.colour",
            b"blue",
            rustix::fs::XattrFlags::empty(),
        );
        value.unwrap();
        let ino = |name: &str| InodeId(fs::symlink_metadata(at(name)).unwrap().ino());
        let (dir, small, large) = (ino("dir"), ino("dir/small"), ino("large"));
        assert_eq!(running.stop(), 0);
        Store {
            test_store,
            dir,
            small,
            large,
        }
    }

    fn check(&self, more: &[&str]) -> (i32, serde_json::Value) {
        let store = self.test_store.store();
        let mut args = vec!["check", store.to_str().unwrap(), "--json"];
        args.extend(more);
        let output = gupfs(args);
        let json = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code().unwrap(), json)
    }

    /// The findings of a check, by kind.
    fn finds(&self, kinds: &[&str]) {
        self.finds_with(&[], kinds);
    }

    fn finds_with(&self, more: &[&str], kinds: &[&str]) {
        let (code, json) = self.check(more);
        let found = kinds_of(&json["problems"]);
        assert!(found == kinds && code == 1, "{code} {json:#}");
    }

    /// Checks that all findings are repaired, and that the store is clean then, serves, and has all its other files.
    fn repairs_all(&self) {
        let (code, json) = self.check(&["--repair"]);
        assert_eq!(code, 4, "{json:#}");
        assert_ne!(kinds_of(&json["repaired"]), Vec::<String>::new());
        let (code, json) = self.check(&[]);
        assert_eq!(code, 0, "{json:#}");
        self.serves();
    }

    /// Checks that a repair leaves these, because repairing them would lose data or is impossible.
    fn cannot_repair(&self, kinds: &[&str]) {
        let (code, json) = self.check(&["--repair"]);
        assert!(
            kinds_of(&json["problems"]) == kinds && code == 1,
            "{code} {json:#}"
        );
        self.serves();
    }

    fn serves(&self) {
        let running = self.test_store.up();
        let untouched = fs::read(self.test_store.mnt().join("untouched")).unwrap();
        assert!(untouched == vec![6; 100_000]);
        assert_eq!(running.stop(), 0);
    }
}

fn kinds_of(list: &serde_json::Value) -> Vec<String> {
    let list = list.as_array().unwrap().iter();
    let mut kinds: Vec<String> = list
        .map(|fault| fault["kind"].as_str().unwrap().to_string())
        .collect();
    kinds.sort();
    kinds
}

#[test]
fn an_undamaged_store_has_no_problems() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    let (code, json) = store.check(&["--data"]);
    assert_eq!(code, 0, "{json:#}");
    assert_eq!(json["seen"]["entries"], 7);
    assert_eq!(json["seen"]["directories"], 3);
    assert_eq!(json["seen"]["objects"], 2);
    assert!(json["seen"]["bytes"].as_u64().unwrap() >= LARGE as u64);
}

#[test]
fn an_object_without_inode_is_found_and_removed() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    let (_, mut object, _) = data_file(&store.test_store, store.large);
    object.ino = InodeId(0x7_7777);
    in_objects(&store.test_store, 1, async |objects| {
        let write = WriteRequest {
            object,
            at: ObjectOffset(0),
            data: b"nobody's",
            sums: &BlockChecksums::default(),
            existing: ObjectExistence::MayExist,
            owner: ObjectOwner::default(),
        };
        objects.write(write).await.unwrap();
    });
    store.finds(&["ObjectWithoutInode"]);
    store.repairs_all();
}

#[test]
fn an_object_that_its_inode_has_lost_is_found_and_cannot_be_repaired() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    let (_, _, path) = data_file(&store.test_store, store.large);
    fs::remove_file(path).unwrap();
    store.finds(&["ObjectLost"]);
    store.cannot_repair(&["ObjectLost"]);
}

#[test]
fn an_object_on_a_wrong_ost_is_found() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    let (ost, object, path) = data_file(&store.test_store, store.large);
    let bytes = fs::read(&path).unwrap();
    in_objects(&store.test_store, ost, async |objects| {
        objects.remove(object).await.unwrap();
    });
    in_objects(&store.test_store, 1 - ost, async |objects| {
        let write = WriteRequest {
            object,
            at: ObjectOffset(0),
            data: &bytes,
            sums: &BlockChecksums::default(),
            existing: ObjectExistence::MayExist,
            owner: ObjectOwner::default(),
        };
        objects.write(write).await.unwrap();
    });
    store.finds(&["ObjectLost", "ObjectOnWrongOst"]);
}

#[test]
fn an_object_that_its_inode_lists_as_never_created_is_found() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    in_records(&store.test_store, |records| {
        records.change_inode(store.large, |inode| {
            let InodeBody::File(file) = &mut inode.body else {
                panic!("a file is a file");
            };
            file.layout.components[0].presence.set(0, Presence::Never);
        });
    });
    store.finds(&["ObjectUnannounced"]);
    store.cannot_repair(&["ObjectUnannounced"]);
}

#[test]
fn bytes_that_do_not_match_their_checksum_are_found_with_data() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    let (_, _, path) = data_file(&store.test_store, store.large);
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(b"rot", 1_500_000).unwrap();
    drop(file);
    let (code, json) = store.check(&[]);
    assert_eq!(code, 0, "names and objects are as they were: {json:#}");
    store.finds_with(&["--data"], &["ObjectDamaged"]);
}

#[test]
fn an_entry_without_inode_is_found_and_removed() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    in_records(&store.test_store, |records| {
        records.remove(&RecordKey::inode(store.large));
    });
    // Its attribute and its object belong to nothing, and its shard counts one inode too many.
    store.finds(&[
        "Dangling",
        "EntryWithoutInode",
        "ObjectWithoutInode",
        "WrongUsage",
    ]);
    store.repairs_all();
}

#[test]
fn an_inode_without_entry_is_found_and_named_in_the_root() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    in_records(&store.test_store, |records| {
        records.remove(&records.entry("large"))
    });
    store.finds(&["InodeWithoutEntry", "WrongEntries"]);
    store.repairs_all();
    let running = store.test_store.up();
    let found = fs::read_dir(store.test_store.mnt()).unwrap().any(|entry| {
        let entry = entry.unwrap();
        entry.ino() == store.large.0 && fs::read(entry.path()).unwrap() == vec![5; LARGE]
    });
    assert!(found, "the file has no name in the root");
    assert_eq!(running.stop(), 0);
}

/// std's DirEntry tells the inode through a trait.
trait Ino {
    fn ino(&self) -> u64;
}

impl Ino for fs::DirEntry {
    fn ino(&self) -> u64 {
        std::os::unix::fs::DirEntryExt::ino(self)
    }
}

#[test]
fn wrong_counts_are_found_and_repaired() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    in_records(&store.test_store, |records| {
        records.change_inode(store.small, |inode| inode.names = 5);
        records.change_inode(store.large, |inode| inode.xattrs = 3);
        records.change_inode(store.dir, |inode| {
            if let InodeBody::Directory(dir) = &mut inode.body {
                dir.entries = 40;
            }
        });
        let usage = records.keys(RecordKind::Usage).remove(0);
        let wrong = Usage {
            inodes: 1_000,
            purging: 0,
        };
        records.put(&usage, &wrong);
    });
    store.finds(&["WrongEntries", "WrongNames", "WrongUsage", "WrongXattrs"]);
    store.repairs_all();
}

#[test]
fn unreadable_records_are_found_and_not_changed() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    in_records(&store.test_store, |records| {
        records.put_raw(&RecordKey::inode(store.small), b"\x01garbage");
        records.put_raw(&RecordKey::inode(store.large), b"\x09of a newer version");
    });
    let (code, json) = store.check(&[]);
    assert_eq!(code, 1);
    let kinds = kinds_of(&json["problems"]);
    assert_eq!(
        kinds.iter().filter(|kind| *kind == "Undecodable").count(),
        2,
        "{json:#}"
    );
    // Objects of an unreadable inode do not count as leftovers.
    assert!(
        !kinds
            .iter()
            .any(|kind| kind.starts_with("Object") || kind == "Dangling"),
        "{json:#}"
    );
}

#[test]
fn unreadable_records_are_salvaged() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    in_records(&store.test_store, |records| {
        for ino in [store.small, store.large, store.dir] {
            records.put_raw(&RecordKey::inode(ino), b"\x09of a newer version");
        }
        records.put_raw(&RecordKey::from_bytes(b"\0\0?"), b"of no kind");
    });
    let (code, json) = store.check(&["--salvage"]);
    assert_eq!(code, 4, "{json:#}");
    let lost = kinds_of(&json["lost"]);
    let expected = [&["NameLost"; 2][..], &["RecordLost"; 4][..]].concat();
    assert_eq!(lost, expected, "{json:#}");
    let found = kinds_of(&json["found"]);
    assert_eq!(found, ["DirectoryMade", "MadeFromObjects"], "{json:#}");
    let paths = json["lost"].as_array().unwrap().iter();
    let paths: Vec<&str> = paths.filter_map(|loss| loss["path"].as_str()).collect();
    assert!(paths.contains(&"/second-name"), "{json:#}");
    let (code, json) = store.check(&[]);
    assert_eq!(code, 0, "{json:#}");
    let running = UpProcess::start(
        &store.test_store.store(),
        &store.test_store.mnt(),
        &["--accept-loss"],
    );
    let at = |name: &str| store.test_store.mnt().join(name);
    assert!(fs::read(at("large")).unwrap() == vec![5; LARGE]);
    assert!(at("dir/sub").is_dir() && !at("dir/small").exists());
    let mut value = [0; 8];
    let len = rustix::fs::getxattr(at("large"), "user.colour", &mut value).unwrap();
    assert_eq!(
        &value[..len],
        b"blue",
        "its attribute has a record of its own"
    );
    assert_eq!(running.stop(), 0);
}

#[test]
fn a_directory_inside_itself_is_salvaged() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    in_records(&store.test_store, |records| {
        let key = records.entry("dir");
        let entry: EntryRecord = records.get(&key);
        let sub: EntryRecord = records.get(&records.entry("sub"));
        let Some(ParsedKey::Entry { hash, name, .. }) = key.parse() else {
            panic!("an entry is an entry");
        };
        records.remove(&key);
        records.put(&RecordKey::entry(sub.ino, hash, &name), &entry);
        let parent = Some(DentryPosition { dir: sub.ino, hash });
        records.change_inode(store.dir, |inode| inode.parent = parent);
        // And links that are not its names.
        records.change_inode(store.small, |inode| inode.parent = None);
    });
    let (code, json) = store.check(&[]);
    assert_eq!(code, 1, "{json:#}");
    let (code, json) = store.check(&["--salvage"]);
    assert_eq!(code, 4, "{json:#}");
    assert_eq!(kinds_of(&json["found"]), ["NamedInLostFound"], "{json:#}");
    let (code, json) = store.check(&[]);
    assert_eq!(code, 0, "{json:#}");
    let running = UpProcess::start(
        &store.test_store.store(),
        &store.test_store.mnt(),
        &["--accept-loss"],
    );
    // The one with the lower number has lost its name; the other is in it. Which that is depends on the random shards.
    let named = fs::read_dir(store.test_store.mnt().join("lost+found")).unwrap();
    let named: Vec<_> = named.map(|entry| entry.unwrap().path()).collect();
    let [only] = &named[..] else {
        panic!("{named:?}");
    };
    let dir = match only.ends_with(format!("{:x}", store.dir.0)) {
        true => only.clone(),
        false => only.join("dir"),
    };
    assert_eq!(fs::metadata(&dir).unwrap().ino(), store.dir.0);
    assert!(dir.join("sub").is_dir() || *only != dir);
    assert_eq!(fs::read(dir.join("small")).unwrap(), b"few bytes");
    assert_eq!(running.stop(), 0);
}

#[test]
fn leftovers_are_found_and_removed() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    in_records(&store.test_store, |records| {
        let nobody = InodeId(0x9_9999);
        records.put(
            &RecordKey::xattr(nobody, b"user.x"),
            &XattrRecord("y".into()),
        );
        let back_link = records.keys(RecordKind::BackLink).remove(0);
        assert!(matches!(
            back_link.parse(),
            Some(ParsedKey::BackLink { .. })
        ));
        records.change_inode(store.small, |inode| inode.names = 2);
    });
    store.finds(&["Dangling"]);
    store.repairs_all();
}

#[test]
fn a_log_damaged_in_the_middle_is_reported_and_not_served() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    // Records of the log that the index does not have: the process is killed before it persists.
    let running = store.test_store.up();
    // Each sync ends a batch: damage in the last one of a log looks like a torn write.
    for third in [0..50, 50..150, 150..200] {
        for n in third {
            fs::write(store.test_store.mnt().join(format!("f{n}")), "x").unwrap();
        }
        fs::File::open(store.test_store.mnt())
            .unwrap()
            .sync_all()
            .unwrap();
    }
    running.kill();
    let log = store.test_store.store().join("mds/log");
    let mut damaged = 0;
    for segment in fs::read_dir(&log).unwrap() {
        let path = segment.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        // A name that stands in a batch in the middle.
        if let Some(at) = bytes.windows(4).position(|window| window == b"f100") {
            let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all_at(b"f999", at as u64).unwrap();
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1, "the batch is not in the log");
    let output = gupfs(["check".as_ref(), store.test_store.store().as_os_str()]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("the log is damaged: batch"), "{printed}");
    let printed = store.test_store.refusal(&[]);
    assert!(printed.contains("the log is damaged: batch"), "{printed}");
}

#[test]
fn a_target_that_cannot_be_opened_is_reported() {
    if !can_mount() {
        return;
    }
    let store = Store::new();
    fs::rename(
        store.test_store.store().join("ost1"),
        store.test_store.dir().join("elsewhere"),
    )
    .unwrap();
    store.finds(&["TargetDown"]);
}

#[test]
fn a_store_in_use_is_not_checked() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let running = test_store.up();
    let output = gupfs(["check".as_ref(), test_store.store().as_os_str()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is in use by process"));
    assert_eq!(running.stop(), 0);
}
