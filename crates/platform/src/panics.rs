//! Panics: a panic ends the process, unless it happens inside `catch_panic`.
//!
//! Owns   the process's panic hook.
//! Never  decides what a caught panic means.
//! Enter  at `exit_on_panic`, once, by a program; at `catch_panic`, around a library that panics where it should return an error.
//!
//! A broken invariant in one task means that memory may be corrupt, and every other task of the process reads the same memory. A
//! process that ends is restarted and recovers from its disk. Programs that do not call `exit_on_panic`, such as tests and
//! simulations, keep Rust's ordinary panics.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::{Once, OnceLock};

/// The exit code of the process after a panic; unset in programs that keep ordinary panics.
static EXIT_CODE: OnceLock<i32> = OnceLock::new();

thread_local! {
    /// Number of nested `catch_panic` calls on this thread.
    static CATCHING: Cell<u32> = const { Cell::new(0) };
    /// Message and location of the last panic inside `catch_panic`.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic that `catch_panic` turned into an error: its message and location.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct CaughtPanic(String);

/// From now on the first panic on any thread is logged with its location and ends the process with `exit_code`.
pub fn exit_on_panic(exit_code: i32) {
    let _ = EXIT_CODE.set(exit_code);
    install_hook();
}

/// Runs `run` and returns a panic in it, on this thread, as an error. The panic is not printed and does not end the process.
///
/// After an error the caller must not use any state that `run` was changing: the change may be incomplete.
///
/// # Errors
/// The panic, described with its message and location.
pub fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, CaughtPanic> {
    install_hook();
    let inside = CatchScope::enter();
    let outcome = catch_unwind(AssertUnwindSafe(run));
    drop(inside);
    outcome.map_err(|panic| {
        let described = CAUGHT.take();
        CaughtPanic(described.unwrap_or_else(|| message(&*panic)))
    })
}

/// Counts one `catch_panic` call until it is dropped, also when the thread unwinds through it.
struct CatchScope;

impl CatchScope {
    fn enter() -> CatchScope {
        CATCHING.set(CATCHING.get() + 1);
        CatchScope
    }
}

impl Drop for CatchScope {
    fn drop(&mut self) {
        CATCHING.set(CATCHING.get() - 1);
    }
}

/// Installs one hook until the process ends: hooks that replace each other while threads panic would lose panics.
fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let ordinary = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if CATCHING.get() > 0 {
                CAUGHT.set(Some(describe(panic)));
            } else if let Some(exit_code) = EXIT_CODE.get() {
                log_and_exit(panic, *exit_code);
            } else {
                ordinary(panic);
            }
        }));
    });
}

/// Logs the panic and ends the process before it unwinds: no destructor runs on a broken state.
fn log_and_exit(panic: &PanicHookInfo, exit_code: i32) -> ! {
    let what = describe(panic);
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    if tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!(
            thread,
            "gupfs exits because it panicked: {what}. This is a bug; please report it"
        );
    } else {
        eprintln!(
            "gupfs exits: thread '{thread}' panicked: {what}. This is a bug; please report it."
        );
    }
    // Only if RUST_BACKTRACE is set, and after the message: a stack that the bug has overwritten can end the process here.
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        eprintln!("{backtrace}");
    }
    // SAFETY: the call takes no pointers. Not `exit`: that runs exit handlers and the destructors of this thread's thread-local
    // variables, and one that panics would end the process by SIGABRT.
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
    fn a_caught_panic_is_an_error_with_message_and_location() {
        assert_eq!(catch_panic(|| 7), Ok(7));
        let error = catch_panic(|| panic!("level {} is broken", 3)).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("level 3 is broken (at "), "{text}");
        assert!(text.contains("panics.rs:"), "{text}");
    }

    #[test]
    fn a_nested_caught_panic_leaves_the_outer_catch_in_effect() {
        let outer = catch_panic(|| {
            catch_panic(|| panic!("inner")).unwrap_err();
            panic!("outer");
        });
        let error: CaughtPanic = outer.unwrap_err();
        assert!(error.to_string().starts_with("outer (at "), "{error}");
        assert_eq!(CATCHING.get(), 0);
    }
}
