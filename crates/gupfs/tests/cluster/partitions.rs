//! Network partitions: during short ones calls wait, after long ones clients open new sessions.

use crate::load;
use crate::networks::{Cut, Networks, cut_for};
use crate::running::{TIMEOUT, can_mount};
use crate::test_cluster::TestCluster;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

const HOSTS: [&str; 5] = ["mds", "oss0", "oss1", "mnt0", "mnt1"];

/// Shorter than the term of a session: sessions survive it.
const SHORT: Duration = Duration::from_secs(5);

/// Cuts that end sessions: none by default, because each takes long.
pub fn long_cuts() -> Vec<Duration> {
    let set = std::env::var("GUPFS_CLUSTER_AWAY").unwrap_or_default();
    let words = set.split(',').filter(|word| !word.is_empty());
    let cuts: Vec<Duration> = words
        .map(|word| Duration::from_secs(word.parse().unwrap()))
        .collect();
    assert!(
        cuts.iter().all(|cut| cut.as_secs() >= 30),
        "GUPFS_CLUSTER_AWAY: a session may live 22 s"
    );
    cuts
}

/// Operations that need only the metadata server.
fn works(mount: &Path, name: &str) {
    let (from, to) = (mount.join(name), mount.join(format!("{name}.moved")));
    fs::write(&from, "in its inode").unwrap();
    fs::rename(&from, &to).unwrap();
    assert_eq!(fs::read(&to).unwrap(), b"in its inode");
    fs::remove_file(&to).unwrap();
}

/// All programs of both mounts continue; each of their calls succeeds once.
fn nobody_notices(how: Cut) {
    if !can_mount() {
        return;
    }
    let Some(networks) = Networks::wire(&HOSTS) else {
        return;
    };
    let cluster = TestCluster::on(networks.daemon_hosts(), 2, 2);
    let mounts: Vec<_> = cluster
        .mounts
        .iter()
        .map(|mount| mount.at.clone())
        .collect();
    // Each in a directory that the other has not read: a mount that is away delays changes of what it has read.
    let own = [0, 1].map(|number| mounts[number].join(format!("of mount {number}")));
    own.iter().for_each(|dir| fs::create_dir(dir).unwrap());
    let [a, b] = &own;
    let sessions = cluster.sessions();
    // The mount has the write lease, and needs no metadata server to write and read the file.
    let held = File::options()
        .create_new(true)
        .read(true)
        .write(true)
        .open(mounts[0].join("held"))
        .unwrap();
    held.write_all_at(&[1; 100_000], 0).unwrap();
    let journals = load::while_working(&mounts, || {
        // Its programs wait; others continue.
        let made = mounts[0].join("made meanwhile");
        std::thread::scope(|scope| {
            let waits = cut_for(&networks, ("mnt0", how, SHORT), || {
                let waits = scope.spawn(|| fs::create_dir(&made));
                works(b, "while mnt0 is away");
                std::thread::sleep(SHORT / 2);
                assert!(!waits.is_finished(), "whom did it ask?");
                waits
            });
            waits.join().unwrap().unwrap();
        });
        fs::remove_dir(mounts[1].join("made meanwhile")).unwrap();
        // Operations without objects continue everywhere.
        cut_for(&networks, ("oss0", how, SHORT), || {
            works(a, "while oss0 is away, a");
            works(b, "while oss0 is away, b");
        });
        // Operations that need only objects continue.
        cut_for(&networks, ("mds", how, SHORT), || {
            held.write_all_at(&[2; 50_000], 0).unwrap();
            let mut bytes = vec![0; 100_000];
            held.read_exact_at(&mut bytes, 0).unwrap();
            assert!(bytes == [vec![2; 50_000], vec![1; 50_000]].concat());
        });
        works(a, "at the end");
    });
    held.sync_all().unwrap();
    drop(held);
    let bytes = fs::read(mounts[1].join("held")).unwrap();
    assert!(bytes == [vec![2; 50_000], vec![1; 50_000]].concat());
    let done: u64 = journals.iter().map(|journal| journal.operations).sum();
    eprintln!("3 cuts of {SHORT:?}, {how:?}: {done} operations, each done once");
    assert_eq!(cluster.sessions(), sessions, "a session has ended");
    cluster.stop();
}

#[test]
fn calls_wait_during_a_short_failure_of_a_network_interface() {
    nobody_notices(Cut::CardOff);
}

#[test]
fn calls_wait_during_a_short_silent_partition() {
    nobody_notices(Cut::Silence);
}

fn in_the_end<T>(what: &str, mut run: impl FnMut() -> io::Result<T>) -> T {
    let begun = Instant::now();
    loop {
        match run() {
            Ok(done) => return done,
            Err(error) => assert!(begun.elapsed() < TIMEOUT, "{what}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// An open file that a mount writes, with its synced contents.
struct Open {
    file: File,
    name: String,
}

const LONG: usize = 100_000;

impl Open {
    fn on(mount: &Path, name: &str) -> Open {
        let mut open = OpenOptions::new();
        let path = mount.join(name);
        let file = open.create_new(true).read(true).write(true).open(path);
        let file = file.unwrap();
        file.write_all_at(&[1; LONG], 0).unwrap();
        file.sync_all().unwrap();
        // Not synced: the file has these bytes or the previous ones.
        file.write_all_at(&[2; 10], 0).unwrap();
        Open {
            file,
            name: name.to_string(),
        }
    }

    fn is_stale(&self) {
        let errors = [
            self.file.write_all_at(&[3; 10], 0).unwrap_err(),
            self.file.read_exact_at(&mut [0], 0).unwrap_err(),
            self.file.set_len(5).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{}", self.name);
        }
    }

    fn is_whole(&self, mount: &Path) {
        let bytes = fs::read(mount.join(&self.name)).unwrap();
        assert!(bytes.len() == LONG && bytes[10..] == [1; LONG - 10]);
        assert!(bytes[..10] == [1; 10] || bytes[..10] == [2; 10]);
    }
}

/// A mount is disconnected for longer than its session's term.
fn a_mount_is_away(cluster: &TestCluster, networks: &Networks, (how, time): (Cut, Duration)) {
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    let [first, second] = ["first", "second"].map(|name| Open::on(a, name));
    let of_b = Open::on(b, "of the other");
    let before = cluster.sessions();
    let went_on = std::thread::scope(|scope| {
        let waits = cut_for(networks, ("mnt0", how, time), || {
            let waits = scope.spawn(|| fs::create_dir(a.join("made meanwhile")));
            // Files without a write lease can be used at once, leased files when the session of the holder has ended.
            works(b, "while mnt0 is away");
            let begun = Instant::now();
            let file = OpenOptions::new().write(true).open(b.join(&first.name));
            file.unwrap().write_all_at(&[4; 10], LONG as u64).unwrap();
            assert!(begun.elapsed() < TIMEOUT, "{:?}", begun.elapsed());
            let bytes = fs::read(b.join(&first.name)).unwrap();
            assert!(bytes[10..] == [vec![1; LONG - 10], vec![4; 10]].concat());
            second.is_whole(b);
            of_b.file.write_all_at(&[2; 10], 0).unwrap();
            of_b.file.sync_all().unwrap();
            let now = cluster.sessions();
            assert!(now.len() == 1 && before.contains(&now[0]), "{now:?}");
            waits
        });
        waits.join().unwrap()
    });
    // It waited until its deadline, or until there was a new session; it was not executed in the old one.
    match went_on {
        Ok(()) => fs::remove_dir(b.join("made meanwhile")).unwrap(),
        Err(error) => assert!(matches!(
            error.raw_os_error(),
            Some(libc::ETIMEDOUT | libc::ESTALE)
        )),
    }
    in_the_end("a new session", || fs::write(a.join("new"), "new"));
    assert_eq!(fs::read(b.join("new")).unwrap(), b"new");
    first.is_stale();
    second.is_stale();
    drop(first.file);
    second.is_whole(a);
    of_b.is_whole(a);
    let bytes = fs::read(a.join(&first.name)).unwrap();
    assert!(bytes[10..] == [vec![1; LONG - 10], vec![4; 10]].concat());
    let after = cluster.sessions();
    assert!(after.len() == 2, "{after:?}");
    assert_eq!(after.iter().filter(|it| before.contains(it)).count(), 1);
}

/// The metadata server is disconnected for longer than the term of sessions: all of them end.
fn the_metadata_server_is_away(
    cluster: &TestCluster,
    networks: &Networks,
    (how, time): (Cut, Duration),
) {
    let mounts = [&cluster.mounts[0].at, &cluster.mounts[1].at];
    let open = mounts.map(|mount| {
        Open::on(
            mount,
            &format!("held {}", mount.display()).replace('/', "_"),
        )
    });
    let before = cluster.sessions();
    cut_for(networks, ("mds", how, time), || {});
    for mount in mounts {
        in_the_end("a new session", || fs::write(mount.join("new"), "new"));
    }
    for file in &open {
        file.is_stale();
        mounts.iter().for_each(|mount| file.is_whole(mount));
    }
    cluster.wait_until("two new sessions", |status| {
        let sessions = status["mds"]["sessions"].as_object().unwrap();
        sessions.len() == 2 && sessions.keys().all(|session| !before.contains(session))
    });
}

/// Calls that need the object server wait, without a deadline as long as it takes; nothing is lost.
fn an_object_server_is_away(
    cluster: &mut TestCluster,
    networks: &Networks,
    (how, time): (Cut, Duration),
) {
    let waits = ["--deadline", "none"];
    let mounts = [cluster.mount_with(&waits), cluster.mount_with(&waits)];
    let before = cluster.sessions();
    let journals = load::while_working(&mounts, || {
        std::thread::sleep(Duration::from_secs(1));
        cut_for(networks, ("oss1", how, time), || {
            works(&mounts[0], "while oss1 is away");
        });
    });
    let done: u64 = journals.iter().map(|journal| journal.operations).sum();
    eprintln!("an object server away for {time:?}, {how:?}: {done} operations");
    assert_eq!(cluster.sessions(), before, "a session has ended");
}

fn sessions_end(how: Cut) {
    if !can_mount() {
        return;
    }
    for time in long_cuts() {
        let hosts = [&HOSTS[..], &["mnt2", "mnt3"]].concat();
        let Some(networks) = Networks::wire(&hosts) else {
            return;
        };
        let mut cluster = TestCluster::on(networks.daemon_hosts(), 2, 2);
        a_mount_is_away(&cluster, &networks, (how, time));
        the_metadata_server_is_away(&cluster, &networks, (how, time));
        an_object_server_is_away(&mut cluster, &networks, (how, time));
        eprintln!("cut for {time:?}, {how:?}: as promised");
        cluster.stop();
    }
}

#[test]
fn after_a_long_cut_of_a_network_interface_clients_open_new_sessions() {
    sessions_end(Cut::CardOff);
}

#[test]
fn after_a_long_cut_without_errors_clients_open_new_sessions() {
    sessions_end(Cut::Silence);
}
