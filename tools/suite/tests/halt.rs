//! One worker meets trouble in the middle of a step that takes minutes: the others stop soon, in its process and in others.

// Tests stand outside the simulated world and wait by the real clock.
#![allow(clippy::disallowed_methods)]

mod program;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use program::{Program, empty};

const SUITE: &str = env!("CARGO_BIN_EXE_gupfs-suite");

/// A tenth of a second is normal; the step itself would take minutes.
const SOON: Duration = Duration::from_secs(30);

/// Starts a run that would take minutes, cuts the file of this name short once it has so many bytes, and looks how the run ends.
fn ends_soon(flags: &str, file: &str, bytes: u64, says: &str) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let running = Program::new(SUITE, flags)
        .on("-d", dir.path())
        .on("--json", Path::new("/dev/null"))
        .start();
    let made = || -> Option<PathBuf> {
        let run = std::fs::read_dir(dir.path()).ok()?.next()?.ok()?;
        let path = run.path().join(file);
        (path.metadata().ok()?.len() == bytes).then_some(path)
    };
    running.wait_until(|| made().is_some());
    // It has begun to read what was written.
    std::thread::sleep(Duration::from_secs(1));
    let cut = Instant::now();
    std::fs::File::create(made().unwrap()).unwrap();
    let done = running.end();
    assert!(cut.elapsed() < SOON, "{flags}: {:?}", cut.elapsed());
    assert_eq!((done.code, done.out.as_str()), (Some(1), ""), "{flags}");
    assert!(done.err.contains(says), "{flags}: {}", done.err);
    // What was the others' is no news, and nothing is said twice.
    assert_eq!(done.err.lines().count(), 1, "{flags}: {}", done.err);
    assert!(empty(dir.path()), "{flags}: {}", done.err);
}

#[test]
fn readers_stop_when_one_cannot_read() {
    // With this seed the two readers have different files.
    let flags = "pileup --files 2 -f 1M -n 2 -t 300 --seed 2";
    ends_soon(flags, "file0", 1 << 20, "process 1: worker 1: cannot read");
    ends_soon(
        &format!("{flags} --np 1"),
        "file1",
        1 << 20,
        "worker 0: cannot read",
    );
}

#[test]
fn processes_and_threads_of_mptio_stop_when_one_cannot_read() {
    let flags = "mptio -U -T -t 2 -f 1M -b 4K -k 1 -k 2 -k 3 -a 1000000000000";
    ends_soon(
        &format!("{flags} --np 2"),
        "mptio_thread_1_0",
        512 << 10,
        "process 1: thread 0: cannot read",
    );
    ends_soon(
        &format!("{flags} --np 1"),
        "mptio_thread_0_1",
        512 << 10,
        "thread 1: cannot read",
    );
}
