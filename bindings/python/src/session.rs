//! A session with one cluster, on behalf of one user.

use crate::convert::{
    name_text, os_error, os_error_of_two, path_bytes, seconds, setup_error, stat_result,
};
use crate::file::{Handle, bytes_of};
use crate::process::OfProcess;
use crate::runtime::runtime;
use crate::wait::{wait, wait_for};
use bytes::Bytes;
use gupfs_files::{
    ClusterFiles, ConnectOptions, FileRange, FollowLinks, OpenRequest, TlsOptions, UserFiles,
};
use gupfs_proto::meta::{AccessMode, RenameMode, SetTime, XattrMode};
use gupfs_proto::{Attr, Caller, FileKind, FsError, Timestamp};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A session; belongs to the process that opened it.
#[pyclass(frozen, module = "gupfs._gupfs")]
pub struct Session {
    files: OfProcess<SessionFiles>,
}

struct SessionFiles {
    all: ClusterFiles,
    user: UserFiles,
    was_stopped: AtomicBool,
}

/// Connects; `user` is (uid, gid, supplementary groups).
#[pyfunction]
#[pyo3(signature = (mds, key, tls, tls_name, user, timeout, patient, deadline, write_behind, cache))]
#[allow(clippy::too_many_arguments)] // they are the options, and Python names them
pub fn connect(
    py: Python<'_>,
    mds: String,
    key: Option<PathBuf>,
    tls: Option<PathBuf>,
    tls_name: Option<String>,
    user: (u32, u32, Vec<u32>),
    timeout: f64,
    patient: bool,
    deadline: Option<f64>,
    write_behind: bool,
    cache: Option<usize>,
) -> PyResult<Session> {
    let options = ConnectOptions {
        key,
        tls: tls.map(|dir| TlsOptions {
            dir,
            name: tls_name,
            require_client_certificates: false,
        }),
        what: format!("python, process {}", std::process::id()),
        timeout: Duration::from_secs_f64(timeout.clamp(0.001, 1e6)),
        is_patient: patient,
        deadline: deadline.map(|time| Duration::from_secs_f64(time.clamp(0.001, 1e8))),
        write_behind,
        data_cache_max: cache,
        ..ConnectOptions::new(mds)
    };
    let all = wait_for(py, ClusterFiles::connect(options))?.map_err(|error| setup_error(&error))?;
    let (uid, gid, groups) = user;
    let user = all.user(Caller::new(uid, gid, groups), 0);
    Ok(Session {
        files: OfProcess::new(SessionFiles {
            all,
            user,
            was_stopped: AtomicBool::new(false),
        }),
    })
}

/// How long a session that was dropped, and not stopped, tries to end.
const END_LIMIT: Duration = Duration::from_secs(10);

impl Drop for SessionFiles {
    fn drop(&mut self) {
        let (Ok(runtime), all) = (runtime(), self.all.clone()) else {
            return;
        };
        if self.was_stopped.load(Ordering::Acquire) {
            return;
        }
        runtime.spawn(async move {
            let _may_be_late = all.stop(END_LIMIT).await;
        });
    }
}

impl Session {
    fn user(&self) -> PyResult<&UserFiles> {
        Ok(&self.files.get()?.user)
    }

    /// For a call that makes something: with the umask that the process has now.
    fn maker(&self) -> PyResult<UserFiles> {
        Ok(self.user()?.with_umask(umask()))
    }
}

/// The umask of this process. umask(2) only replaces it, which other threads would notice.
fn umask() -> u32 {
    const USUAL: u32 = 0o022;
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok())
        .unwrap_or(USUAL)
}

fn links(follow: bool) -> FollowLinks {
    match follow {
        true => FollowLinks::Yes,
        false => FollowLinks::No,
    }
}

/// Nanoseconds since 1970; None is now.
fn set_time(nanos: Option<i64>) -> SetTime {
    match nanos {
        Some(nanos) => SetTime::To(Timestamp::from_nanos(nanos)),
        None => SetTime::Now,
    }
}

#[pymethods]
impl Session {
    /// Whether this process has opened it, and not the one that it was forked from.
    #[getter]
    fn is_here(&self) -> bool {
        self.files.is_here()
    }

    #[getter]
    fn address(&self) -> PyResult<String> {
        let address = self.files.get()?.all.mds_address();
        Ok(address.unwrap_or_default().to_string())
    }

    /// Ends the session within `limit` seconds.
    fn stop(&self, py: Python<'_>, limit: f64) -> PyResult<()> {
        let files = self.files.get()?;
        let limit = Duration::from_secs_f64(limit.clamp(0.001, 1e6));
        files.was_stopped.store(true, Ordering::Release);
        let stopped = wait_for(py, files.all.stop(limit))?;
        stopped.map_err(|error| os_error(&error, None))
    }

    /// Numbers for tests: known inodes, open files, bytes kept in memory.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let _in_runtime = runtime()?.enter();
        let status = self.files.get()?.all.client().status();
        let dict = PyDict::new(py);
        dict.set_item("session", status.session)?;
        dict.set_item("known_inodes", status.known_inodes)?;
        dict.set_item("open_files", status.open_files)?;
        dict.set_item("cached_bytes", status.cached_bytes)?;
        dict.set_item("unsent_bytes", status.unsent_bytes)?;
        Ok(dict)
    }

    #[pyo3(signature = (path, *, read, write, append, truncate, create, exclusive, no_follow, sync, direct))]
    #[allow(clippy::too_many_arguments)] // open(2)'s flags
    fn open(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        read: bool,
        write: bool,
        append: bool,
        truncate: bool,
        create: Option<u32>,
        exclusive: bool,
        no_follow: bool,
        sync: bool,
        direct: bool,
    ) -> PyResult<Handle> {
        let request = OpenRequest {
            read,
            write,
            append,
            truncate,
            create,
            exclusive,
            no_follow,
            sync,
            direct,
            ..OpenRequest::default()
        };
        let user = match create {
            Some(_) => self.maker()?,
            None => self.user()?.clone(),
        };
        let opening = user.open(&path_bytes(path)?, request);
        Ok(Handle::new(wait(py, opening, Some(path))?))
    }

    fn stat<'py>(
        &self,
        py: Python<'py>,
        path: &Bound<'py, PyAny>,
        follow: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = self.user()?.stat(&path_bytes(path)?, links(follow));
        stat_result(py, &wait(py, found, Some(path))?)
    }

    fn access(&self, py: Python<'_>, path: &Bound<'_, PyAny>, mode: u8) -> PyResult<()> {
        let want = AccessMode::from_bits_truncate(mode & 7);
        wait(
            py,
            self.user()?.access(&path_bytes(path)?, want),
            Some(path),
        )
    }

    fn scandir(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        attributes: bool,
    ) -> PyResult<Vec<Entry>> {
        let listed = self.user()?.list(&path_bytes(path)?, attributes);
        let listed = wait(py, listed, Some(path))?;
        let entries = listed.into_iter().map(|entry| Entry {
            name: entry.name.as_bytes().to_vec(),
            ino: entry.ino.0,
            kind: entry.kind,
            attr: entry.attr,
        });
        Ok(entries.collect())
    }

    fn mkdir(&self, py: Python<'_>, path: &Bound<'_, PyAny>, mode: u32) -> PyResult<()> {
        let made = self.maker()?.make_directory(&path_bytes(path)?, mode);
        wait(py, made, Some(path)).map(drop)
    }

    fn remove(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        wait(py, self.user()?.remove_file(&path_bytes(path)?), Some(path))
    }

    fn rmdir(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let removed = self.user()?.remove_directory(&path_bytes(path)?);
        wait(py, removed, Some(path))
    }

    /// `mode`: 0 replaces, 1 does not, 2 exchanges.
    fn rename(
        &self,
        py: Python<'_>,
        from: &Bound<'_, PyAny>,
        to: &Bound<'_, PyAny>,
        mode: u8,
    ) -> PyResult<()> {
        let mode = match mode {
            0 => RenameMode::Replace,
            1 => RenameMode::NoReplace,
            _ => RenameMode::Exchange,
        };
        let renamed = (self.user()?).rename(&path_bytes(from)?, &path_bytes(to)?, mode);
        wait_for(py, renamed)?.map_err(|error| os_error_of_two(&error, from, to))
    }

    fn link(&self, py: Python<'_>, from: &Bound<'_, PyAny>, to: &Bound<'_, PyAny>) -> PyResult<()> {
        let linked = self.user()?.link(&path_bytes(from)?, &path_bytes(to)?);
        wait_for(py, linked)?.map_err(|error| os_error_of_two(&error, from, to))
    }

    fn symlink(
        &self,
        py: Python<'_>,
        target: &Bound<'_, PyAny>,
        path: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let made = self
            .maker()?
            .symlink(&path_bytes(target)?, &path_bytes(path)?);
        wait_for(py, made)?.map_err(|error| os_error_of_two(&error, target, path))
    }

    fn readlink<'py>(
        &self,
        py: Python<'py>,
        path: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let target = wait(py, self.user()?.read_link(&path_bytes(path)?), Some(path))?;
        Ok(PyBytes::new(py, &target))
    }

    fn chmod(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        mode: u32,
        follow: bool,
    ) -> PyResult<()> {
        let set = (self.user()?).set_mode(&path_bytes(path)?, mode, links(follow));
        wait(py, set, Some(path)).map(drop)
    }

    fn chown(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        uid: Option<u32>,
        gid: Option<u32>,
        follow: bool,
    ) -> PyResult<()> {
        let set = (self.user()?).set_owner(&path_bytes(path)?, uid, gid, links(follow));
        wait(py, set, Some(path)).map(drop)
    }

    fn utime(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        atime: Option<i64>,
        mtime: Option<i64>,
        follow: bool,
    ) -> PyResult<()> {
        let (atime, mtime) = (Some(set_time(atime)), Some(set_time(mtime)));
        let set = (self.user()?).set_times(&path_bytes(path)?, atime, mtime, links(follow));
        wait(py, set, Some(path)).map(drop)
    }

    fn truncate(&self, py: Python<'_>, path: &Bound<'_, PyAny>, size: u64) -> PyResult<()> {
        wait(
            py,
            self.user()?.truncate(&path_bytes(path)?, size),
            Some(path),
        )
    }

    fn copy_file(
        &self,
        py: Python<'_>,
        from: &Bound<'_, PyAny>,
        to: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let copied = (self.maker()?).copy_file(&path_bytes(from)?, &path_bytes(to)?, 0o666);
        wait_for(py, copied)?.map_err(|error| os_error_of_two(&error, from, to))
    }

    /// (total, free, available, inodes), in bytes but the last.
    fn statvfs(&self, py: Python<'_>) -> PyResult<(u64, u64, u64, u64)> {
        let space = wait(py, self.user()?.space(), None)?;
        Ok((space.total, space.free, space.available, space.inodes))
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, self.user()?.sync_all(), None)
    }

    fn getxattr<'py>(
        &self,
        py: Python<'py>,
        path: &Bound<'py, PyAny>,
        name: &Bound<'py, PyAny>,
        follow: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (at, name) = (path_bytes(path)?, path_bytes(name)?);
        let value = wait(
            py,
            self.user()?.get_xattr(&at, &name, links(follow)),
            Some(path),
        )?;
        Ok(PyBytes::new(py, &value))
    }

    fn listxattr<'py>(
        &self,
        py: Python<'py>,
        path: &Bound<'py, PyAny>,
        follow: bool,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let names = (self.user()?).list_xattrs(&path_bytes(path)?, links(follow));
        let names = wait(py, names, Some(path))?;
        names
            .iter()
            .map(|name| name_text(py, name.as_bytes()))
            .collect()
    }

    /// `mode`: 0 creates or replaces, 1 (XATTR_CREATE) creates, 2 (XATTR_REPLACE) replaces.
    fn setxattr(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
        value: Vec<u8>,
        mode: u8,
        follow: bool,
    ) -> PyResult<()> {
        let mode = match mode {
            0 => XattrMode::CreateOrReplace,
            1 => XattrMode::Create,
            2 => XattrMode::Replace,
            _ => return Err(os_error(&FsError::Invalid, Some(path))),
        };
        let (at, name) = (path_bytes(path)?, path_bytes(name)?);
        let value = Bytes::from(value);
        let set = (self.user()?).set_xattr(&at, &name, value, mode, links(follow));
        wait(py, set, Some(path))
    }

    fn removexattr(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
        follow: bool,
    ) -> PyResult<()> {
        let (at, name) = (path_bytes(path)?, path_bytes(name)?);
        wait(
            py,
            self.user()?.remove_xattr(&at, &name, links(follow)),
            Some(path),
        )
    }

    /// Reads (path, offset, size) at the same time. The result has for each its bytes, or the OSError of its path.
    fn pread_many<'py>(
        &self,
        py: Python<'py>,
        ranges: Vec<(Bound<'py, PyAny>, u64, u64)>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let parts = ranges.iter().map(|(path, offset, len)| {
            Ok(FileRange {
                path: path_bytes(path)?,
                offset: *offset,
                len: *len,
            })
        });
        let parts = parts.collect::<PyResult<Vec<_>>>()?;
        let read = wait(py, self.user()?.read_ranges(parts), None)?;
        let results = read
            .into_iter()
            .zip(&ranges)
            .map(|(read, (path, ..))| match read {
                Ok(segments) => Ok(bytes_of(py, &segments)?.into_any()),
                Err(error) => {
                    let raised = os_error(&error, Some(path));
                    Ok(raised.into_value(py).into_bound(py).into_any())
                }
            });
        results.collect()
    }
}

/// A name in a directory, with its attributes if they were asked for.
#[pyclass(frozen, module = "gupfs._gupfs")]
pub struct Entry {
    name: Vec<u8>,
    ino: u64,
    kind: FileKind,
    attr: Option<Attr>,
}

#[pymethods]
impl Entry {
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        name_text(py, &self.name)
    }

    #[getter]
    fn ino(&self) -> u64 {
        self.ino
    }

    /// "file", "directory", "link" or "other".
    #[getter]
    fn kind(&self) -> &'static str {
        match self.kind {
            FileKind::Regular => "file",
            FileKind::Directory => "directory",
            FileKind::Symlink => "link",
            _ => "other",
        }
    }

    /// `os.stat_result`; None of a file that was removed meanwhile, or if attributes were not asked for.
    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.attr
            .as_ref()
            .map(|attr| stat_result(py, attr))
            .transpose()
    }

    /// (mode with type, size, uid, gid, nlink, mtime, ctime), for listings that need no `os.stat_result`.
    fn brief(&self) -> Option<(u32, u64, u32, u32, u32, f64, f64)> {
        self.attr.as_ref().map(|attr| {
            (
                attr.kind.type_bits() | u32::from(attr.mode.0),
                attr.size,
                attr.uid,
                attr.gid,
                attr.nlink,
                seconds(attr.mtime),
                seconds(attr.ctime),
            )
        })
    }
}
