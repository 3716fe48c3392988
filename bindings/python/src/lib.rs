//! # gupfs._gupfs: the compiled part of the Python package
//!
//! Owns   the runtime of the process (`runtime`), waiting for an operation without the GIL (`wait`), conversions of paths, buffers, errors
//!        and attributes.
//! Never  decides what a file object or a connection is: `python/gupfs` does.
//! Enter  at `connect`.

mod buffer;
mod convert;
mod file;
mod process;
mod runtime;
mod session;
mod wait;

use pyo3::prelude::*;

#[pymodule]
fn _gupfs(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<session::Session>()?;
    module.add_class::<session::Entry>()?;
    module.add_class::<file::Handle>()?;
    module.add_function(wrap_pyfunction!(session::connect, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::before_fork, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::after_fork_in_parent, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::after_fork_in_child, module)?)?;
    Ok(())
}
