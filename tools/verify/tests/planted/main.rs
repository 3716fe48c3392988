//! `gupfs-verify` finds every fault that is planted in a file system of two mounts, and nothing where none is.
//!
//! PLANTED_SECONDS: the full length: how long each fault may take to be found (300), and the rarest strikes once in 10,000 chances.

// These tests stand outside every simulated world, like what they try.
#![allow(clippy::disallowed_methods)]

mod data;
mod faults;
mod pages;
mod requests;
mod served;
mod state;

use std::process::Command;
use std::sync::{Arc, Mutex};

use faults::{Fault, Switch};
use fuser::{Config, MountOption, SessionACL};
use served::Served;
use state::State;

/// Without PLANTED_SECONDS. A run ends at its first finding: nearly all take a second or two, and chance has the rest.
const SECONDS: &str = "300";

/// The groups of operations that run by default, without mappings: these mounts refuse shared ones.
const OPS: &str = "names,data,append,attributes,locks";

/// Runs `gupfs-verify` on two mounts of one file system with this fault: its exit code, and its report as JSON.
fn verify(fault: Option<Fault>, ops: &str, seconds: &str) -> (Option<i32>, serde_json::Value) {
    verify_with(fault, &["--ops", ops, "--seconds", seconds])
}

fn verify_with(fault: Option<Fault>, flags: &[&str]) -> (Option<i32>, serde_json::Value) {
    let state = Arc::new(Mutex::new(State::new()));
    let switch = Arc::new(Switch::new(fault));
    let kernels = Arc::new(pages::Kernels::default());
    let place = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.acl = SessionACL::All;
    config.mount_options = vec![
        MountOption::DefaultPermissions,
        MountOption::FSName("planted".into()),
    ];
    // Twice the processes of a mount: while a change of each waits for pages of the other mount, READs are answered there.
    config.n_threads = Some(8);
    config.clone_fd = true;
    let mounts: Vec<_> = (0..2)
        .map(|mount| {
            let path = place.path().join(format!("mount{mount}"));
            std::fs::create_dir(&path).unwrap();
            let served = Served {
                mount,
                state: state.clone(),
                switch: switch.clone(),
                kernels: kernels.clone(),
            };
            let session = fuser::spawn_mount(served, &path, &config).unwrap();
            let first = kernels[mount].set(session.notifier());
            first.expect("each mount has one kernel");
            (path, session)
        })
        .collect();
    let output = Command::new(env!("CARGO_BIN_EXE_gupfs-verify"))
        .args(mounts.iter().map(|(path, _)| path))
        .args(flags)
        .args(["--round", "0.5", "--json", "--seed", "7", "--out"])
        .arg(place.path())
        .output()
        .unwrap();
    for (_, session) in mounts {
        session.umount_and_join().unwrap();
    }
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        let text = String::from_utf8_lossy(&output.stderr);
        panic!("no report ({error}): {text}")
    });
    (output.status.code(), report)
}

/// PLANTED_OPS: other groups of operations.
fn ops() -> String {
    std::env::var("PLANTED_OPS").unwrap_or(OPS.into())
}

fn found_in(fault: Fault, ops: &str) {
    let seconds = std::env::var("PLANTED_SECONDS").unwrap_or(SECONDS.into());
    let (code, report) = verify(Some(fault), ops, &seconds);
    assert_eq!(code, Some(1), "{fault:?} was not found: {report:#}");
    let found = &report["found"][0];
    println!(
        "{fault:?}: {:.1} s, {} records, about {}, replayed {}",
        report["figures"]["seconds"].as_f64().unwrap_or_default(),
        found["records"].as_array().map_or(0, Vec::len),
        found["about"],
        found["replayed"],
    );
    if std::env::var("PLANTED_SHOW").is_ok() {
        println!("{:#}", found["session"]);
    }
}

#[test]
fn without_a_fault_nothing_is_found() {
    let seconds = std::env::var("PLANTED_SECONDS").unwrap_or("8".into());
    let (code, report) = verify(None, &ops(), &seconds);
    assert_eq!(code, Some(0), "{report:#}");
    // Names that eight processes fight for on a busy machine may reach the bound; a verdict on the rest it is all the same.
    let share = |what: &str| report["figures"][what].as_f64().unwrap_or(f64::MAX);
    assert!(
        share("undecided") < share("operations") / 50.0,
        "{report:#}"
    );
    println!("{:#}", report["figures"]);
}

#[test]
fn every_fault_is_found() {
    let only = std::env::var("PLANTED_ONLY").unwrap_or_default();
    for fault in faults::ALL {
        if format!("{fault:?}").contains(&only) {
            found_in(fault, &ops());
        }
    }
}

#[test]
fn pages_that_a_kernel_keeps_are_found_by_splice_alone() {
    let (code, report) = verify(None, "splice,data", "6");
    assert_eq!(code, Some(0), "without a fault: {report:#}");
    let done = |kind: &str| report["figures"]["kinds"][kind].as_u64().unwrap_or(0);
    for kind in ["sendfile", "splice", "copy_file_range"] {
        assert!(done(kind) > 20, "{kind}: {report:#}");
    }
    assert_eq!(report["figures"]["unsupported"], serde_json::json!({}));
    let (code, report) = verify(Some(Fault::PagesKept), OPS, "4");
    assert_eq!(code, Some(0), "read(2) shows it: {report:#}");
    found_in(Fault::PagesKept, "splice");
}

#[test]
fn what_only_old_files_show_is_found_by_held_alone() {
    let (code, report) = verify(None, "held,data", "8");
    assert_eq!(code, Some(0), "without a fault: {report:#}");
    let done = |kind: &str| report["figures"]["kinds"][kind].as_u64().unwrap_or(0);
    for kind in ["getcwd", "rename-directory", "chmod"] {
        assert!(done(kind) > 20, "{kind}: {report:#}");
    }
    for fault in [
        Fault::OldFileOldAttributes,
        Fault::OldFileOldBytes,
        Fault::OldDirOldNames,
    ] {
        let (code, report) = verify(Some(fault), OPS, "5");
        assert_eq!(code, Some(0), "{fault:?} in a round: {report:#}");
        found_in(fault, "held");
    }
}

#[test]
fn an_operation_that_hangs_is_a_finding() {
    let flags = ["--ops", "attributes", "--seconds", "60", "--deadline", "1"];
    let (code, report) = verify_with(Some(Fault::Hangs), &flags);
    assert_eq!(code, Some(1), "{report:#}");
    assert_eq!(report["found"][0]["what"], "hang", "{report:#}");
}
