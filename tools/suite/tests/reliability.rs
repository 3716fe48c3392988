//! `gupfs-suite reliability` as a person starts it.

// Tests stand outside the simulated world and wait by the real clock.
#![allow(clippy::disallowed_methods)]

mod program;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use program::{Done, Program, empty, eventually, within};
use serde_json::Value;

const SUITE: &str = env!("CARGO_BIN_EXE_gupfs-suite");

/// How it ended, and its JSON report if there is one. Nothing stays.
fn run(flags: &[&str]) -> (Done, Option<Value>) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let work = dir.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let json = dir.path().join("json");
    let words = [&["reliability"], flags].concat();
    let done = Program::of(SUITE, &words)
        .on("-d", &work)
        .on("--json", &json)
        .run();
    assert!(empty(&work), "{flags:?}: {}", done.err);
    let report = std::fs::read(json).ok();
    (
        done,
        report.map(|report| serde_json::from_slice(&report).unwrap()),
    )
}

#[test]
fn where_nothing_breaks_nothing_is_lost() {
    for np in ["2", "1"] {
        let (done, report) = run(&[
            "--np",
            np,
            "-n",
            "2",
            "-t",
            "1",
            "-f",
            "256K",
            "-b",
            "10K",
            "-s",
            "3",
            "--fault",
            "test -e $DIR/file1",
            "--repair",
            "echo repaired",
        ]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert!(
            done.out.contains("Nothing is lost") && done.out.contains("No call failed"),
            "{}",
            done.out
        );
        assert!(done.err.contains("repaired"));
        let report = report.unwrap();
        let [fault, repair] = [0, 1].map(|act| report["acts"][act]["began"].as_f64().unwrap());
        // Not before a quarter and a half of the time; a slow host may begin them later.
        assert!(
            fault >= 0.25 && repair >= 0.5 && fault < repair,
            "{fault} {repair}"
        );
        assert!(report["checked"].as_u64().unwrap() > 0);
        assert!(report["figures"][0]["value"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn what_is_lost_is_said() {
    let (done, report) = run(&[
        "-n",
        "2",
        "-t",
        "2",
        "-f",
        "1G",
        "--at",
        "1",
        "--fault",
        "truncate -s 0 $DIR/file1",
    ]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(
        done.err.contains("that were acknowledged are not there"),
        "{}",
        done.err
    );
    assert!(
        done.out.contains("LOST: ") && done.out.contains("file1, offset 0: pass 1 was"),
        "{}",
        done.out
    );
    let found = report.unwrap()["found"].as_array().unwrap().clone();
    assert!(!found.is_empty());
    assert!(
        found
            .iter()
            .all(|finding| finding["file"].as_str().unwrap().ends_with("file1"))
    );
}

#[test]
fn a_fault_that_cannot_be_made_is_no_result() {
    for (flags, says) in [
        (
            &["--fault", "exit 3"][..],
            "`exit 3` failed: exit status: 3",
        ),
        (
            &["--fault", "sleep 100", "--patience", "0.2"][..],
            "did not end within",
        ),
    ] {
        let flags = [&["-n", "1", "-t", "0.5"], flags].concat();
        let (done, report) = run(&flags);
        done.failed_with(1);
        assert!(done.err.contains(says), "{}", done.err);
        assert_eq!(report, None);
    }
}

#[test]
fn bad_input_is_refused() {
    for (flags, says) in [
        ("", "--fault"),
        ("--fault x -t 0", "above 0"),
        ("--fault x --at 30", "within the 20 s"),
        ("--fault x --repair-at 1", "--repair"),
        ("--fault x --patience=-1", "0 or more"),
        ("--fault x -b 32M", "more than the file"),
        ("--fault x -f 100G -b 1K", "more than 1048576 records"),
    ] {
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let (done, _) = run(&flags);
        assert_eq!(done.code, Some(2), "{flags:?}: {}", done.err);
        assert!(done.err.contains(says), "{flags:?}: {}", done.err);
    }
}

/// A file system in a file; unmounted when it is dropped.
struct Mount(PathBuf);

impl Mount {
    fn make(dir: &Path) -> Option<Mount> {
        let (file, point) = (dir.join("image"), dir.join("mnt"));
        std::fs::File::create(&file)
            .unwrap()
            .set_len(64 << 20)
            .unwrap();
        std::fs::create_dir(&point).unwrap();
        let made = Command::new("mkfs.ext4")
            .arg("-q")
            .arg(&file)
            .status()
            .ok()?;
        let mounted = Command::new("mount")
            .args(["-o", "loop"])
            .args([&file, &point])
            .status()
            .ok()?;
        (made.success() && mounted.success()).then_some(Mount(point))
    }
}

impl Mount {
    fn thaw(&self) {
        // It may not be frozen.
        let _ = Command::new("fsfreeze")
            .arg("--unfreeze")
            .arg(&self.0)
            .stderr(std::process::Stdio::null())
            .status();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.thaw();
        assert!(
            Command::new("umount")
                .arg(&self.0)
                .status()
                .unwrap()
                .success()
        );
    }
}

/// A mount that can be frozen, where that is possible.
fn mount(dir: &Path) -> Option<Mount> {
    let root = rustix::process::geteuid().is_root();
    let made = root.then(|| Mount::make(dir)).flatten();
    if made.is_none() {
        gupfs_skips::skip(
            gupfs_skips::Need::LoopDevices,
            "a mount that can be frozen needs root, mkfs.ext4 and a loop device",
        );
    }
    made
}

#[test]
fn a_call_that_never_comes_back_is_named_and_not_waited_for() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(mount) = mount(dir.path()) else {
        return;
    };
    for np in ["1", "2"] {
        let fault = "fsfreeze --freeze $DIR/..";
        let words = [
            "reliability",
            "-n",
            "2",
            "-t",
            "1",
            "-f",
            "4M",
            "--patience",
            "0",
            "--fault",
            fault,
            "--np",
            np,
        ];
        let begun = Instant::now();
        // Until nobody has its output open any more.
        let done = Program::of(SUITE, &words).on("-d", &mount.0).run();
        within(120, begun);
        done.failed_with(3);
        for worker in ["worker 0: ", "worker 1: "] {
            let line = done.err.lines().find(|line| line.contains(worker));
            let line = line.unwrap_or_else(|| panic!("{worker}: {}", done.err));
            assert!(line.contains(" has not come back for "), "{line}");
        }
        assert!(
            done.err
                .contains("is left there, since removing it may hang"),
            "{}",
            done.err
        );
        mount.thaw();
    }
    // What was left behind ends with the calls.
    eventually(|| {
        let users = Command::new("fuser").arg("-m").arg(&mount.0).output();
        let used = users.is_ok_and(|users| !users.stdout.is_empty());
        (!used).then_some(())
    });
}

#[test]
fn reading_back_that_never_ends_is_not_waited_for() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let words = [
        "reliability",
        "-n",
        "2",
        "-t",
        "1",
        "-f",
        "64K",
        "--patience",
        "0",
        "--fault",
        "rm $DIR/file1; mkfifo $DIR/file1",
    ];
    let done = Program::of(SUITE, &words).on("-d", dir.path()).run();
    done.failed_with(3);
    assert!(
        done.err.contains("worker 1's file: open of ")
            && done.err.contains("file1 has not come back for "),
        "{}",
        done.err
    );
}

#[test]
fn what_a_fault_broke_is_repaired_however_the_run_ends() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (work, broken) = (dir.path().join("work"), dir.path().join("broken"));
    std::fs::create_dir(&work).unwrap();
    let repair = "rm $DIR/../../broken";
    let start = |fault: &str| {
        let words = [
            "reliability",
            "-n",
            "2",
            "-t",
            "100",
            "--at",
            "0.3",
            "--fault",
            fault,
            "--repair",
            repair,
        ];
        Program::of(SUITE, &words).on("-d", &work).start()
    };
    let ended = |running: program::Running, code| {
        let done = running.end();
        assert_eq!(
            (done.code, done.out.as_str()),
            (Some(code), ""),
            "{}",
            done.err
        );
        assert!(!broken.exists() && empty(&work), "{}", done.err);
        assert_eq!(
            done.err.matches("the repair's command").count(),
            1,
            "{}",
            done.err
        );
        done.err
    };
    // The fault's command fails in the middle: nobody goes on for the rest of the time.
    let begun = Instant::now();
    let said = ended(start("touch $DIR/../../broken; exit 3"), 1);
    assert!(
        said.contains("`touch $DIR/../../broken; exit 3` failed: exit status: 3"),
        "{said}"
    );
    within(20, begun);

    let fault = "touch $DIR/../../broken";
    let running = start(fault);
    running.wait_for(&broken);
    running.kill(running.id(), "TERM");
    ended(running, 1);

    let running = start(fault);
    running.wait_for(&broken);
    running.kill(running.children(2)[1], "KILL");
    let said = ended(running, 1);
    assert!(said.contains("process 1 was killed by signal 9"), "{said}");

    // It is ended while it is at it.
    let running = start("touch $DIR/../../broken; sleep 100");
    running.wait_for(&broken);
    running.kill(running.id(), "INT");
    ended(running, 1);
}

#[test]
fn a_standstill_is_as_long_as_the_file_system_is_frozen() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(mount) = mount(dir.path()) else {
        return;
    };
    let json = dir.path().join("json");
    let fault = "fsfreeze --freeze $DIR/..; sleep 0.7; fsfreeze --unfreeze $DIR/..";
    let done = Program::of(
        SUITE,
        &[
            "reliability",
            "-n",
            "2",
            "-t",
            "2",
            "-f",
            "4M",
            "--fault",
            fault,
        ],
    )
    .on("-d", &mount.0)
    .on("--json", &json)
    .run();
    assert_eq!(done.code, Some(0), "{}", done.err);
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let still = &report["figures"][1];
    assert_eq!(
        (&still["name"], &still["better"]),
        (&"Standstill".into(), &"less".into())
    );
    // A slow host may make it longer, and begin it later, but not without the command.
    assert!(still["value"].as_f64().unwrap() >= 0.6, "{}", done.out);
    let seconds = |part: &Value, name: &str| part[name].as_f64().unwrap();
    let (standstill, fault) = (&report["standstill"], &report["acts"][0]);
    assert!(
        seconds(standstill, "from") < seconds(fault, "ended")
            && seconds(standstill, "to") > seconds(fault, "began"),
        "{report}"
    );
}
