//! An open file.

use crate::buffer::PyBytesView;
use crate::convert::stat_result;
use crate::process::OfProcess;
use crate::wait::wait;
use bytes::Bytes;
use gupfs_files::FileHandle;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// An open file, without a position. `python/gupfs/_file.py` makes a file object of it.
#[pyclass(frozen, module = "gupfs._gupfs")]
pub struct Handle {
    file: OfProcess<FileHandle>,
    /// Its inode number, also for a child of the process.
    #[pyo3(get)]
    ino: u64,
}

impl Handle {
    pub fn new(file: FileHandle) -> Handle {
        Handle {
            ino: file.ino().0,
            file: OfProcess::new(file),
        }
    }
}

#[pymethods]
impl Handle {
    /// Reads into a buffer at an offset; returns how many bytes: fewer than the buffer has only at the end of the file.
    fn pread_into(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        offset: u64,
    ) -> PyResult<usize> {
        let file = self.file.get()?;
        let view = PyBytesView::writable(buffer)?;
        let mut done = 0;
        while done < view.len() {
            let rest = (view.len() - done) as u64;
            let segments = wait(py, file.read_at(offset + done as u64, rest), None)?;
            let begun = done;
            done = py.detach(|| store(&view, done, &segments));
            if done == begun {
                break;
            }
        }
        Ok(done)
    }

    /// At most `size` bytes from an offset.
    fn pread<'py>(
        &self,
        py: Python<'py>,
        size: usize,
        offset: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let file = self.file.get()?;
        let mut pieces = Vec::new();
        let mut done = 0;
        while done < size {
            let segments = wait(
                py,
                file.read_at(offset + done as u64, (size - done) as u64),
                None,
            )?;
            let read: usize = segments.iter().map(Bytes::len).sum();
            if read == 0 {
                break;
            }
            done += read;
            pieces.extend(segments);
        }
        bytes_of(py, &pieces)
    }

    /// Writes all bytes of a buffer at an offset, or at the end if the file is open for appending; returns how many it wrote.
    fn pwrite(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>, offset: u64) -> PyResult<u64> {
        let file = self.file.get()?;
        let view = PyBytesView::readable(buffer)?;
        // A copy: the operation may go on after a signal has ended this call.
        let bytes = py.detach(|| Bytes::from(view.copy()));
        wait(py, file.write_at(offset, bytes), None)
    }

    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(wait(py, self.file.get()?.attr(), None)?.size)
    }

    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let attr = wait(py, self.file.get()?.attr(), None)?;
        stat_result(py, &attr)
    }

    /// Whether this process has opened it, and not the one that it was forked from.
    #[getter]
    fn is_here(&self) -> bool {
        self.file.is_here()
    }

    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        wait(py, self.file.get()?.truncate(size), None)
    }

    fn sync(&self, py: Python<'_>, data_only: bool) -> PyResult<()> {
        wait(py, self.file.get()?.sync(data_only), None)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.file.is_here() {
            true => wait(py, self.file.get()?.close(), None),
            false => Ok(()),
        }
    }
}

fn store(view: &PyBytesView, mut at: usize, segments: &[Bytes]) -> usize {
    for segment in segments {
        view.store(at, segment);
        at += segment.len();
    }
    at
}

/// One bytes object of all segments.
///
/// # Errors
/// MemoryError.
pub fn bytes_of<'py>(py: Python<'py>, segments: &[Bytes]) -> PyResult<Bound<'py, PyBytes>> {
    let len = segments.iter().map(Bytes::len).sum();
    PyBytes::new_with(py, len, |mut to| {
        for segment in segments {
            let (here, rest) = to.split_at_mut(segment.len());
            here.copy_from_slice(segment);
            to = rest;
        }
        Ok(())
    })
}
