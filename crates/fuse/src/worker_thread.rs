//! Threads that serve requests: what wraps them, and how to recognize one.

use std::cell::Cell;
use std::sync::Arc;

/// Wraps the main function of a worker thread; it must call its argument exactly once. This lets the thread hold a guard, for
/// example of a runtime: `|run| { let _in = handle.enter(); run() }`.
pub type AroundWorker = Arc<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

thread_local! {
    static ON_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Marks the current thread as a FUSE worker.
pub(crate) fn mark_worker_thread() {
    ON_WORKER.set(true);
}

/// Whether the current thread is a FUSE worker.
pub(crate) fn on_worker_thread() -> bool {
    ON_WORKER.get()
}
