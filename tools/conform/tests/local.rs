//! The suite over a local file system, where everything passes but what its type is known for; and the program's face.

#![allow(clippy::disallowed_methods)] // These tests stand outside every simulated world, like the suite itself.

use std::path::Path;
use std::process::{Command, Output};

use gupfs_conform::{Filter, run};
use gupfs_skips::{Need, skip};

fn conform(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_conform"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_local_directory_conforms_and_is_left_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let report = run(directory.path(), &Filter::default()).unwrap();
    assert!(report.is_clean(), "{report}");
    assert!(
        report.tried.len() >= 1_400,
        "only {} checks ran",
        report.tried.len()
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let needs_root = |reason: &str| reason.starts_with("needs root");
    let skipped = report.skips().filter(|(_, reason)| needs_root(reason));
    match skipped.count() {
        0 => {}
        checks => skip(
            Need::Root,
            format!("{checks} checks of the suite need root"),
        ),
    }
}

#[test]
fn memory_conforms_too() {
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() {
        skip(Need::FileSystem, "there is no /dev/shm on this host");
        return;
    }
    let directory = tempfile::tempdir_in(memory).unwrap();
    let report = run(directory.path(), &Filter::containing("mmap/")).unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn the_program_ends_with_0_when_all_passes_1_when_something_fails_2_when_it_cannot_run() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().to_str().unwrap();
    let good = conform(&[here, "--filter", "mkdir/onto-file"]);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stdout));
    assert!(
        text(&good.stdout).starts_with("mkdir            1 passed"),
        "{}",
        text(&good.stdout)
    );

    // /proc takes no directories: not one check can begin there.
    let cannot = conform(&["/proc"]);
    assert_eq!(cannot.status.code(), Some(2));
    assert!(
        text(&cannot.stderr).contains("cannot work in /proc: mkdir says"),
        "{}",
        text(&cannot.stderr)
    );

    // A local file system without clones, or with: one of the two requirements fails.
    let bad = conform(&[
        here,
        "--filter",
        "inotify/silence",
        "--require",
        "*",
        "--except",
        "inotify/*=known",
    ]);
    assert_eq!(
        bad.status.code(),
        Some(0),
        "a needless exception is only noted: {}",
        text(&bad.stdout)
    );
    assert!(
        text(&bad.stdout).contains("its exception can go: known"),
        "{}",
        text(&bad.stdout)
    );
}

#[test]
fn the_list_names_every_check_with_its_promise() {
    let list = conform(&["--list"]);
    assert_eq!(list.status.code(), Some(0));
    let list = text(&list.stdout);
    assert!(
        list.contains("rename/onto-itself-does-nothing\n    Old and new name the same entry"),
        "{list}"
    );
}
