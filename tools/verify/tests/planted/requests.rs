//! The kernel's requests.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLock, ReplyOpen, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};

use crate::faults::Fault;
use crate::served::Served;
use crate::state::{Body, Node, Outcome};

const NO_TIME: Duration = Duration::ZERO;

fn file_flags() -> FopenFlags {
    FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
}

fn entry(reply: ReplyEntry, answer: Outcome<FileAttr>) {
    match answer {
        Ok(attr) => reply.entry(&NO_TIME, &attr, Generation(0)),
        Err(errno) => reply.error(errno),
    }
}

fn empty(reply: ReplyEmpty, answer: Outcome<()>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let wanted = InitFlags::FUSE_POSIX_LOCKS
            | InitFlags::FUSE_FLOCK_LOCKS
            | InitFlags::FUSE_PARALLEL_DIROPS;
        config
            .add_capabilities(wanted)
            .map_err(|_| std::io::Error::other("this kernel has no locks over FUSE"))?;
        // A write of the checker arrives whole.
        let _ = config.set_max_write(2 << 20);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.look_up(parent.0, name));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let answer = self.seen(&mut self.state(), ino.0);
        match answer {
            Ok(attr) => reply.attr(&NO_TIME, &attr),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if mode.is_some() && self.switch.strikes(Fault::Hangs, 50) {
            std::thread::sleep(Duration::from_secs(4));
        }
        let mut state = match size {
            Some(_) => self.state_without_pages(ino.0),
            None => self.state(),
        };
        let mut change = || {
            if let Some(size) = size {
                self.cut_to(&mut state, ino.0, size as usize)?;
            } else {
                self.before_change(&mut state, ino.0);
            }
            let node = state.node(ino.0)?;
            if let Some(mode) = mode {
                node.mode = (mode & 0o7777) as u16;
            }
            if let Some(TimeOrNow::SpecificTime(time)) = mtime {
                node.mtime = time;
            }
            state.attr(ino.0)
        };
        match change() {
            Ok(attr) => reply.attr(&NO_TIME, &attr),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.state().node(ino.0).map(|node| &node.body) {
            Ok(Body::Symlink(target)) => reply.data(target.as_bytes()),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(errno) => reply.error(errno),
        }
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let body = Body::Dir(Default::default());
        entry(reply, self.make(parent.0, name, body, mode));
    }

    fn symlink(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let body = Body::Symlink(target.as_os_str().to_owned());
        entry(reply, self.make(parent.0, name, body, 0o777));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.remove(parent.0, name, false));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.remove(parent.0, name, true));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent.0, name), (newparent.0, newname));
        empty(reply, self.move_name(from, to, flags));
    }

    fn link(
        &self,
        _: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let mut state = self.state();
        let mut link = || {
            if state.entries(newparent.0)?.contains_key(newname) {
                return Err(Errno::EEXIST);
            }
            if state.node(ino.0)?.links == 0 {
                return Err(Errno::ENOENT);
            }
            self.before_change(&mut state, ino.0);
            state.node(ino.0)?.links += 1;
            state
                .entries(newparent.0)?
                .insert(newname.to_owned(), ino.0);
            state.attr(ino.0)
        };
        let answer = link();
        drop(state);
        entry(reply, answer);
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.make(parent.0, name, Body::File(Vec::new()), mode);
        let exclusive = flags & libc::O_EXCL != 0 && !self.switch.is(Fault::ExclusiveTwice);
        let answer = match made {
            Err(errno) if errno.code() == libc::EEXIST && !exclusive => {
                let mut state = self.state();
                match state.find(parent.0, name) {
                    Ok(inode) if state.is_dir(inode) => Err(Errno::EISDIR),
                    Ok(inode)
                        if matches!(
                            state.nodes.get(&inode),
                            Some(Node {
                                body: Body::Symlink(_),
                                ..
                            })
                        ) =>
                    {
                        Err(Errno::ELOOP)
                    }
                    Ok(inode) => state.attr(inode),
                    Err(errno) => Err(errno),
                }
            }
            other => other,
        };
        match answer {
            Ok(attr) => {
                reply.created(&NO_TIME, &attr, Generation(0), FileHandle(0), file_flags());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.state().node(ino.0) {
            Ok(_) => reply.opened(FileHandle(0), file_flags()),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if owner.is_none() {
            self.page_is_read(ino.0);
        }
        match self.read_bytes(ino.0, offset, u64::from(size)) {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let append = flags.0 & libc::O_APPEND != 0;
        match self.write_bytes(ino.0, offset, data, append) {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.allocated(ino.0, offset, length, mode));
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut state = self.state();
        let mut list: Vec<_> = match state.entries(ino.0) {
            Ok(entries) => entries.clone().into_iter().collect(),
            Err(errno) => return reply.error(errno),
        };
        if offset == 0 && !list.is_empty() && self.switch.strikes(Fault::ListingMissesName, 20) {
            list.remove(0);
        }
        for (index, (name, inode)) in list.into_iter().enumerate().skip(offset as usize) {
            let Ok(attr) = state.attr(inode) else {
                continue;
            };
            if reply.add(INodeNo(inode), index as u64 + 1, attr.kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        _: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        if self.switch.strikes(Fault::LostXattr, 10) {
            return reply.ok();
        }
        let mut state = self.state();
        let set = state
            .node(ino.0)
            .map(|node| drop(node.xattrs.insert(name.to_owned(), value.to_vec())));
        empty(reply, set);
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let mut state = self.state();
        match state.node(ino.0).map(|node| node.xattrs.get(name)) {
            Ok(Some(value)) if size == 0 => reply.size(value.len() as u32),
            Ok(Some(value)) if value.len() > size as usize => reply.error(Errno::ERANGE),
            Ok(Some(value)) => reply.data(value),
            Ok(None) => reply.error(Errno::ENODATA),
            Err(errno) => reply.error(errno),
        }
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.state();
        let removed = state.node(ino.0).and_then(|node| {
            let was = node.xattrs.remove(name);
            was.map(drop).ok_or(Errno::ENODATA)
        });
        empty(reply, removed);
    }

    fn getlk(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: LockOwner,
        _: u64,
        _: u64,
        _: i32,
        _: u32,
        reply: ReplyLock,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn setlk(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        _: u32,
        _: bool,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.locked(ino.0, owner.0, start, end, kind));
    }
}
