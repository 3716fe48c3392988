//! Panics: one ends the process, unless the code that panics runs inside `caught`.
//!
//! Owns   the process's panic hook.
//! Never  decides what a caught panic means.
//! Enter  at `end_the_process`, once, by a program; at `caught`, around a library that panics where it should return an error.
//!
//! A broken invariant in one task says that memory may be wrong; every other task of the process reads the same memory. A
//! process that ends is started again and recovers from what is on disk. Programs that do not call `end_the_process`, such as tests and
//! simulations, keep Rust's ordinary panics.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::{Once, OnceLock};

/// The exit code that a panic gives the process; unset in programs that keep ordinary panics.
static EXIT_CODE: OnceLock<i32> = OnceLock::new();

thread_local! {
    /// How many calls of `caught` this thread is inside of.
    static CATCHING: Cell<u32> = const { Cell::new(0) };
    /// What the last panic inside `caught` said, and where.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic that `caught` turned into an error: its message and its place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct CaughtPanic(String);

/// From now on the first panic on any thread is logged with its place and ends the process with `exit_code`.
pub fn end_the_process(exit_code: i32) {
    let _ = EXIT_CODE.set(exit_code);
    install();
}

/// Runs `run`; a panic in it, on this thread, is an error. It is neither printed nor does it end the process.
///
/// The caller must not use afterwards what `run` was changing: it may be half changed.
pub fn caught<T>(run: impl FnOnce() -> T) -> Result<T, CaughtPanic> {
    install();
    let inside = Inside::enter();
    let outcome = catch_unwind(AssertUnwindSafe(run));
    drop(inside);
    outcome.map_err(|panic| {
        let noted = CAUGHT.take();
        CaughtPanic(noted.unwrap_or_else(|| message(&*panic)))
    })
}

/// Counts one `caught`, also when the thread leaves it by a panic that nobody here catches.
struct Inside;

impl Inside {
    fn enter() -> Inside {
        CATCHING.set(CATCHING.get() + 1);
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        CATCHING.set(CATCHING.get() - 1);
    }
}

/// One hook for the life of the process: hooks that replace each other while threads panic would lose panics.
fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let ordinary = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if CATCHING.get() > 0 {
                CAUGHT.set(Some(describe(panic)));
            } else if let Some(exit_code) = EXIT_CODE.get() {
                end(panic, *exit_code);
            } else {
                ordinary(panic);
            }
        }));
    });
}

/// Logs, and ends the process before anything is unwound: no destructor runs on a broken state.
fn end(panic: &PanicHookInfo, exit_code: i32) -> ! {
    let what = describe(panic);
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    if tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!(
            thread,
            "gupfs ends, since it panicked: {what}. This is a bug; please report it"
        );
    } else {
        eprintln!(
            "gupfs ends, since thread '{thread}' panicked: {what}. This is a bug; please report it."
        );
    }
    // Only where RUST_BACKTRACE asks for it, and after the message: a stack that the bug has overwritten can end the process here.
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        eprintln!("{backtrace}");
    }
    // SAFETY: it takes no memory of ours. Not `exit`: that runs what is to be done at the end, among it the destructors of this
    // thread's own variables, and one that panics would end the process by SIGABRT.
    unsafe { libc::_exit(exit_code) }
}

fn describe(panic: &PanicHookInfo) -> String {
    let message = message(panic.payload());
    match panic.location() {
        Some(place) => format!("{message} (at {place})"),
        None => message,
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caught_panic_is_an_error_with_message_and_place() {
        assert_eq!(caught(|| 7), Ok(7));
        let error = caught(|| panic!("level {} is broken", 3)).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("level 3 is broken (at "), "{text}");
        assert!(text.contains("panics.rs:"), "{text}");
    }

    #[test]
    fn a_caught_panic_inside_another_leaves_the_outer_one_catching() {
        let outer = caught(|| {
            caught(|| panic!("inner")).unwrap_err();
            panic!("outer");
        });
        let error: CaughtPanic = outer.unwrap_err();
        assert!(error.to_string().starts_with("outer (at "), "{error}");
        assert_eq!(CATCHING.get(), 0);
    }
}
