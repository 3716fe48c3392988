//! The programs `pioraw` and `mdmark` as a person starts them.

mod program;

use std::path::Path;

use program::{Program, empty};
use serde_json::Value;

const PIORAW: &str = env!("CARGO_BIN_EXE_pioraw");
const MDMARK: &str = env!("CARGO_BIN_EXE_mdmark");

/// Runs a program in a new directory: its JSON report, and what it printed.
fn ran(program: &str, flags: &str, profile: Option<&Path>) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let json = dir.path().join("json");
    let mut started = Program::new(program, flags)
        .on("-d", &work)
        .on("--json", &json);
    if let Some(profile) = profile {
        started = started.on("--profile", profile);
    }
    let done = started.run();
    assert_eq!(done.code, Some(0), "{flags}: {}", done.err);
    assert!(empty(&work), "{flags}");
    let json = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    (json, done.out)
}

fn names(report: &Value) -> Vec<String> {
    let figures = report["figures"].as_array().unwrap().iter();
    figures
        .map(|figure| {
            assert!(figure["value"].as_f64().unwrap() > 0.0, "{figure}");
            let at = figure["at"]["block"].as_str().unwrap_or_default();
            let name = figure["name"].as_str().unwrap();
            format!("{name} {at}").trim_end().to_owned()
        })
        .collect()
}

#[test]
fn pioraw_writes_and_reads_for_the_time_asked() {
    let (report, out) = ran(PIORAW, "--np 2 -f 100K -b 4K,24K -t 0.2 --check", None);
    assert_eq!(
        names(&report),
        ["Write 4K", "Read 4K", "Write 24K", "Read 24K"]
    );
    assert!(out.contains("OPERATIONS"), "{out}");
    for turn in report["turns"].as_array().unwrap() {
        for step in [&turn["write"], &turn["read"]] {
            let parts = step["parts"].as_array().unwrap();
            assert_eq!(parts.len(), 2);
            for part in parts {
                assert!(
                    (0.2..5.0).contains(&part["seconds"].as_f64().unwrap()),
                    "{part}"
                );
                // Around the file more than once.
                assert!(part["bytes"].as_u64().unwrap() > 200 << 10, "{part}");
            }
        }
    }
}

#[test]
fn mdmark_runs_all_its_tests() {
    let (report, out) = ran(MDMARK, "--np 3 -e 400 -t 0.3 --check", None);
    assert_eq!(
        names(&report),
        ["Create", "Scan", "Stats", "Update", "Mix", "Delete"]
    );
    let operations = |test: usize| -> u64 {
        let parts = report["tests"][test]["parts"].as_array().unwrap().iter();
        parts.map(|part| part["operations"].as_u64().unwrap()).sum()
    };
    assert_eq!([0, 1, 2, 3].map(operations), [400; 4]);
    assert!(operations(5) >= 400);
    let mixed = report["mixed"].as_object().unwrap();
    let sum: u64 = mixed.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(sum, operations(4));
    for (name, count) in mixed {
        assert!(
            name == "missed" || count.as_u64() > Some(0),
            "{name}: {mixed:?}"
        );
    }
    assert!(out.contains("Level 1: "), "{out}");
}

#[test]
fn what_is_grown_resembles_what_was_scanned() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("real");
    // Each of 4 directories has 3 files of 100 bytes and no directory; the top has no file.
    for index in 0..12 {
        let below = real.join(format!("d{}", index % 4));
        std::fs::create_dir_all(&below).unwrap();
        std::fs::write(below.join(format!("f{index}")), [1; 100]).unwrap();
    }
    let profile = dir.path().join("profile");
    let done = Program::new(MDMARK, "")
        .on("--scan", &real)
        .on("--profile", &profile)
        .run();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(
        done.out.contains("12 files in 5 directories on 2 levels"),
        "{}",
        done.out
    );
    let flags = "-e 500 -t 0.1 -T stats";
    let (report, _) = ran(MDMARK, flags, Some(&profile));
    let level = |level: usize, what: &str| report["found"]["levels"][level][what].clone();
    // Level 0 is the run's own directory, which holds the trees.
    let zero_files = level(1, "files");
    assert_eq!(zero_files.as_array().unwrap().len(), 1, "{report}");
    // 2 to 3 files, and 64 to 127 bytes: the steps of what was seen. (A limit may cut off the last ones.)
    let files = level(2, "files");
    let files: Vec<u64> = files
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_u64().unwrap())
        .collect();
    assert_eq!(files.len(), 3, "{report}");
    assert!(files[2] > 50 && files[0] + files[1] <= 8, "{files:?}");
    assert_eq!(
        report["found"]["sizes"].as_array().unwrap().len(),
        8,
        "{report}"
    );
    assert_eq!(report["found"]["levels"].as_array().unwrap().len(), 3);
    let (again, _) = ran(MDMARK, flags, Some(&profile));
    assert_eq!(report["found"], again["found"]);
    let (other, _) = ran(MDMARK, &format!("{flags} --seed 2"), Some(&profile));
    assert_ne!(report["bytes"], other["bytes"]);
}

#[test]
fn bad_input_is_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    for (program, flags, code, says) in [
        (PIORAW, "-t 0", 2, "above 0"),
        (PIORAW, "-f 1K -b 4K", 2, "more than the file"),
        (PIORAW, "-b 4K,4K", 2, "once"),
        (PIORAW, "-b 1000 -I", 2, "multiple of 512"),
        (PIORAW, "-f 8000000G", 1, "MB free"),
        (MDMARK, "-e 0", 2, "0 is not in"),
        (MDMARK, "-t -1", 2, "error"),
        (MDMARK, "--scan /", 2, "--profile"),
        (MDMARK, "-p /dev/null", 2, "is no profile"),
        (MDMARK, "-p /nowhere", 1, "cannot read the profile"),
    ] {
        let done = Program::new(program, flags).on("-d", dir.path()).run();
        assert_eq!(done.code, Some(code), "{flags}: {}", done.err);
        assert!(done.err.contains(says), "{flags}: {}", done.err);
        assert_eq!(done.out, "");
        assert!(empty(dir.path()));
    }
}

#[test]
fn a_run_that_is_ended_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let running = Program::new(MDMARK, "--np 2 -e 100 -t 1000 -T mix")
        .on("-d", dir.path())
        .start();
    running.wait_until(|| !empty(dir.path()));
    running.kill(running.id(), "TERM");
    let done = running.end();
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert_eq!(done.out, "");
    assert!(empty(dir.path()));
}
