//! The programs as mpirun starts them (feature `mpi`): two processes, and workers dealt to them.

#![cfg(feature = "mpi")]
// Tests stand outside the simulated world and wait by the real clock.
#![allow(clippy::disallowed_methods)]

mod program;

use std::path::Path;
use std::time::{Duration, Instant};

use program::{Done, Program, empty, within};
use serde_json::Value;

const SUITE: &str = env!("CARGO_BIN_EXE_gupfs-suite");

fn mpirun(flags: &[&str]) -> Program {
    let start = ["--allow-run-as-root", "--oversubscribe", "-np", "2", SUITE];
    Program::of("mpirun", &[&start, flags].concat())
}

/// How it ended, and its report if there is one. Nothing stays.
fn ran(flags: &[&str]) -> (Done, Option<Value>) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (work, json) = (dir.path().join("work"), dir.path().join("json"));
    std::fs::create_dir(&work).unwrap();
    let place = match flags[0] {
        "metabench" => "-w",
        _ => "-d",
    };
    let done = mpirun(flags).on(place, &work).on("--json", &json).run();
    assert!(empty(&work), "{flags:?}: {}", done.err);
    let report = std::fs::read(json).ok();
    let report = report.map(|report| serde_json::from_slice(&report).unwrap());
    (done, report)
}

#[test]
fn every_program_runs() {
    for flags in [
        "mptio -G -f 1M -b 64K -t 2 -C",
        "mptio -P -f 1M -b 64K -t 1 -r -C",
        "metabench -0 -C -S -U -A -c 40 -k --check",
        "pioraw -f 1M -b 64K -t 0.2 --check",
        "mdmark -e 100 -t 0.2 --check",
        "streams -n 1,3 -b 64K -f 1M --check",
        "interleave -n 2 -b 64K -f 1M --check",
        "pileup --files 3 -f 200K -n 1,3 -t 0.2 --check",
        "daq -w 2 -r 2 -f 100K -t 1 --check",
        "apps -n 4 -f 256K --check",
        "matrix -s 256K -b 64K -n 3 --check",
        "tiotest -t 3 -f 256K -r 20 --check",
        "bonnie -f 256K -n 2 -s 20 --check",
        "aging --room 8M -l 50,90 --least 1K --most 64K -n 3 -f 256K -b 64K -r 2 --check",
        "reliability -n 3 -t 1 -f 256K --fault true",
    ] {
        let words: Vec<&str> = flags.split_whitespace().collect();
        let (done, report) = ran(&words);
        assert_eq!(done.code, Some(0), "{flags}: {}", done.err);
        // One of them reports.
        assert_eq!(
            done.out.matches("OPERATIONS").count(),
            1,
            "{flags}: {}",
            done.out
        );
        let report = report.unwrap();
        assert_eq!(report["program"], words[0]);
        assert!(!report["figures"].as_array().unwrap().is_empty(), "{flags}");
    }
}

#[test]
fn aging_measures_each_level_with_the_workers_of_both_processes() {
    let flags = "aging --room 8M -l 50 --least 1K --most 64K -n 3 -f 256K -b 64K -r 1 --churn 0.5";
    let (done, report) = ran(&flags.split_whitespace().collect::<Vec<_>>());
    assert_eq!(done.code, Some(0), "{}", done.err);
    let report = report.unwrap();
    let names: Vec<String> = report["figures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|figure| format!("{} {}", figure["name"], figure["at"]["filled"]).replace('"', ""))
        .collect();
    let wanted = [
        "Write 0", "Read 0", "Fill 50", "Churn 50", "Write 50", "Read 50",
    ];
    assert_eq!(names, wanted);
    let parts = &report["levels"][1]["fill"]["parts"];
    assert_eq!(parts.as_array().unwrap().len(), 3);
}

#[test]
fn reliability_finds_what_the_other_process_lost_and_repairs_what_broke() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let broken = dir.path().join("broken");
    let (fault, repair) = (
        format!("touch {}; truncate -s 0 $DIR/file1", broken.display()),
        format!("rm {}", broken.display()),
    );
    let (done, report) = ran(&[
        "reliability",
        "-n",
        "2",
        "-t",
        "2",
        "-f",
        "1G",
        "--at",
        "1",
        "--fault",
        &fault,
        "--repair-at",
        "1.9",
        "--repair",
        &repair,
    ]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(
        done.out.contains("file1, offset 0: pass 1 was"),
        "{}",
        done.out
    );
    assert!(!broken.exists());
    let report = report.unwrap();
    assert!(!report["found"].as_array().unwrap().is_empty());
    assert_eq!(report["acts"].as_array().unwrap().len(), 2);

    let fault = format!("touch {}; exit 3", broken.display());
    let (done, report) = ran(&[
        "reliability",
        "-n",
        "2",
        "-t",
        "100",
        "--at",
        "0.2",
        "--fault",
        &fault,
        "--repair",
        &repair,
    ]);
    assert_eq!((done.code, report), (Some(1), None), "{}", done.err);
    assert!(done.err.contains("failed: exit status: 3"), "{}", done.err);
    assert!(!broken.exists(), "{}", done.err);
}

#[test]
fn one_process_that_cannot_read_ends_the_other() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let flags = "mptio -P -t 1 -f 1M -b 4K -k 1 -k 2 -k 3 -a 1000000000000";
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let running = mpirun(&flags).on("-d", dir.path()).start();
    let file = dir.path().join("mptio_process_1");
    running.wait_until(|| file.metadata().is_ok_and(|found| found.len() == 1 << 20));
    std::thread::sleep(Duration::from_secs(1));
    let cut = Instant::now();
    std::fs::File::create(&file).unwrap();
    let done = running.end();
    within(20, cut);
    done.failed_with(1);
    assert!(done.err.contains("process 1: cannot read "), "{}", done.err);
    assert!(empty(dir.path()), "{}", done.err);
}

#[test]
fn wrong_flags_are_answered_once() {
    for (flags, says) in [
        ("mptio --np 2 -b 4K -t 1", "use one of them"),
        ("mptio -b 64Q -t 1", "not a size"),
    ] {
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let done = mpirun(&flags).on("-d", Path::new("/nowhere")).run();
        assert_eq!(done.code, Some(2), "{}", done.err);
        // One answer is enough.
        assert_eq!(done.err.matches(says).count(), 1, "{}", done.err);
    }
}
