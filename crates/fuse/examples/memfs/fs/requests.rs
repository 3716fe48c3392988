//! The methods that the kernel's requests call.

use gupfs_fuse::op::{self, FileLock};
use gupfs_fuse::{
    AttrReply, Call, CreateReply, Dirents, DirentsPlus, EntryReply, Errno, FileSystem, OpenReply,
    OpenReplyFlags, ReplyData, Result, StatfsReply, Statx, StatxReply, XattrReply,
};

use super::state::{self, NodeKind};
use super::{MemFs, TTL, attributes, count_lookup, entry, files};

impl FileSystem for MemFs {
    async fn forget(&self, batch: Vec<op::Forget>) {
        let mut state = self.state();
        for op::Forget { node, lookups } in batch {
            if let Some(known) = state.nodes.get_mut(&node.0) {
                known.lookups -= lookups;
            }
            state.drop_if_unused(node);
        }
    }

    async fn lookup(&self, call: Call, op: op::Lookup) -> Result<EntryReply> {
        let mut state = self.state();
        match state.child(call.node, &op.name) {
            Ok(child) => Ok(count_lookup(state.node_mut(child)?)),
            Err(Errno::ENOENT) => Ok(EntryReply::absent(TTL)),
            Err(errno) => Err(errno),
        }
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<AttrReply> {
        Ok(attributes(self.state().node(call.node)?))
    }

    async fn statx(&self, call: Call, op: op::Statx) -> Result<StatxReply> {
        let state = self.state();
        let node = state.node(call.node)?;
        let known = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
        let statx = Statx {
            mask: op.mask & known,
            attr: node.attr(),
            btime: node.born,
            ..Statx::default()
        };
        Ok(StatxReply { statx, ttl: TTL })
    }

    async fn setattr(&self, call: Call, op: op::Setattr) -> Result<AttrReply> {
        let mut state = self.state();
        let node = state.node_mut(call.node)?;
        files::set_attributes(node, &op)?;
        Ok(attributes(node))
    }

    async fn readlink(&self, call: Call, (): ()) -> Result<Vec<u8>> {
        match &self.state().node(call.node)?.kind {
            NodeKind::Symlink(target) => Ok(target.to_vec()),
            _ => Err(Errno::EINVAL),
        }
    }

    async fn symlink(&self, call: Call, op: op::Symlink) -> Result<EntryReply> {
        let mut state = self.state();
        let node = state.create(
            &call,
            &op.name,
            libc::S_IFLNK | 0o777,
            0,
            NodeKind::Symlink(op.target),
        )?;
        Ok(count_lookup(node))
    }

    async fn mknod(&self, call: Call, op: op::Mknod) -> Result<EntryReply> {
        let mut state = self.state();
        let node = state.create(
            &call,
            &op.name,
            op.mode & !op.umask,
            op.rdev,
            NodeKind::File(Vec::new()),
        )?;
        Ok(count_lookup(node))
    }

    async fn mkdir(&self, call: Call, op: op::Mkdir) -> Result<EntryReply> {
        let mut state = self.state();
        let mode = libc::S_IFDIR | op.mode & !op.umask;
        let node = state.create(&call, &op.name, mode, 0, NodeKind::directory(call.node))?;
        let made = count_lookup(node);
        state.node_mut(call.node)?.attr.nlink += 1;
        Ok(made)
    }

    async fn unlink(&self, call: Call, op: op::Unlink) -> Result<()> {
        self.state().unlink(call.node, &op.name)
    }

    async fn rmdir(&self, call: Call, op: op::Rmdir) -> Result<()> {
        self.state().rmdir(call.node, &op.name)
    }

    async fn rename(&self, call: Call, op: op::Rename) -> Result<()> {
        self.state().rename(call.node, &op)
    }

    async fn link(&self, call: Call, op: op::Link) -> Result<EntryReply> {
        let mut state = self.state();
        state.add_name(call.node, &op.name, op.target)?;
        let node = state.node_mut(op.target)?;
        node.attr.nlink += 1;
        node.attr.ctime = state::now();
        Ok(count_lookup(node))
    }

    async fn open(&self, call: Call, op: op::Open) -> Result<OpenReply> {
        if op.flags as i32 & libc::O_TRUNC != 0 {
            let mut state = self.state();
            let node = state.node_mut(call.node)?;
            files::truncate(node, 0, !op.open_flags.is_empty())?;
        }
        self.open_node(call.node, self.opened)
    }

    async fn create(&self, call: Call, op: op::Create) -> Result<CreateReply> {
        let entry = {
            let mut state = self.state();
            let mode = libc::S_IFREG | op.mode & !op.umask & 0o7777;
            count_lookup(state.create(&call, &op.name, mode, 0, NodeKind::File(Vec::new()))?)
        };
        Ok(CreateReply {
            entry,
            opened: self.open_node(entry.node, self.opened)?,
        })
    }

    async fn tmpfile(&self, call: Call, op: op::Tmpfile) -> Result<CreateReply> {
        let entry = {
            let mut state = self.state();
            let mode = libc::S_IFREG | op.mode & !op.umask & 0o7777;
            count_lookup(state.add_node(&call, mode, 0, NodeKind::File(Vec::new())))
        };
        Ok(CreateReply {
            entry,
            opened: self.open_node(entry.node, self.opened)?,
        })
    }

    async fn read(&self, call: Call, op: op::Read) -> Result<ReplyData> {
        let state = self.state();
        let bytes = files::read(state.node(call.node)?, op.offset, op.size as usize)?;
        let mut scratch = call.scratch(bytes.len());
        scratch.copy_from_slice(bytes);
        Ok(scratch.into())
    }

    async fn write(&self, call: Call, op: op::Write) -> Result<u32> {
        let mut state = self.state();
        files::write(state.node_mut(call.node)?, &op)
    }

    async fn flush(&self, call: Call, op: op::Flush) -> Result<()> {
        if self
            .state()
            .node_mut(call.node)?
            .locks
            .release_all(op.lock_owner, false)
        {
            self.unlocked.notify_waiters();
        }
        Ok(())
    }

    async fn release(&self, call: Call, op: op::Release) -> Result<()> {
        if let Ok(node) = self.state().node_mut(call.node) {
            node.locks.release_all(op.lock_owner, true);
        }
        self.unlocked.notify_waiters();
        self.close_node(call.node);
        Ok(())
    }

    async fn fsync(&self, _: Call, _: op::Fsync) -> Result<()> {
        Ok(())
    }

    async fn fsyncdir(&self, _: Call, _: op::Fsync) -> Result<()> {
        Ok(())
    }

    async fn syncfs(&self, _: Call, (): ()) -> Result<()> {
        Ok(())
    }

    async fn opendir(&self, call: Call, _: op::Open) -> Result<OpenReply> {
        self.open_node(call.node, OpenReplyFlags::empty())
    }

    async fn releasedir(&self, call: Call, _: op::Release) -> Result<()> {
        self.close_node(call.node);
        Ok(())
    }

    async fn readdir(&self, call: Call, op: op::Readdir) -> Result<Dirents> {
        let state = self.state();
        let mut dirents = Dirents::new(&op);
        for (offset, name, node) in state.names(call.node, op.offset)? {
            let attr = state.node(node)?.attr;
            if !dirents.push(attr.ino, offset, attr.mode, name) {
                break;
            }
        }
        Ok(dirents)
    }

    async fn readdirplus(&self, call: Call, op: op::Readdir) -> Result<DirentsPlus> {
        let mut state = self.state();
        let mut dirents = DirentsPlus::new(&op);
        let mut listed = Vec::new();
        for (offset, name, node) in state.names(call.node, op.offset)? {
            if !dirents.push(&entry(state.node(node)?), offset, name) {
                break;
            }
            if name != b"." && name != b".." {
                listed.push(node);
            }
        }
        for node in listed {
            state.node_mut(node)?.lookups += 1;
        }
        Ok(dirents)
    }

    async fn statfs(&self, _: Call, (): ()) -> Result<StatfsReply> {
        let files = self.inodes() as u64;
        let blocks = 1 << 20;
        Ok(StatfsReply {
            blocks,
            blocks_free: blocks,
            blocks_available: blocks,
            files,
            files_free: 1 << 20,
            block_size: 4096,
            name_max: 255,
            fragment_size: 4096,
        })
    }

    async fn setxattr(&self, call: Call, op: op::Setxattr) -> Result<()> {
        files::set_xattr(self.state().node_mut(call.node)?, op)
    }

    async fn getxattr(&self, call: Call, op: op::Getxattr) -> Result<XattrReply> {
        let state = self.state();
        let value = state
            .node(call.node)?
            .xattrs
            .get(op.name.as_bytes())
            .ok_or(Errno::ENODATA)?;
        XattrReply::fit(value.clone(), op.size)
    }

    async fn listxattr(&self, call: Call, op: op::Listxattr) -> Result<XattrReply> {
        let state = self.state();
        let mut names = Vec::new();
        for name in state.node(call.node)?.xattrs.keys() {
            names.extend_from_slice(name);
            names.push(0);
        }
        XattrReply::fit(names, op.size)
    }

    async fn removexattr(&self, call: Call, op: op::Removexattr) -> Result<()> {
        let mut state = self.state();
        state
            .node_mut(call.node)?
            .xattrs
            .remove(op.name.as_bytes())
            .map(drop)
            .ok_or(Errno::ENODATA)
    }

    async fn getlk(&self, call: Call, op: op::Lock) -> Result<FileLock> {
        Ok(self.state().node(call.node)?.locks.conflicting(&op))
    }

    async fn setlk(&self, call: Call, op: op::Lock) -> Result<()> {
        self.lock(&call, &op)
    }

    async fn setlkw(&self, call: Call, op: op::Lock) -> Result<()> {
        loop {
            // Registered before the attempt, so that no unlock between the attempt and the wait is missed.
            let unlocked = self.unlocked.notified();
            tokio::pin!(unlocked);
            unlocked.as_mut().enable();
            match self.lock(&call, &op) {
                Err(Errno::EAGAIN) => {}
                other => return other,
            }
            tokio::select! {
                () = unlocked => {}
                () = call.interrupted() => return Err(Errno::EINTR),
            }
        }
    }

    async fn fallocate(&self, call: Call, op: op::Fallocate) -> Result<()> {
        files::allocate(self.state().node_mut(call.node)?, &op)
    }

    async fn lseek(&self, call: Call, op: op::Lseek) -> Result<u64> {
        files::seek(self.state().node(call.node)?, &op)
    }

    async fn copy_file_range(&self, call: Call, op: op::CopyFileRange) -> Result<u64> {
        let mut state = self.state();
        let bytes = files::read(state.node(call.node)?, op.offset, op.length as usize)?.to_vec();
        files::store(state.node_mut(op.to_node)?, op.to_offset, &bytes)?;
        Ok(bytes.len() as u64)
    }
}
