//! A process that called `panics::exit_on_panic` ends at the first panic, in any task or thread. Each case runs in a process of
//! its own: this program, started again for one test.

#![allow(clippy::disallowed_methods)] // threads and tasks of every kind, on purpose

use gupfs_platform::panics::{catch_panic, exit_on_panic};
use gupfs_platform::{Platform, Tasks};
use std::process::{Command, Output};
use std::time::Duration;

/// Environment variable with the case that a process started by these tests must run.
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

/// The body of the started process; returns at once in the test process itself.
#[test]
fn run_this_case() {
    let Ok(case) = std::env::var(CASE) else {
        return;
    };
    if case != "ordinary" {
        exit_on_panic(CODE);
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
                // The panicking thread has a thread-local variable whose destructor panics, too.
                let thread = tasks.spawn_thread("broken", || {
                    BROKEN.with(|_| panic!("planted"));
                });
                drop(thread.unwrap().join());
            }
            "elsewhere" => {
                // Another thread is inside `catch_panic`; it must not catch the panic of this one.
                let other = tasks
                    .spawn_thread("catcher", || {
                        catch_panic(|| std::thread::sleep(Duration::from_secs(60)))
                    })
                    .unwrap();
                tasks.spawn("broken", async { panic!("planted") });
                drop(other.join());
            }
            "caught" => {
                catch_panic(|| panic!("expected")).unwrap_err();
                tasks
                    .blocking(|| catch_panic(|| panic!("expected")).unwrap_err())
                    .await;
            }
            other => unreachable!("{other}"),
        }
    });
    std::process::exit(3);
}

fn run_case(case: &str) -> (Option<i32>, String) {
    let program = std::env::current_exe().unwrap();
    let Output { status, stderr, .. } = Command::new(program)
        .args(["--exact", "run_this_case", "--nocapture"])
        .env(CASE, case)
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn a_panic_in_any_task_or_thread_ends_the_process() {
    for case in ["task", "blocking", "thread", "elsewhere", "destructor"] {
        let (code, stderr_text) = run_case(case);
        assert_eq!(code, Some(CODE), "{case}: {stderr_text}");
        assert!(
            stderr_text.contains("panicked: planted (at "),
            "{case}: {stderr_text}"
        );
        assert!(
            stderr_text.contains("tests/panics.rs:"),
            "{case}: {stderr_text}"
        );
        assert!(
            !stderr_text.contains("a destructor ran"),
            "{case}: {stderr_text}"
        );
    }
}

#[test]
fn a_caught_panic_ends_nothing_and_is_not_printed() {
    assert_eq!(run_case("caught"), (Some(3), String::new()));
}

#[test]
fn a_program_that_did_not_ask_for_it_keeps_ordinary_panics() {
    let (code, stderr_text) = run_case("ordinary");
    assert_eq!(code, Some(3), "{stderr_text}");
}
