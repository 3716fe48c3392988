//! A mount is killed while it works, again and again: what it must keep is kept, the others wait for it no longer than its term, and it can
//! be mounted again at the same place.

use crate::load::Ends;
use crate::random::Random;
use crate::running::{can_mount, is_mounted};
use crate::test_cluster::TestCluster;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Each may take 23 s, until the session has ended.
fn kills() -> usize {
    let set = std::env::var("GUPFS_CLUSTER_MOUNT_KILLS");
    set.map_or(1, |set| set.parse().unwrap())
}

/// A call of another mount waits at most 22.2 s for the end of the session; a busy host adds to that.
const TERM_MOST: Duration = Duration::from_secs(45);

/// Until a killed mount is gone and its programs have ended: the mount watchdog aborts its connection.
const GONE_MOST: Duration = Duration::from_secs(20);

/// Kills the first mount, whose mount point becomes free by itself.
fn kill_first(cluster: &mut TestCluster) {
    let mount = &mut cluster.mounts[0];
    mount.daemon.kill();
    let begun = Instant::now();
    while is_mounted(&mount.at) {
        assert!(begun.elapsed() < GONE_MOST, "it is still mounted");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Looks at all files of a directory in every way that the kernel caches, until the mount has gone.
const LOOK: &str = r"
import errno, mmap, os, sys
os.chdir(sys.argv[1])
keep = {}
while True:
    try:
        os.getcwd()
        for name in os.listdir('.'):
            try:
                with open(name, 'rb') as file:
                    size = os.fstat(file.fileno()).st_size
                    file.read()
                    to = os.memfd_create('sent')
                    os.sendfile(to, file.fileno(), 0, size)
                    os.close(to)
                    keep[name] = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
                    keep[name][:1]
            # Removed, or still empty.
            except (FileNotFoundError, ValueError):
                pass
    except OSError as error:
        if error.errno in (errno.ENOTCONN, errno.ECONNABORTED):
            sys.exit(0)
        if error.errno != errno.ESTALE:
            raise
";

fn look(dir: &Path) -> Child {
    let mut python = Command::new("python3");
    python.args(["-c", LOOK]).arg(dir);
    // A load from a mapping of a mount that has gone raises SIGBUS.
    python.stderr(Stdio::null()).spawn().unwrap()
}

/// The program ends after its mount has gone: it is not left in a call that nothing answers.
fn ends_soon(mut child: Child) {
    let begun = Instant::now();
    let _ = child.kill();
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < GONE_MOST, "a program does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

const FILES: usize = 20;

/// Without a moment at which it is empty: a load from a mapping would raise SIGBUS.
fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

/// Changes a file after the other; returns the longest time that a change took.
fn change_all(dir: &Path, is_over: &AtomicBool) -> Duration {
    let mut longest = Duration::ZERO;
    for round in 0usize.. {
        if is_over.load(Relaxed) {
            break;
        }
        let path = dir.join(format!("f{}", round % FILES));
        let moved = dir.join("moved");
        let begun = Instant::now();
        match round % 4 {
            0 => fs::set_permissions(&path, Permissions::from_mode(0o600 | (round as u32 % 64))),
            1 => overwrite(&path, &format!("{round}").repeat(1 + round % 9_000)),
            2 => fs::rename(&path, &moved).and_then(|()| fs::rename(&moved, &path)),
            _ => fs::remove_file(&path).and_then(|()| fs::write(&path, "made again")),
        }
        .unwrap_or_else(|error| panic!("change {round}: {error}"));
        longest = longest.max(begun.elapsed());
    }
    longest
}

const RECORD: usize = 1_000;

/// Never zeros.
fn content(number: usize) -> [u8; RECORD] {
    std::array::from_fn(|at| (1 + (number * 31 + at / 100) % 255) as u8)
}

fn contents(records: usize) -> Vec<u8> {
    (0..records).flat_map(content).collect()
}

/// What programs of the mount that is killed know of their files: records that were written and synced, and that another mount has read;
/// the version that last replaced another.
#[derive(Default)]
struct Known {
    written: AtomicUsize,
    synced: AtomicUsize,
    read: AtomicUsize,
    replaced: AtomicUsize,
}

/// The calls fail when the mount has gone.
fn write_records(
    path: &Path,
    written: &AtomicUsize,
    synced: Option<&AtomicUsize>,
) -> io::Result<()> {
    let file = File::create(path)?;
    for number in 0.. {
        file.write_all_at(&content(number), (number * RECORD) as u64)?;
        written.store(number + 1, SeqCst);
        if let Some(synced) = synced
            && number % 37 == 0
        {
            file.sync_all()?;
            synced.store(number + 1, SeqCst);
        }
    }
    Ok(())
}

/// Version n has 1 + n % 150 records, so that some are inline data.
fn replace(dir: &Path, replaced: &AtomicUsize) -> io::Result<()> {
    let (new, path) = (dir.join("new"), dir.join("replaced"));
    for version in 0.. {
        let mut file = File::create(&new)?;
        for _ in 0..=version % 150 {
            file.write_all(&content(version))?;
        }
        drop(file);
        fs::rename(&new, &path)?;
        replaced.store(version + 1, SeqCst);
    }
    Ok(())
}

/// Reads the last record on another mount.
fn read_last(path: &Path, read: &AtomicUsize) {
    let Ok(file) = File::open(path) else {
        return;
    };
    let records = file.metadata().unwrap().len() as usize / RECORD;
    let Some(last) = records.checked_sub(1) else {
        return;
    };
    let mut bytes = [0; RECORD];
    file.read_exact_at(&mut bytes, (last * RECORD) as u64)
        .unwrap();
    assert!(bytes == content(last), "record {last}");
    read.store(records, SeqCst);
}

/// Checks that the file has so many records, and of later ones only parts.
fn check_records(path: &Path, least: usize) -> usize {
    let found = fs::read(path).unwrap();
    let expected = contents(found.len().div_ceil(RECORD));
    let whole = found
        .iter()
        .zip(&expected)
        .take_while(|(found, it)| found == it);
    let records = whole.count() / RECORD;
    assert!(records >= least, "{records} records of {least}");
    let mut later = found.iter().zip(&expected).skip(records * RECORD);
    assert!(
        later.all(|(found, it)| [0, *it].contains(found)),
        "other bytes"
    );
    records
}

/// Programs of the mount write, look and replace until it is killed. What they must find again is in the file of each.
fn work_until_killed(cluster: &mut TestCluster, dir: &str, random: &mut Random) {
    let [at_a, at_b] = [0, 1].map(|number: usize| cluster.mounts[number].at.join(dir));
    fs::create_dir(&at_a).unwrap();
    let (known, of_shown) = (Known::default(), AtomicUsize::new(0));
    let is_over = AtomicBool::new(false);
    let looking = [0; 2].map(|_| look(&cluster.mounts[0].at.join("looked at")));
    std::thread::scope(|scope| {
        let ending = Ends(&is_over);
        let works = [
            scope.spawn(|| {
                let synced = Some(&known.synced);
                write_records(&at_a.join("synced"), &known.written, synced)
            }),
            scope.spawn(|| write_records(&at_a.join("shown"), &of_shown, None)),
            scope.spawn(|| replace(&at_a, &known.replaced)),
        ];
        let reading = scope.spawn(|| {
            while !is_over.load(Relaxed) {
                read_last(&at_b.join("shown"), &known.read);
            }
        });
        random.pause(500..3_000);
        kill_first(cluster);
        for work in works {
            work.join().unwrap().unwrap_err();
        }
        looking.into_iter().for_each(ends_soon);
        // At once: its former session may still live.
        cluster.mounts[0].daemon.start_again();
        drop(ending);
        reading.join().unwrap();
    });
    let [synced, read, replaced, written] =
        [&known.synced, &known.read, &known.replaced, &of_shown].map(|it| it.load(SeqCst));
    let kept = [
        check_records(&at_b.join("synced"), synced),
        check_records(&at_b.join("shown"), read),
    ];
    // The last version may have been answered to no program.
    let bytes = fs::read(at_b.join("replaced")).unwrap();
    let is_version = |version: usize| bytes == content(version).repeat(1 + version % 150);
    let versions = [replaced.wrapping_sub(1), replaced];
    assert!(
        versions.into_iter().any(is_version),
        "the file is no version since {replaced}"
    );
    eprintln!(
        "records: {synced} synced, kept {}; {read} read and {written} written, kept {}; {replaced} replacements",
        kept[0], kept[1]
    );
    for name in ["synced", "shown", "replaced"] {
        assert!(fs::read(at_a.join(name)).unwrap() == fs::read(at_b.join(name)).unwrap());
    }
}

#[test]
fn a_mount_killed_during_notifications_keeps_what_it_has_shown_and_delays_others_for_its_term() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(2, 2);
    let [a, b] = [0, 1].map(|number: usize| cluster.mounts[number].at.join("looked at"));
    fs::create_dir(&b).unwrap();
    for number in 0..FILES {
        fs::write(b.join(format!("f{number}")), vec![b'-'; 1 + number * 9_000]).unwrap();
    }
    let mut random = Random::of_this_run();
    let is_over = AtomicBool::new(false);
    let longest = std::thread::scope(|scope| {
        let ending = Ends(&is_over);
        let changing = scope.spawn(|| change_all(&b, &is_over));
        for kill in 0..kills() {
            work_until_killed(&mut cluster, &format!("dir{kill}"), &mut random);
        }
        drop(ending);
        changing.join().unwrap()
    });
    eprintln!("{} kills, the longest change took {longest:?}", kills());
    assert!(longest < TERM_MOST, "{longest:?}");
    for number in 0..FILES {
        let [of_a, of_b] = [&a, &b].map(|dir| fs::read(dir.join(format!("f{number}"))));
        assert!(of_a.unwrap() == of_b.unwrap(), "f{number}");
    }
    cluster.stop();
}
