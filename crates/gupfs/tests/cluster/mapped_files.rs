//! Mappings and sendfile(2) of one file on two mounts: Linux serves both from its page cache, without a request.

use crate::running::can_mount;
use crate::test_cluster::TestCluster;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Counts in the first word of a mapped file, under a lock, so many times; and in a word of its own of the same page, without one.
const COUNT: &str = "
import fcntl, mmap, struct, sys
path, turns, own = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
f = open(path, 'r+b')
m = mmap.mmap(f.fileno(), 0)
word = lambda at: struct.unpack_from('<Q', m, at)[0]
for turn in range(turns):
    fcntl.lockf(f, fcntl.LOCK_EX, 8, 0)
    struct.pack_into('<Q', m, 0, word(0) + 1)
    fcntl.lockf(f, fcntl.LOCK_UN, 8, 0)
    assert word(own) == turn, (word(own), turn)
    struct.pack_into('<Q', m, own, turn + 1)
";

/// For each line of its input: sends the first bytes of the file with sendfile(2), and loads them from a mapping, through descriptors that stay
/// open.
const SEND: &str = "
import mmap, os, sys
f = open(sys.argv[1], 'rb')
m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
for line in sys.stdin:
    to = os.memfd_create('sent')
    os.sendfile(to, f.fileno(), 0, 8)
    print(os.pread(to, 8, 0).decode(), m[:8].decode(), flush=True)
    os.close(to)
";

/// Turns of each program in a mapped page.
fn turns() -> u64 {
    let set = std::env::var("GUPFS_CLUSTER_TURNS");
    set.map_or(60, |set| set.parse().unwrap())
}

fn python(script: &str, path: &Path, args: &[&str]) -> Child {
    Command::new("python3")
        .args(["-c", script])
        .arg(path)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn programs_on_two_mounts_count_in_one_mapped_page() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 2);
    let mounts = [&cluster.mounts[0].at, &cluster.mounts[1].at];
    // Inline data, and objects.
    for length in [100, 100_000] {
        let turns = turns();
        fs::write(mounts[0].join("file"), vec![0; length]).unwrap();
        let counting: Vec<Child> = (1..=4)
            .map(|number: usize| {
                let path = mounts[number % 2].join("file");
                let (turns, own) = (turns.to_string(), (8 * number).to_string());
                python(COUNT, &path, &[&turns, &own])
            })
            .collect();
        for child in counting {
            assert!(child.wait_with_output().unwrap().status.success());
        }
        for mount in mounts {
            let bytes = fs::read(mount.join("file")).unwrap();
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            let counted: Vec<u64> = (0..5).map(|word_number| word(8 * word_number)).collect();
            assert_eq!(counted, [4 * turns, turns, turns, turns, turns]);
            assert!(bytes.len() == length && bytes[40..].iter().all(|byte| *byte == 0));
        }
    }
    cluster.stop();
}

#[test]
fn sendfile_and_a_mapping_show_at_once_what_another_mount_has_written() {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::fs::FileExt;
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 2);
    let (a, b) = (&cluster.mounts[0].at, &cluster.mounts[1].at);
    for length in [100, 100_000] {
        fs::write(a.join("file"), vec![b'-'; length]).unwrap();
        let mut sender = python(SEND, &b.join("file"), &[]);
        let mut ask = sender.stdin.take().unwrap();
        let mut answers = BufReader::new(sender.stdout.take().unwrap()).lines();
        let written = fs::File::options()
            .write(true)
            .open(a.join("file"))
            .unwrap();
        for number in 0..40 {
            let text = format!("{number:08}");
            written.write_all_at(text.as_bytes(), 0).unwrap();
            writeln!(ask, "look").unwrap();
            assert_eq!(answers.next().unwrap().unwrap(), format!("{text} {text}"));
        }
        drop(ask);
        assert!(sender.wait().unwrap().success());
    }
    let pages = &TestCluster::status_of(b)["client"]["kernel_pages"];
    assert!(pages.as_u64().unwrap() > 0, "{pages}");
    cluster.stop();
}
