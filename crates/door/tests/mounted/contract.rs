//! What Linux does with a server's answers: the facts on which coherence rests. Each test is one of them; a kernel that
//! fails one behaves otherwise than we count on.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::thread;
use std::time::Duration;

use gupfs_door::{Config, InitFlags, NodeId, NotifyError, OpenedFlags};
use rustix::fs::FlockOperation;

use crate::probe::{LONG, Probe};
use crate::rig::{Rig, config, until};

const CACHED: OpenedFlags = OpenedFlags::empty();
const DIRECT: OpenedFlags = OpenedFlags::DIRECT_IO;

fn rig(probe: Probe) -> Option<Rig<Probe>> {
    Rig::new(probe, config())
}

fn rig_with(probe: Probe, flags: InitFlags, without: InitFlags) -> Option<Rig<Probe>> {
    let mut config: Config = config();
    config.want |= flags;
    config.want -= without;
    Rig::new(probe, config)
}

fn size(rig: &Rig<Probe>, name: &str) -> u64 {
    fs::metadata(rig.path(name)).unwrap().len()
}

fn first_byte(file: &File) -> u8 {
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).unwrap();
    byte[0]
}

/// Of what was asked, what begins so.
fn count(asked: &[String], kind: &str) -> usize {
    asked.iter().filter(|what| what.starts_with(kind)).count()
}

/// Rule 2: what a LINK answers overwrites, however old it is; so it must not be believed.
#[test]
fn the_answer_to_a_link_brings_old_attributes_back() {
    for (believed, after) in [(LONG, 10_000), (Duration::ZERO, 20_000)] {
        let Some(rig) = rig(Probe::new().file(9, "file", CACHED)) else {
            return;
        };
        assert_eq!(size(&rig, "file"), 10_000);
        rig.fs.believed_for(9, believed);
        let gate = rig.fs.hold("link");
        thread::scope(|scope| {
            let link = scope.spawn(|| fs::hard_link(rig.path("file"), rig.path("other")));
            until("the link is asked for", || gate.waiting() == 1);
            rig.fs.change(9, 20_000, b'b');
            rig.session
                .notifier()
                .inval_inode(NodeId(9), -1, 0)
                .unwrap();
            assert_eq!(size(&rig, "file"), 20_000);
            gate.let_go(1);
            link.join().unwrap().unwrap();
        });
        assert_eq!(size(&rig, "file"), after, "believed for {believed:?}");
    }
}

/// Rule 4: the kernel does not know a node whose LOOKUP is not answered, and believes the answer afterwards.
#[test]
fn an_invalidation_that_passes_a_lookup_is_lost() {
    let Some(rig) = rig(Probe::new().file(9, "file", CACHED)) else {
        return;
    };
    let gate = rig.fs.hold("lookup");
    thread::scope(|scope| {
        let stat = scope.spawn(|| size(&rig, "file"));
        until("it is looked up", || gate.waiting() == 1);
        rig.fs.change(9, 20_000, b'b');
        let told = rig.session.notifier().inval_inode(NodeId(9), -1, 0);
        assert_eq!(told, Err(NotifyError::Unknown));
        gate.let_go(1);
        assert_eq!(stat.join().unwrap(), 10_000);
    });
    assert_eq!(size(&rig, "file"), 10_000, "old, and believed");
}

/// Rule 5: INVAL_ENTRY waits for the directory's lock that an unanswered create holds; INC_EPOCH and INVAL_INODE do not.
#[test]
fn a_new_epoch_waits_for_nobody_and_makes_names_old() {
    let Some(rig) = rig(Probe::new().file(9, "file", CACHED)) else {
        return;
    };
    size(&rig, "file");
    let notifier = rig.session.notifier();
    let gate = rig.fs.hold("create");
    thread::scope(|scope| {
        let create = scope.spawn(|| File::create(rig.path("new")));
        until("the create is asked for", || gate.waiting() == 1);
        let entry = scope.spawn(|| notifier.inval_entry(NodeId::ROOT, b"file"));
        notifier.inc_epoch().unwrap();
        notifier.inval_inode(NodeId::ROOT, -1, 0).unwrap();
        thread::sleep(Duration::from_millis(100));
        assert!(!entry.is_finished());
        gate.let_go(1);
        create.join().unwrap().unwrap();
        entry.join().unwrap().unwrap();
    });
    rig.fs.asked();
    size(&rig, "file");
    assert_eq!(count(&rig.fs.asked(), "lookup file"), 1);
}

/// Rule 5: names that a READDIRPLUS brings after the new epoch are of it, though they were read before.
#[test]
fn a_listing_under_way_survives_a_new_epoch() {
    let (probe, auto) = (
        Probe::new().file(9, "file", CACHED),
        InitFlags::READDIRPLUS_AUTO,
    );
    let Some(rig) = rig_with(probe, InitFlags::empty(), auto) else {
        return;
    };
    let gate = rig.fs.hold("readdirplus");
    thread::scope(|scope| {
        let list = scope.spawn(|| fs::read_dir(rig.root()).unwrap().count());
        until("the directory is asked for", || gate.waiting() == 1);
        rig.session.notifier().inc_epoch().unwrap();
        gate.let_go(10);
        let found = list.join().unwrap();
        assert_eq!(found, 1, "{:?}", rig.fs.asked());
    });
    rig.fs.asked();
    size(&rig, "file");
    assert_eq!(count(&rig.fs.asked(), "lookup"), 0, "believed");
    rig.session.notifier().inc_epoch().unwrap();
    size(&rig, "file");
    assert_eq!(count(&rig.fs.asked(), "lookup"), 1);
}

/// Rule 8: who asks for pages says no owner, who reads past them says one; splice fills pages whatever the file is.
#[test]
fn only_a_read_past_the_page_cache_names_its_owner() {
    let probe = Probe::new().file(8, "cached", CACHED);
    let Some(rig) = rig(probe.file(9, "direct", DIRECT)) else {
        return;
    };
    let [cached, direct] = ["cached", "direct"].map(|name| File::open(rig.path(name)).unwrap());
    rig.fs.asked();
    first_byte(&cached);
    first_byte(&direct);
    let asked = rig.fs.asked();
    assert!(
        asked.contains(&"read 9 at 0 with owner".into()),
        "{asked:?}"
    );
    assert!(asked.contains(&"read 8 at 0".into()), "{asked:?}");
    let (_out, into) = rustix::pipe::pipe().unwrap();
    let flags = rustix::pipe::SpliceFlags::empty();
    let moved = rustix::pipe::splice(direct.as_fd(), Some(&mut 4096), into, None, 100, flags);
    assert_eq!(moved.unwrap(), 100);
    let asked = rig.fs.asked();
    println!("splice on a direct descriptor: {asked:?}");
    assert!(count(&asked, "read 9") >= 1, "{asked:?}");
}

/// Appending writes come with the size that the kernel believes, not with that of the file.
#[test]
fn the_offset_of_an_append_may_be_old() {
    let Some(rig) = rig(Probe::new().file(9, "file", DIRECT)) else {
        return;
    };
    let mut file = OpenOptions::new()
        .append(true)
        .open(rig.path("file"))
        .unwrap();
    rig.fs.change(9, 20_000, b'b');
    rig.fs.asked();
    file.write_all(b"x").unwrap();
    let asked = rig.fs.asked();
    assert!(asked.contains(&"write 9 at 10000".into()), "{asked:?}");
}

/// Writes past the page cache go in parallel within a file's size, and one after the other where they extend it.
#[test]
fn writes_that_extend_a_file_go_one_by_one() {
    let flags = DIRECT | OpenedFlags::PARALLEL_DIRECT_WRITES;
    let Some(rig) = rig(Probe::new().file(9, "file", flags)) else {
        return;
    };
    for (offset, together) in [(0, 2), (50_000, 1)] {
        let gate = rig.fs.hold("write");
        thread::scope(|scope| {
            for part in 0..2 {
                let path = rig.path("file");
                scope.spawn(move || {
                    let file = OpenOptions::new().write(true).open(path).unwrap();
                    file.write_all_at(b"xxxx", offset + part * 4096).unwrap();
                });
            }
            until("they are asked for", || gate.waiting() == together);
            if together == 1 {
                thread::sleep(Duration::from_millis(100));
                assert_eq!(gate.waiting(), 1, "the second waits in the kernel");
            }
            gate.let_go(2);
        });
    }
}

/// Rule 1: with AUTO_INVAL_DATA new attributes drop old pages, by size or by time.
#[test]
fn new_attributes_drop_the_pages_of_a_cached_file() {
    let Some(rig) = rig(Probe::new().file(9, "file", CACHED)) else {
        return;
    };
    rig.fs.believed_for(9, Duration::ZERO);
    let file = File::open(rig.path("file")).unwrap();
    assert_eq!(first_byte(&file), b'a');
    rig.fs.asked();
    assert_eq!(first_byte(&file), b'a');
    assert_eq!(count(&rig.fs.asked(), "read"), 0, "from the page cache");
    rig.fs.change(9, 10_000, b'b');
    assert_eq!(first_byte(&file), b'b');
    rig.fs.change(9, 12_000, b'c');
    assert_eq!((first_byte(&file), size(&rig, "file")), (b'c', 12_000));
}

/// Rule 1, why not WRITEBACK_CACHE: with it the kernel is the authority on size and time; what others did stays unseen.
#[test]
fn with_a_write_back_cache_growth_elsewhere_is_never_seen() {
    let probe = Probe::new().file(9, "file", CACHED);
    let Some(rig) = rig_with(probe, InitFlags::WRITEBACK_CACHE, InitFlags::empty()) else {
        return;
    };
    rig.fs.believed_for(9, Duration::ZERO);
    let _open = File::open(rig.path("file")).unwrap();
    assert_eq!(size(&rig, "file"), 10_000);
    rig.fs.change(9, 20_000, b'b');
    rig.session.notifier().inval_inode(NodeId(9), 0, 0).unwrap();
    assert_eq!(size(&rig, "file"), 10_000, "asked, and not believed");
    assert!(count(&rig.fs.asked(), "getattr") > 0);
}

/// Rule 1, why not EXPLICIT_INVAL_DATA: with it pages are served after their lifetime, even if nobody is there any more.
#[test]
fn pages_of_a_dead_server_are_served_only_if_invalidation_is_explicit() {
    let auto = InitFlags::AUTO_INVAL_DATA;
    let explicit = InitFlags::EXPLICIT_INVAL_DATA;
    for (with, without, served) in [(auto, explicit, false), (explicit, auto, true)] {
        let Some(rig) = rig_with(Probe::new().file(9, "file", CACHED), with, without) else {
            return;
        };
        rig.fs.believed_for(9, Duration::from_millis(100));
        let file = File::open(rig.path("file")).unwrap();
        assert_eq!(first_byte(&file), b'a');
        rig.session.abort().unwrap();
        thread::sleep(Duration::from_millis(200));
        let read = file.read_exact_at(&mut [0], 0);
        assert_eq!(read.is_ok(), served, "{with:?}: {read:?}");
    }
}

/// A store into a page that is mapped asks nobody.
#[test]
fn a_store_into_a_mapped_page_asks_nobody() {
    let Some(rig) = rig(Probe::new().file(9, "file", CACHED)) else {
        return;
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(rig.path("file"))
        .unwrap();
    let mut map = crate::map::Map::shared(&file, 4096);
    map.bytes_mut()[0] = b'x';
    rig.fs.asked();
    map.bytes_mut()[1..100].fill(b'y');
    let asked = rig.fs.asked();
    assert_eq!(
        count(&asked, "read") + count(&asked, "getattr"),
        0,
        "{asked:?}"
    );
}

/// A flock that is not unlocked is seen only when its file is released.
#[test]
fn a_flock_goes_with_the_release_of_its_file() {
    let Some(rig) = rig(Probe::new().file(9, "file", CACHED)) else {
        return;
    };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_CLOEXEC)
        .open(rig.path("file"))
        .unwrap();
    rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
    rig.fs.asked();
    drop(file);
    let mut asked = Vec::new();
    for _ in 0..200 {
        asked.extend(rig.fs.asked());
        if count(&asked, "release") == 1 {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(count(&asked, "setlk"), 0, "{asked:?}");
    assert!(
        asked.iter().any(|what| what.contains("FLOCK_UNLOCK")),
        "{asked:?}"
    );
}

/// Rule 5: a new epoch takes away what is mounted on our tree.
#[test]
fn a_new_epoch_unmounts_what_is_mounted_on_the_tree() {
    let Some(rig) = rig(Probe::new().with(9, "dir", 0o040777, CACHED)) else {
        return;
    };
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: not root");
        return;
    }
    let dir = rig.path("dir");
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("none", &dir, "tmpfs", flags, None).unwrap();
    let is_mounted = || gupfs_door::mountinfo::at(&dir).unwrap().is_some();
    assert!(is_mounted());
    rig.session.notifier().inc_epoch().unwrap();
    fs::metadata(&dir).unwrap();
    let stayed = is_mounted();
    if stayed {
        rustix::mount::unmount(&dir, rustix::mount::UnmountFlags::DETACH).unwrap();
    }
    assert!(!stayed);
}
