//! A process that called `panics::end_the_process` ends at the first panic, in whichever task or thread it is. Each case runs in a
//! process of its own: this program, started again for one test.

#![allow(clippy::disallowed_methods)] // threads and tasks of every kind, on purpose

use gupfs_platform::panics::{caught, end_the_process};
use gupfs_platform::{Platform, Tasks};
use std::process::{Command, Output};
use std::time::Duration;

/// Names the case that a process started by these tests is to play.
const CASE: &str = "GUPFS_TEST_PANIC_CASE";
const CODE: i32 = 70;

struct Broken;

impl Drop for Broken {
    fn drop(&mut self) {
        panic!("a destructor ran");
    }
}

thread_local! {
    static BROKEN: Broken = const { Broken };
}

/// What the other process does, if this is it.
#[test]
fn play() {
    let Ok(case) = std::env::var(CASE) else {
        return;
    };
    if case != "ordinary" {
        end_the_process(CODE);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let tasks: Tasks = Platform::real().tasks;
        match case.as_str() {
            "task" | "ordinary" => drop(tasks.spawn("broken", async { panic!("planted") }).await),
            "blocking" => tasks.blocking(|| panic!("planted")).await,
            "thread" => drop(
                tasks
                    .spawn_thread("broken", || panic!("planted"))
                    .unwrap()
                    .join(),
            ),
            "destructor" => {
                // The panicking thread has a variable whose destructor finds a broken state, too.
                let thread = tasks.spawn_thread("broken", || {
                    BROKEN.with(|_| panic!("planted"));
                });
                drop(thread.unwrap().join());
            }
            "elsewhere" => {
                // Another thread catches a panic of its own; this one's is none of its affair.
                let other = tasks
                    .spawn_thread("catcher", || {
                        caught(|| std::thread::sleep(Duration::from_secs(60)))
                    })
                    .unwrap();
                tasks.spawn("broken", async { panic!("planted") });
                drop(other.join());
            }
            "caught" => {
                caught(|| panic!("expected")).unwrap_err();
                tasks
                    .blocking(|| caught(|| panic!("expected")).unwrap_err())
                    .await;
            }
            other => unreachable!("{other}"),
        }
    });
    std::process::exit(3);
}

fn played(case: &str) -> (Option<i32>, String) {
    let program = std::env::current_exe().unwrap();
    let Output { status, stderr, .. } = Command::new(program)
        .args(["--exact", "play", "--nocapture"])
        .env(CASE, case)
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn a_panic_in_any_task_or_thread_ends_the_process() {
    for case in ["task", "blocking", "thread", "elsewhere", "destructor"] {
        let (code, said) = played(case);
        assert_eq!(code, Some(CODE), "{case}: {said}");
        assert!(said.contains("panicked: planted (at "), "{case}: {said}");
        assert!(said.contains("tests/panics.rs:"), "{case}: {said}");
        assert!(!said.contains("a destructor ran"), "{case}: {said}");
    }
}

#[test]
fn a_caught_panic_ends_nothing_and_is_not_printed() {
    assert_eq!(played("caught"), (Some(3), String::new()));
}

#[test]
fn a_program_that_did_not_ask_for_it_keeps_ordinary_panics() {
    let (code, said) = played("ordinary");
    assert_eq!(code, Some(3), "{said}");
}
