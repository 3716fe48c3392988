//! Programs of two mounts change the names of one directory as fast as they can, and its subdirectories are working directories.

use crate::random::Random;
use crate::running::can_mount;
use crate::test_cluster::{TestCluster, text};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Names of files, and of directories, that the programs use.
const FILES: usize = 80;
const DIRS: usize = 20;

/// Programs on each mount.
const PROGRAMS: usize = 3;

fn length() -> Duration {
    let set = std::env::var("GUPFS_CLUSTER_STORM");
    Duration::from_secs(set.map_or(2, |set| set.parse().unwrap()))
}

/// Works in its working directory, and checks which path it has. The first arguments are the directory and the file that this program uses
/// there, the others the paths that getcwd(2) may return; if there are none, it may also fail, because another mount renames the directory.
const STAND: &str = r"
import os, select, sys
dir, own, paths = sys.argv[1], sys.argv[2], sys.argv[3:]
os.chdir(dir)
print('stands', flush=True)
turn = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    turn += 1
    try:
        seen = os.getcwd()
        assert not paths or seen in paths, seen
    except FileNotFoundError:
        assert not paths, 'getcwd'
    with open(own, 'w') as file:
        file.write(str(turn))
    os.rename(own, own + '.moved')
    assert open(own + '.moved').read() == str(turn)
    assert own + '.moved' in os.listdir('.')
    os.unlink(own + '.moved')
    assert not os.path.exists(own)
print(turn)
";

struct Standing(Child);

impl Standing {
    fn start(dir: &Path, own: &str, paths: &[&Path]) -> Standing {
        let mut python = Command::new("python3");
        python.args(["-c", STAND, &text(dir), own]).args(paths);
        python.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let mut line = String::new();
        let mut one_byte = BufReader::with_capacity(1, child.stdout.as_mut().unwrap());
        one_byte.read_line(&mut line).unwrap();
        assert_eq!(line, "stands\n");
        Standing(child)
    }

    /// Its turns.
    fn end(mut self) -> u64 {
        drop(self.0.stdin.take());
        let output = self.0.wait_with_output().unwrap();
        assert!(output.status.success(), "a program in its directory failed");
        let printed = String::from_utf8(output.stdout).unwrap();
        printed.trim().parse().unwrap()
    }
}

/// Whether a call may fail so because another program has changed the name.
fn is_permitted(call: &str, error: &io::Error) -> bool {
    let permitted: &[i32] = match call {
        "create" | "mkdir" => &[libc::EEXIST],
        "link" => &[libc::EEXIST, libc::ENOENT],
        "rename of a directory" => &[libc::ENOENT, libc::ENOTEMPTY, libc::EEXIST],
        _ => &[libc::ENOENT],
    };
    permitted.contains(&error.raw_os_error().unwrap_or(0))
}

/// What a program did, and the longest of its calls.
#[derive(Default)]
struct Work {
    calls: u64,
    changes: u64,
    longest: Duration,
}

fn change_names(dir: &Path, number: usize, end: Instant) -> Work {
    let mut random = Random::with_seed(number as u64);
    let mut work = Work::default();
    while Instant::now() < end {
        let [one, other] = [0; 2].map(|_| dir.join(format!("f{}", random.below(FILES))));
        let [place, free] = [0; 2].map(|_| dir.join(format!("d{}", random.below(DIRS))));
        let begun = Instant::now();
        let (call, done) = match random.below(10) {
            0..=2 => ("create", create(&one, (number, work.calls))),
            3 | 4 => ("rename", fs::rename(&one, &other)),
            5 => ("link", fs::hard_link(&one, &other)),
            6 => ("unlink", fs::remove_file(&one)),
            7 => ("mkdir", fs::create_dir(&place)),
            8 => ("rename of a directory", fs::rename(&place, &free)),
            _ => ("rmdir", fs::remove_dir(&free)),
        };
        work.calls += 1;
        work.changes += u64::from(done.is_ok());
        work.longest = work.longest.max(begun.elapsed());
        if let Err(error) = done {
            assert!(is_permitted(call, &error), "{call}: {error}");
        }
    }
    work
}

/// Each file has its own contents.
fn create(path: &Path, (number, call): (usize, u64)) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(format!("program {number}, call {call}").as_bytes())
}

/// What each name shows: inode, links, contents.
fn state(dir: &Path) -> BTreeMap<String, (u64, u64, String)> {
    let names = fs::read_dir(dir).unwrap().map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let path = dir.join(&name);
        let data = fs::metadata(&path).unwrap();
        let contents = match data.is_file() {
            true => fs::read_to_string(&path).unwrap(),
            false => format!("{} names", fs::read_dir(&path).unwrap().count()),
        };
        (name, (data.ino(), data.nlink(), contents))
    });
    names.collect()
}

#[test]
fn two_mounts_change_the_names_of_a_directory_and_neither_shows_another_result() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 2);
    let dirs = cluster.mount_points().into_iter().map(|at| at.join("dir"));
    let dirs: Vec<_> = dirs.collect();
    for name in ["", "stays", "moves"] {
        fs::create_dir(dirs[0].join(name)).unwrap();
    }
    // The first mount renames `moves`: there getcwd(2) follows, on the other one it cannot.
    let [stays, moves, moved] = ["stays", "moves", "moved"].map(|name| dirs[0].join(name));
    let standing = [
        Standing::start(&stays, "a", &[&stays]),
        Standing::start(&dirs[1].join("stays"), "b", &[&dirs[1].join("stays")]),
        Standing::start(&moves, "a", &[&moves, &moved]),
        Standing::start(&dirs[1].join("moves"), "b", &[]),
    ];
    let end = Instant::now() + length();
    let (works, renames) = std::thread::scope(|scope| {
        let programs: Vec<_> = (0..2 * PROGRAMS)
            .map(|number| {
                let dir = &dirs[number % 2];
                scope.spawn(move || change_names(dir, number, end))
            })
            .collect();
        let mut renames = 0;
        while Instant::now() < end {
            fs::rename(&moves, &moved).unwrap();
            fs::rename(&moved, &moves).unwrap();
            renames += 2;
            std::thread::sleep(Duration::from_millis(5));
        }
        let works = programs.into_iter().map(|program| program.join().unwrap());
        (works.collect::<Vec<Work>>(), renames)
    });
    let turns = standing.map(Standing::end);
    let sum = |of: fn(&Work) -> u64| works.iter().map(of).sum::<u64>();
    let longest = works.iter().map(|work| work.longest).max();
    eprintln!(
        "{} calls, {} changes, {renames} renames of a working directory, turns there {turns:?}, longest call {longest:?}",
        sum(|work| work.calls),
        sum(|work| work.changes)
    );
    assert!(turns.iter().all(|turns| *turns > 1), "{turns:?}");
    let seen = state(&dirs[0]);
    assert_eq!(seen, state(&dirs[1]));
    for (name, (inode, links, contents)) in &seen {
        if name.starts_with('f') {
            let names = seen.values().filter(|other| other.0 == *inode).count();
            assert_eq!(*links, names as u64, "links of {name}");
            assert!(contents.starts_with("program"), "{name}: {contents}");
        }
    }
    // Nothing is left of what has no name.
    fs::remove_dir_all(&dirs[1]).unwrap();
    assert!(File::open(&dirs[0]).is_err());
    cluster.wait_until("purged", |status| status["mds"]["purging"] == 0);
    cluster.stop();
}
