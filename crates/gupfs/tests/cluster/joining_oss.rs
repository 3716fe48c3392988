//! `gupfs up --listen`: other hosts mount the store, and object servers join it.

use crate::running::{TIMEOUT, can_mount, gupfs, wait_until_unmounted};
use crate::test_cluster::{Daemon, text, word_after};
use std::fs;

#[test]
fn an_object_server_joins_a_store_of_gupfs_up_and_another_mount_sees_all_files() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let at = |name: &str| root.join(name);
    for name in ["one", "other", "disks"] {
        fs::create_dir(at(name)).unwrap();
    }
    let (store, one, other) = (text(&at("store")), text(&at("one")), text(&at("other")));
    let up = [
        "up",
        &store,
        "--mount",
        &one,
        "--osts",
        "1",
        "--listen",
        "127.0.0.1:0",
    ];
    let mut up = Daemon::try_start(&up).unwrap();
    let mds = word_after(&up.ready, "mount it from ");
    let mds = mds.trim_end_matches(';');
    let key = text(&at("store").join("cluster.key"));
    let disks = text(&at("disks"));
    let joins = ["--mds", mds, "--key", &key];
    for disk in ["disk0", "disk1"] {
        let disk = text(&at("disks").join(disk));
        let added = gupfs([&["ost", "add", &disk], &joins[..]].concat());
        assert!(added.status.success(), "{added:?}");
    }
    let oss = [&["oss", &disks, "--listen", "127.0.0.1:0"], &joins[..]].concat();
    let mut oss = Daemon::try_start(&oss).unwrap();
    let mut mount = Daemon::try_start(&["mount", mds, &other, "--key", &key]).unwrap();

    // New files use all three OSTs as soon as the free space of the new ones is known.
    let used = || {
        let objects = at("disks").join("disk0/objects");
        fs::read_dir(objects).is_ok_and(|mut entries| entries.next().is_some())
    };
    let begun = std::time::Instant::now();
    let mut made = 0_u8;
    while !used() {
        assert!(begun.elapsed() < TIMEOUT, "no object came to the new OSTs");
        fs::write(at("one").join(format!("file{made}")), vec![made; 100_000]).unwrap();
        made += 1;
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    for number in 0..made {
        let found = fs::read(at("other").join(format!("file{number}"))).unwrap();
        assert_eq!(found, vec![number; 100_000]);
    }
    fs::write(at("other").join("back"), "from the other").unwrap();
    assert_eq!(
        fs::read_to_string(at("one").join("back")).unwrap(),
        "from the other"
    );

    assert_eq!(mount.stop(), 0);
    wait_until_unmounted(&at("other"));
    assert_eq!(up.stop(), 0);
    wait_until_unmounted(&at("one"));
    assert_eq!(oss.stop(), 0);
    let checked = gupfs(["check", &store, "--ost", &disks]);
    assert!(checked.status.success(), "{checked:?}");
}
