//! The buffer protocol. Its functions and its structure belong to the stable ABI since Python 3.11 only, with the layout that they have had since
//! Python 3.0, so this module declares them: the package runs on Python 3.9, too.

use pyo3::prelude::*;
use pyo3::{PyErr, ffi};
use std::ffi::{c_char, c_int, c_void};

/// `Py_buffer` of the C API.
#[repr(C)]
struct RawBuffer {
    buf: *mut c_void,
    obj: *mut ffi::PyObject,
    len: ffi::Py_ssize_t,
    itemsize: ffi::Py_ssize_t,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut ffi::Py_ssize_t,
    strides: *mut ffi::Py_ssize_t,
    suboffsets: *mut ffi::Py_ssize_t,
    internal: *mut c_void,
}

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut ffi::PyObject, view: *mut RawBuffer, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut RawBuffer);
}

/// PyBUF_SIMPLE: contiguous bytes. PyBUF_WRITABLE: and not read-only.
const SIMPLE: c_int = 0;
const WRITABLE: c_int = 1;

/// Contiguous bytes of a Python object. While this exists, the object neither moves nor resizes them.
pub struct PyBytesView {
    raw: Box<RawBuffer>,
}

impl PyBytesView {
    /// # Errors
    /// BufferError or TypeError if the object has no contiguous bytes, or only read-only bytes.
    pub fn writable(object: &Bound<'_, PyAny>) -> PyResult<PyBytesView> {
        PyBytesView::with_flags(object, WRITABLE)
    }

    /// # Errors
    /// BufferError or TypeError if the object has no contiguous bytes.
    pub fn readable(object: &Bound<'_, PyAny>) -> PyResult<PyBytesView> {
        PyBytesView::with_flags(object, SIMPLE)
    }

    fn with_flags(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<PyBytesView> {
        let null = std::ptr::null_mut();
        let mut raw = Box::new(RawBuffer {
            buf: null,
            obj: std::ptr::null_mut(),
            len: 0,
            itemsize: 0,
            readonly: 0,
            ndim: 0,
            format: std::ptr::null_mut(),
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            suboffsets: std::ptr::null_mut(),
            internal: null,
        });
        // SAFETY: the object is alive, the thread has the GIL (`object` proves both), and `raw` has the layout of Py_buffer.
        let failed = unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *raw, flags) };
        match failed {
            0 => Ok(PyBytesView { raw }),
            _ => Err(PyErr::fetch(object.py())),
        }
    }

    pub fn len(&self) -> usize {
        self.raw.len as usize
    }

    /// A copy of the bytes.
    pub fn copy(&self) -> Vec<u8> {
        if self.raw.len == 0 {
            return Vec::new();
        }
        // SAFETY: PyBUF_SIMPLE guarantees `len` contiguous bytes at `buf`, which stay there until the release. Another thread may store into them
        // meanwhile, as it may into the buffer of any write: then the copy has some of its bytes.
        unsafe { std::slice::from_raw_parts(self.raw.buf.cast::<u8>(), self.len()).to_vec() }
    }

    /// Stores bytes at an offset of a writable view.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn store(&self, at: usize, bytes: &[u8]) {
        assert!(self.raw.readonly == 0, "the view is writable");
        let end = at.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.len()), "the bytes fit");
        // SAFETY: the range lies in the `len` writable contiguous bytes at `buf` (checked above), which stay there until the release. No Rust
        // reference to them exists; `bytes` is memory of the client.
        unsafe {
            let to = self.raw.buf.cast::<u8>().add(at);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }
}

// SAFETY: the view owns one export of the buffer, which belongs to no thread. `store` and `copy` need no GIL, and `drop` takes it.
unsafe impl Send for PyBytesView {}
unsafe impl Sync for PyBytesView {}

impl Drop for PyBytesView {
    fn drop(&mut self) {
        Python::attach(|_py| {
            // SAFETY: `raw` was filled by PyObject_GetBuffer and is released once; the thread has the GIL.
            unsafe { PyBuffer_Release(&raw mut *self.raw) }
        });
    }
}
