//! Paths, errors and attributes between Python and gupfs.

use gupfs_files::SetupError;
use gupfs_proto::{Attr, FsError, Timestamp, errno_number};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Preferred size of reads and writes, as a mount has it.
const BLOCK_SIZE: u32 = 4096;

/// The bytes of a path: str (as `os.fsencode`), bytes or `os.PathLike`.
///
/// # Errors
/// TypeError; ValueError for a NUL byte.
pub fn path_bytes(path: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let bytes = if let Ok(bytes) = path.cast::<PyBytes>() {
        bytes.as_bytes().to_vec()
    } else if path.is_instance_of::<PyString>() {
        path.extract::<OsString>()?.into_vec()
    } else {
        return path_bytes(&path.py().import("os")?.call_method1("fspath", (path,))?);
    };
    match bytes.contains(&0) {
        true => Err(PyValueError::new_err("embedded null byte")),
        false => Ok(bytes),
    }
}

/// A name as str, as `os.fsdecode`.
///
/// # Errors
/// Python's, without memory.
pub fn name_text<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(name) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => (OsString::from_vec(name.to_vec()).into_pyobject(py))
            .map(Bound::into_any)
            .map_err(Into::into),
    }
}

/// OSError, or its subclass for the number, with the path.
pub fn os_error(error: &FsError, path: Option<&Bound<'_, PyAny>>) -> PyErr {
    let errno = errno_number(error);
    let text = message(error, errno);
    match path {
        Some(path) => PyOSError::new_err((errno, text, path.clone().unbind())),
        None => PyOSError::new_err((errno, text)),
    }
}

/// The same for two paths.
pub fn os_error_of_two(error: &FsError, from: &Bound<'_, PyAny>, to: &Bound<'_, PyAny>) -> PyErr {
    let errno = errno_number(error);
    let text = message(error, errno);
    let (from, to) = (from.clone().unbind(), to.clone().unbind());
    PyOSError::new_err((errno, text, from, None::<u8>, to))
}

/// What the system says; of a failure of servers or network, what gupfs knows.
fn message(error: &FsError, errno: i32) -> String {
    match error {
        FsError::ObjectDamaged { .. }
        | FsError::TargetDown { .. }
        | FsError::StoreFailed(_)
        | FsError::Overloaded
        | FsError::TimedOut(_)
        | FsError::Interrupted
        | FsError::SessionEnded
        | FsError::Capability(_)
        | FsError::Malformed(_) => error.to_string(),
        _ => {
            let system = std::io::Error::from_raw_os_error(errno).to_string();
            match system.find(" (os error") {
                Some(end) => system[..end].to_string(),
                None => system,
            }
        }
    }
}

/// Why no connection was made.
pub fn setup_error(error: &SetupError) -> PyErr {
    PyOSError::new_err((error.errno(), error.to_string()))
}

/// `os.stat_result`.
///
/// # Errors
/// Python's, without memory.
pub fn stat_result<'py>(py: Python<'py>, attr: &Attr) -> PyResult<Bound<'py, PyAny>> {
    let mode = attr.kind.type_bits() | u32::from(attr.mode.0);
    let fields = (
        mode,
        attr.ino.0,
        0, // st_dev: no device of this host
        attr.nlink,
        attr.uid,
        attr.gid,
        attr.size,
        attr.atime.secs,
        attr.mtime.secs,
        attr.ctime.secs,
    );
    let more = PyDict::new(py);
    for (name, time) in [
        ("atime", attr.atime),
        ("mtime", attr.mtime),
        ("ctime", attr.ctime),
    ] {
        more.set_item(format!("st_{name}"), seconds(time))?;
        more.set_item(format!("st_{name}_ns"), nanos(time))?;
    }
    more.set_item("st_blksize", BLOCK_SIZE)?;
    more.set_item("st_blocks", attr.blocks)?;
    more.set_item("st_rdev", attr.rdev)?;
    let os = py.import("os")?;
    os.getattr("stat_result")?.call1((fields, more))
}

pub fn seconds(time: Timestamp) -> f64 {
    time.secs as f64 + f64::from(time.nanos) * 1e-9
}

fn nanos(time: Timestamp) -> i128 {
    i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos)
}
