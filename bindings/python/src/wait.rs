//! Waiting for an operation: the calling thread polls it, without the GIL, so that what the process has in memory costs no other thread.

use crate::convert::os_error;
use crate::runtime::runtime;
use gupfs_files::RunToEnd;
use pyo3::prelude::*;
use std::future::Future;
use std::time::Duration;

/// How often a waiting call looks for signals, of which Ctrl-C is one.
const SIGNAL_CHECK: Duration = Duration::from_millis(100);

/// The result of an operation on `path`. If a signal's handler raises, the operation goes on in the background.
///
/// # Errors
/// OSError of the operation; what the handler raises.
pub fn wait<T: Send + 'static>(
    py: Python<'_>,
    operation: RunToEnd<T>,
    path: Option<&Bound<'_, PyAny>>,
) -> PyResult<T> {
    wait_for(py, operation)?.map_err(|error| os_error(&error, path))
}

/// Runs a future on the runtime of this process.
///
/// # Errors
/// What a signal's handler raises: then the future is dropped.
pub fn wait_for<F: Future + Send>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F::Output: Send,
{
    let runtime = runtime()?;
    let mut future = Box::pin(future);
    loop {
        let waited = py.detach(|| {
            runtime.block_on(async { tokio::time::timeout(SIGNAL_CHECK, &mut future).await })
        });
        match waited {
            Ok(result) => return Ok(result),
            Err(_) => {
                if let Err(raised) = py.check_signals() {
                    // What goes on in the background needs the runtime.
                    let _in_runtime = runtime.enter();
                    drop(future);
                    return Err(raised);
                }
            }
        }
    }
}
