//! The programs `pioraw` and `mdmark` as a person starts them.

mod program;

use std::path::Path;

use program::{Program, empty, refuses};
use serde_json::Value;

const PIORAW: &str = env!("CARGO_BIN_EXE_pioraw");
const MDMARK: &str = env!("CARGO_BIN_EXE_mdmark");

/// Runs a program in a new directory: its JSON report, and what it printed.
fn ran(program: &str, flags: &str, profile: Option<&Path>) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut program = Program::new(program, flags);
    if let Some(profile) = profile {
        program = program.on("--profile", profile);
    }
    let (done, report) = program.report(dir.path());
    (report, done.out)
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
    let mut went_around = false;
    for turn in report["turns"].as_array().unwrap() {
        for step in [&turn["write"], &turn["read"]] {
            let parts = step["parts"].as_array().unwrap();
            assert_eq!(parts.len(), 2);
            for part in parts {
                // A slow host may take longer for the last block.
                assert!(part["seconds"].as_f64().unwrap() >= 0.2, "{part}");
                let bytes = part["bytes"].as_u64().unwrap();
                assert!(bytes > 0, "{part}");
                went_around |= bytes > 200 << 10;
            }
        }
    }
    // Not each does on a slow host, but one does.
    assert!(went_around, "{report}");
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
    // A host that is too slow for so many operations may miss a rare kind.
    for (name, count) in mixed.iter().filter(|_| sum >= 1_000) {
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
    let wrong = [
        ("-t 0", 2, "above 0"),
        ("-f 1K -b 4K", 2, "more than the file"),
        ("-b 4K,4K", 2, "once"),
        ("-b 1000 -I", 2, "multiple of 512"),
        ("-f 8000000G", 1, "MB free"),
    ];
    refuses(PIORAW, "", &wrong);
    let wrong = [
        ("-e 0", 2, "0 is not in"),
        ("-t -1", 2, "error"),
        ("--scan /", 2, "--profile"),
        ("-p /dev/null", 2, "is no profile"),
        ("-p /nowhere", 1, "cannot read the profile"),
    ];
    refuses(MDMARK, "", &wrong);
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
