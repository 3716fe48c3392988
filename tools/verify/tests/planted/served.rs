//! The file system as one mount serves it. Kernel caches are off: every call arrives here, and what is wrong is wrong by the fault.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLock, ReplyOpen, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};

use crate::faults::{Fault, Switch};
use crate::state::{Body, Lock, Node, Old, Outcome, State};

const NO_TIME: Duration = Duration::ZERO;
const BLOCK: u64 = 4096;

pub struct Served {
    pub mount: usize,
    pub state: Arc<Mutex<State>>,
    pub switch: Arc<Switch>,
}

impl Served {
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.raise_ghosts();
        state
    }

    /// Attributes as this mount sees them.
    fn seen(&self, state: &mut State, inode: u64) -> Outcome<FileAttr> {
        let now = state.attr(inode)?;
        let Some(old) = state.old_attrs.get(&inode) else {
            return Ok(now);
        };
        let Some(was) = old.seen_by(self.mount) else {
            return Ok(now);
        };
        Ok(match () {
            () if self.switch.is(Fault::OldMode) => FileAttr {
                perm: was.perm,
                ..now
            },
            () if self.switch.is(Fault::SizeGoesBack) => FileAttr {
                size: was.size,
                ..now
            },
            () if self.switch.is(Fault::TimeGoesBack) => FileAttr {
                mtime: was.mtime,
                ..now
            },
            () if self.switch.is(Fault::LinkNotCounted) => FileAttr {
                nlink: was.nlink,
                ..now
            },
            () => now,
        })
    }

    /// Keeps what others go on seeing where a fault says so.
    fn before_change(&self, state: &mut State, inode: u64) {
        if let Ok(attr) = state.attr(inode) {
            state.old_attrs.insert(inode, Old::new(self.mount, attr));
        }
        if self.switch.is(Fault::WriteBehind) {
            let bytes = state.bytes(inode).cloned().unwrap_or_default();
            state.old_data.insert(inode, Old::new(self.mount, bytes));
        }
    }

    fn look_up(&self, parent: u64, name: &OsStr) -> Outcome<FileAttr> {
        let mut state = self.state();
        let key = (parent, name.to_owned());
        if self.switch.is(Fault::OldNameAfterRename)
            && let Some(was) = state
                .old_names
                .get(&key)
                .and_then(|old| old.seen_by(self.mount))
            && let Ok(attr) = self.seen(&mut state, was)
        {
            return Ok(attr);
        }
        let inode = state.find(parent, name)?;
        self.seen(&mut state, inode)
    }

    fn make(&self, parent: u64, name: &OsStr, body: Body, mode: u32) -> Outcome<FileAttr> {
        let mut state = self.state();
        if state.entries(parent)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let inode = state.add(body, mode);
        state.node(inode)?.links = 1;
        state.entries(parent)?.insert(name.to_owned(), inode);
        state.attr(inode)
    }

    fn remove(&self, parent: u64, name: &OsStr, directory: bool) -> Outcome<()> {
        let mut state = self.state();
        let inode = state.find(parent, name)?;
        match (directory, state.is_dir(inode)) {
            (true, false) => return Err(Errno::ENOTDIR),
            (false, true) => return Err(Errno::EISDIR),
            _ => {}
        }
        if directory && state.has_entries(inode) {
            return Err(Errno::ENOTEMPTY);
        }
        if !directory {
            if self.switch.strikes(Fault::UnlinkNotDone, 40) {
                return Ok(());
            }
            if self.switch.strikes(Fault::ResurrectedName, 20) {
                let later = Instant::now() + Duration::from_millis(5);
                state.ghosts.push((later, parent, name.to_owned(), inode));
            }
        }
        state.entries(parent)?.remove(name);
        state.unlinked(inode);
        Ok(())
    }

    fn move_name(
        &self,
        (from_dir, from): (u64, &OsStr),
        (to_dir, to): (u64, &OsStr),
        flags: RenameFlags,
    ) -> Outcome<()> {
        let mut state = self.state();
        let source = state.find(from_dir, from)?;
        let target = state.find(to_dir, to).ok();
        if flags.contains(RenameFlags::RENAME_EXCHANGE) {
            let target = target.ok_or(Errno::ENOENT)?;
            state.entries(to_dir)?.insert(to.to_owned(), source);
            match self.switch.strikes(Fault::HalfExchange, 5) {
                true => drop(state.entries(from_dir)?.remove(from)),
                false => drop(state.entries(from_dir)?.insert(from.to_owned(), target)),
            }
            return Ok(());
        }
        if let Some(target) = target {
            if flags.contains(RenameFlags::RENAME_NOREPLACE) {
                return Err(Errno::EEXIST);
            }
            match (state.is_dir(source), state.is_dir(target)) {
                _ if source == target => return Ok(()),
                (true, false) => return Err(Errno::ENOTDIR),
                (false, true) => return Err(Errno::EISDIR),
                (true, true) if state.has_entries(target) => return Err(Errno::ENOTEMPTY),
                _ => {}
            }
            let old = Old::new(self.mount, target);
            state.old_names.insert((to_dir, to.to_owned()), old);
        }
        // The directory may have been removed since the kernel looked.
        state.entries(to_dir)?;
        state.entries(from_dir)?.remove(from);
        if self.switch.is(Fault::NonAtomicRename) && target.is_some() {
            state.entries(to_dir)?.remove(to);
            drop(state);
            std::thread::sleep(Duration::from_micros(300));
            state = self.state();
        }
        state.entries(to_dir)?.insert(to.to_owned(), source);
        if let Some(target) = target {
            state.unlinked(target);
        }
        if self.switch.strikes(Fault::RenameLeavesSource, 40) {
            state.entries(from_dir)?.insert(from.to_owned(), source);
        }
        Ok(())
    }

    fn read_bytes(&self, inode: u64, from: u64, size: u64) -> Outcome<Vec<u8>> {
        let mut state = self.state();
        if self.switch.is(Fault::WriteBehind)
            && let Some(old) = state
                .old_data
                .get(&inode)
                .and_then(|old| old.seen_by(self.mount))
        {
            let end = (from + size).min(old.len() as u64);
            return Ok(old[from.min(end) as usize..end as usize].to_vec());
        }
        let bytes = state.bytes(inode)?.clone();
        let end = (from + size).min(bytes.len() as u64);
        let mut read = bytes[from.min(end) as usize..end as usize].to_vec();
        if self.switch.is(Fault::MissedInvalidation) {
            self.through_the_cache(&mut state, inode, &bytes, from, &mut read);
        }
        if self.switch.strikes(Fault::ZerosForBytes, 200) {
            read.fill(0);
        }
        Ok(read)
    }

    /// What a cache of blocks makes of a read.
    fn through_the_cache(
        &self,
        state: &mut State,
        inode: u64,
        bytes: &[u8],
        from: u64,
        read: &mut [u8],
    ) {
        let end = from + read.len() as u64;
        for block in from / BLOCK..end.div_ceil(BLOCK) {
            let start = block * BLOCK;
            let end_of_block = bytes.len().min((start + BLOCK) as usize);
            let whole = &bytes[end_of_block.min(start as usize)..end_of_block];
            let cached = state
                .cached
                .entry((self.mount, inode, block))
                .or_insert_with(|| whole.to_vec());
            for at in start.max(from)..(start + cached.len() as u64).min(end) {
                read[(at - from) as usize] = cached[(at - start) as usize];
            }
        }
    }

    /// Blocks that were changed leave the caches of all mounts, nearly always. (A block is cached as far as the file reached, so
    /// none changes when the file grows.)
    fn invalidate(&self, state: &mut State, inode: u64, from: u64, to: u64) {
        if !self.switch.is(Fault::MissedInvalidation) {
            return;
        }
        // In the short form there is no time for ten thousand chances.
        let rarely = match std::env::var_os("PLANTED_SECONDS") {
            Some(_) => 10_000,
            None => 300,
        };
        let blocks = from / BLOCK..to.div_ceil(BLOCK);
        let mut cached = Vec::new();
        for mount in 0..2 {
            let those = (mount, inode, blocks.start)..(mount, inode, blocks.end);
            cached.extend(state.cached.range(those).map(|(key, _)| *key));
        }
        for key in cached {
            if key.0 == self.mount || !self.switch.strikes(Fault::MissedInvalidation, rarely) {
                state.cached.remove(&key);
            }
        }
    }

    fn write_bytes(&self, inode: u64, from: u64, data: &[u8], append: bool) -> Outcome<()> {
        let mut state = self.state();
        let mut from = from as usize;
        if append {
            from = state.bytes(inode)?.len();
            if self.switch.strikes(Fault::LostAppend, 50) {
                return Ok(());
            }
            if self.switch.is(Fault::AppendsOverlap) {
                // Between looking for the end and writing there another may do the same.
                drop(state);
                std::thread::sleep(Duration::from_micros(50));
                state = self.state();
            }
        }
        self.before_change(&mut state, inode);
        let mut data = data;
        let border = (from as u64 / BLOCK + 1) * BLOCK;
        let crosses = (from + data.len()) as u64 > border;
        if crosses && self.switch.strikes(Fault::TornWrite, 20) {
            data = &data[..border as usize - from];
        }
        let end = from + data.len();
        self.grow(&mut state, inode, end)?;
        let bytes = state.bytes(inode)?;
        bytes[from..end].copy_from_slice(data);
        self.invalidate(&mut state, inode, from as u64, end as u64);
        Ok(())
    }

    fn grow(&self, state: &mut State, inode: u64, end: usize) -> Outcome<()> {
        let cut = match self.switch.is(Fault::CutBytesReturn) {
            true => state.cut.remove(&inode).unwrap_or_default(),
            false => Vec::new(),
        };
        let bytes = state.bytes(inode)?;
        if bytes.len() < end {
            let old = bytes.len();
            bytes.resize(end, 0);
            let there = end.min(cut.len()).max(old);
            if there <= cut.len() {
                bytes[old..there].copy_from_slice(&cut[old..there]);
            }
        }
        Ok(())
    }

    fn cut_to(&self, state: &mut State, inode: u64, size: usize) -> Outcome<()> {
        self.before_change(state, inode);
        if size > state.bytes(inode)?.len() {
            self.grow(state, inode, size)?;
        } else {
            if self.switch.is(Fault::CutBytesReturn) {
                let whole = state.bytes(inode)?.clone();
                state.cut.insert(inode, whole);
            }
            state.bytes(inode)?.truncate(size);
            self.invalidate(state, inode, size as u64, u64::MAX);
        }
        Ok(())
    }

    fn allocated(&self, inode: u64, from: u64, length: u64, mode: i32) -> Outcome<()> {
        let mut state = self.state();
        self.before_change(&mut state, inode);
        let end = (from + length) as usize;
        let zeros = mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0;
        if mode & libc::FALLOC_FL_KEEP_SIZE == 0 {
            self.grow(&mut state, inode, end)?;
        }
        if zeros && !self.switch.is(Fault::PunchKeepsBytes) {
            let bytes = state.bytes(inode)?;
            let end = end.min(bytes.len());
            bytes[(from as usize).min(end)..end].fill(0);
            self.invalidate(&mut state, inode, from, from + length);
        }
        Ok(())
    }

    fn locked(&self, inode: u64, owner: u64, start: u64, end: u64, kind: i32) -> Outcome<()> {
        let mut state = self.state();
        let owner = (self.mount, owner);
        let exclusive = kind == libc::F_WRLCK;
        let locks = state.locks.entry(inode).or_default();
        let meets = |lock: &Lock| lock.start <= end && start <= lock.end;
        let taken = locks
            .iter()
            .any(|lock| lock.owner != owner && meets(lock) && (exclusive || lock.exclusive));
        if kind != libc::F_UNLCK && taken && !self.switch.strikes(Fault::LockGrantedTwice, 10) {
            return Err(Errno::EAGAIN);
        }
        // The checker frees exactly what it locked.
        locks.retain(|lock| lock.owner != owner || !meets(lock));
        if kind != libc::F_UNLCK {
            locks.push(Lock {
                owner,
                start,
                end,
                exclusive,
            });
        }
        Ok(())
    }
}

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
        let mut state = self.state();
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
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
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
