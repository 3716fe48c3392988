//! An empty file system on the crate `fuser`, to stand beside ours: `gupfs bench door --beside fuser=fuser_null`.
//!
//! `fuser_null MOUNTPOINT` mounts it until it is unmounted. The same names, sizes and lifetimes as `gupfs_fuse::nullfs`, the
//! same flags, as many threads as there are CPUs, each with its own descriptor.

// A measuring tool stands outside the simulated world.
#![allow(clippy::disallowed_methods)]

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, SessionACL,
    TimeOrNow, WriteFlags,
};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const TTL: Duration = Duration::from_secs(3600);
const FILES: u64 = 100_000;

#[derive(Default)]
struct State {
    names: BTreeMap<OsString, u64>,
    files: BTreeMap<u64, (OsString, u64)>,
    last: u64,
}

impl State {
    fn add(&mut self, name: &OsStr) -> u64 {
        self.last += 1;
        self.names.insert(name.to_owned(), self.last);
        self.files.insert(self.last, (name.to_owned(), 0));
        self.last
    }

    /// Attributes and their lifetime.
    fn attr(&self, ino: u64) -> Option<(FileAttr, Duration)> {
        if ino == INodeNo::ROOT.0 {
            return Some((attr(ino, 0, FileType::Directory), TTL));
        }
        let (name, size) = self.files.get(&ino)?;
        let ttl = match name.as_bytes().starts_with(b"asks") {
            true => Duration::ZERO,
            false => TTL,
        };
        Some((attr(ino, *size, FileType::RegularFile), ttl))
    }
}

fn attr(ino: u64, size: u64, kind: FileType) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: 0o777,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 1 << 20,
        flags: 0,
    }
}

struct NullFs(Mutex<State>);

impl NullFs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn direct() -> FopenFlags {
    FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
}

static ZEROS: [u8; 2 << 20] = [0; 2 << 20];

impl Filesystem for NullFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let _ = config.set_max_write(1 << 20);
        let wanted = fuser::InitFlags::FUSE_DO_READDIRPLUS | fuser::InitFlags::FUSE_PARALLEL_DIROPS;
        let _ = config.add_capabilities(wanted);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let state = self.state();
        let found = state.names.get(name).and_then(|ino| state.attr(*ino));
        match found {
            Some((attr, ttl)) => reply.entry_with_ttls(&ttl, &TTL, &attr, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.state().attr(ino.0) {
            Some((attr, ttl)) => reply.attr(&ttl, &attr),
            None => reply.error(Errno::ESTALE),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut state = self.state();
        if let (Some(file), Some(size)) = (state.files.get_mut(&ino.0), size) {
            file.1 = size;
        }
        match state.attr(ino.0) {
            Some((attr, ttl)) => reply.attr(&ttl, &attr),
            None => reply.error(Errno::ESTALE),
        }
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let mut state = self.state();
        let ino = state.add(name);
        let Some((attr, ttl)) = state.attr(ino) else {
            return reply.error(Errno::EIO);
        };
        reply.created(&ttl, &attr, Generation(0), FileHandle(0), direct());
    }

    fn unlink(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.state();
        match state.names.remove(name) {
            Some(ino) => {
                state.files.remove(&ino);
                reply.ok();
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), direct());
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let whole = self.state().files.get(&ino.0).map_or(0, |file| file.1);
        let count = whole.saturating_sub(offset).min(u64::from(size)) as usize;
        reply.data(&ZEROS[..count.min(ZEROS.len())]);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = self.state();
        if let Some(file) = state.files.get_mut(&ino.0) {
            file.1 = file.1.max(offset + data.len() as u64);
        }
        reply.written(data.len() as u32);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // The kernel does not ask again.
        reply.error(Errno::ENOSYS);
    }

    fn readdirplus(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let state = self.state();
        let behind = (Bound::Excluded(offset), Bound::Unbounded);
        for (ino, (name, size)) in state.files.range(behind) {
            let attr = attr(*ino, *size, FileType::RegularFile);
            if reply.add(INodeNo(*ino), *ino, name, &TTL, &attr, Generation(0)) {
                break;
            }
        }
        reply.ok();
    }
}

fn main() -> std::io::Result<()> {
    let point = std::env::args_os()
        .nth(1)
        .ok_or_else(|| std::io::Error::other("usage: fuser_null MOUNTPOINT"))?;
    let mut state = State {
        last: 1,
        ..State::default()
    };
    for number in 0..FILES {
        state.add(OsStr::new(&format!("there-{number:08}")));
    }
    let mut config = Config::default();
    config.acl = SessionACL::All;
    config.mount_options = vec![MountOption::DefaultPermissions];
    config.n_threads = Some(std::thread::available_parallelism()?.get());
    config.clone_fd = true;
    fuser::mount(NullFs(Mutex::new(state)), point, &config)
}
