//! Power losses of the real program: what fsync acknowledged survives every one of them.
//!
//! kill -9 keeps the page cache, so it can never show a missing fsync. Here the store is on ext4 in an image file, and the
//! image is on XFS, where a reflink copy has the state of the image at one moment, without the data that ext4 had not written yet.
//! That copy *is* the disk after a power loss. gupfs starts on it, and every file must be in a state that the journal of its writer
//! permits. With every fsync made a no-op by a preloaded library the same test must fail; otherwise it shows nothing.
//!
//! Needs root, loop devices, mkfs.xfs, mkfs.ext4 and a C compiler. GUPFS_CUTS sets the number of cuts.

// A test of the real program on the real clock.
#![allow(clippy::disallowed_methods)]

mod images;
mod journal;
mod load;
mod program;

use images::Images;
use journal::Journals;
use load::{Acknowledge, Load};
use program::Program;
use std::path::Path;
use std::time::Duration;

const WRITERS: usize = 4;

/// Test: SEMANTICS "Synced data survives a power loss".
#[test]
fn acknowledged_fsyncs_survive_power_cuts() {
    let cuts = std::env::var("GUPFS_CUTS")
        .ok()
        .and_then(|cuts| cuts.parse().ok())
        .unwrap_or(50);
    let outcome = cut_power(cuts, None);
    assert!(
        outcome.acknowledged > 20 * WRITERS as u64,
        "too little happened: {outcome:?}"
    );
    assert!(
        outcome.violations.is_empty(),
        "{} of {cuts} cuts:\n{}",
        outcome.violations.len(),
        outcome.violations.join("\n")
    );
    println!(
        "{cuts} cuts, {} acknowledged steps, {} files compared",
        outcome.acknowledged, outcome.compared
    );
}

#[test]
fn without_fsync_the_same_test_fails() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let shim = build_shim(scratch.path());
    let outcome = cut_power(6, Some(&shim));
    assert!(
        !outcome.violations.is_empty(),
        "fsync did nothing and nobody noticed: {outcome:?}"
    );
}

/// Test: SEMANTICS "An acknowledged change survives the end of the process".
#[test]
fn acknowledged_changes_survive_kill_9() {
    let kills = std::env::var("GUPFS_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(12);
    let dir = tempfile::Builder::new()
        .prefix("gupfs-kill-")
        .tempdir()
        .expect("a temporary directory");
    let (store, mount) = (dir.path().join("store"), dir.path().join("mount"));
    std::fs::create_dir(&mount).expect("a mount point");
    let mut acknowledged = 0;
    let mut program = Program::start(&store, &mount, None);
    for round in 0..kills {
        let journals = Journals::new(WRITERS);
        let under = mount.join(format!("round-{round}"));
        std::fs::create_dir(&under).expect("a fresh directory");
        let load = Load::start(&under, &journals, Acknowledge::Answered);
        std::thread::sleep(Duration::from_millis(300 + 91 * (round as u64 % 7)));
        program.kill();
        load.died();
        let last = journals.acknowledged();
        acknowledged += last.iter().sum::<u64>();
        program = Program::start(&store, &mount, None);
        let judged = journals.snapshot().judge(&last, &under);
        assert!(
            judged.violations.is_empty(),
            "kill {round}:\n{}",
            judged.violations.join("\n")
        );
    }
    program.stop();
    assert!(
        acknowledged > 100 * kills as u64,
        "too little happened: {acknowledged} steps in {kills} rounds"
    );
}

#[derive(Debug, Default)]
struct Outcome {
    violations: Vec<String>,
    acknowledged: u64,
    compared: u64,
}

fn cut_power(cuts: usize, shim: Option<&Path>) -> Outcome {
    let images = Images::make();
    let program = Program::start(&images.store(), &images.mount_point("live"), shim);
    let journals = Journals::new(WRITERS);
    let load = Load::start(program.mount(), &journals, Acknowledge::Synced);
    let mut outcome = Outcome::default();
    for cut in 0..cuts {
        std::thread::sleep(Duration::from_millis(150 + 37 * (cut as u64 % 11)));
        // First the acknowledged steps, then the power loss: steps that are acknowledged in between are not required.
        let acknowledged = journals.acknowledged();
        let after = images.cut();
        let begun = journals.snapshot();
        match Program::try_start(&after.store(), &images.mount_point("after"), None) {
            Ok(program) => {
                let judged = begun.judge(&acknowledged, program.mount());
                outcome.compared += judged.compared;
                outcome.violations.extend(
                    judged
                        .violations
                        .iter()
                        .map(|violation| format!("cut {cut}: {violation}")),
                );
                program.stop();
            }
            Err(error) => outcome.violations.push(format!(
                "cut {cut}: gupfs does not start on what is left: {error}"
            )),
        }
        outcome.acknowledged = acknowledged.iter().sum();
        drop(after);
    }
    load.stop();
    program.stop();
    outcome
}

fn build_shim(dir: &Path) -> std::path::PathBuf {
    let library = dir.join("no_sync.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/power_cut/no_sync.c");
    let status = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(&source)
        .status();
    assert!(
        status.expect("cc is there").success(),
        "no_sync.c does not compile"
    );
    library
}
