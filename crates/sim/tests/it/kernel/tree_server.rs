//! A FUSE server with a tree in memory, for the model of the kernel: no caches, no leases, one lifetime for all its replies.

use gupfs_fuse::{
    AttrReply, Call, CreateReply, Dirents, DirentsPlus, EntryReply, Errno, FileHandle, FileSystem,
    FuseTimestamp, InodeAttr, NodeId, OpenReply, OpenReplyFlags, ReplyData, Result, XattrReply, op,
};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
const KIND: u32 = 0o170_000;

pub struct TreeServer {
    ttl: Duration,
    state: Mutex<Tree>,
}

struct Tree {
    inodes: BTreeMap<NodeId, Inode>,
    /// A clock that ticks with each change.
    ticks: i64,
    requests: Vec<&'static str>,
    /// Flags of replies to OPENDIR.
    directory_flags: OpenReplyFlags,
}

#[derive(Default)]
struct Inode {
    attr: InodeAttr,
    names: BTreeMap<Vec<u8>, NodeId>,
    bytes: Vec<u8>,
    lookups: u64,
}

impl TreeServer {
    /// `ttl`: the lifetime of names and attributes.
    pub fn new(ttl: Duration) -> TreeServer {
        let mut tree = Tree {
            inodes: BTreeMap::new(),
            ticks: 0,
            requests: Vec::new(),
            directory_flags: OpenReplyFlags::empty(),
        };
        tree.inodes
            .insert(NodeId::ROOT, new_inode(1, DIRECTORY | 0o755));
        TreeServer {
            ttl,
            state: Mutex::new(tree),
        }
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.state.lock().unwrap()
    }

    pub fn set_directory_flags(&self, flags: OpenReplyFlags) {
        self.tree().directory_flags = flags;
    }

    /// The requests since the last call.
    pub fn take_requests(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.tree().requests)
    }

    /// Number of changes so far.
    pub fn changes(&self) -> i64 {
        self.tree().ticks
    }

    /// The nodes that the kernel has not forgotten, with their lookups.
    pub fn lookups(&self) -> Vec<(NodeId, u64)> {
        let tree = self.tree();
        let inodes = tree.inodes.iter().filter(|(_, inode)| inode.lookups > 0);
        inodes.map(|(node, inode)| (*node, inode.lookups)).collect()
    }

    fn attr_reply(&self, tree: &Tree, node: NodeId) -> Result<AttrReply> {
        Ok(AttrReply {
            attr: tree.get(node)?.attr,
            ttl: self.ttl,
        })
    }

    /// Counts a lookup.
    fn entry(&self, tree: &mut Tree, node: NodeId) -> Result<EntryReply> {
        let inode = tree.get_mut(node)?;
        inode.lookups += 1;
        Ok(EntryReply {
            node,
            generation: 0,
            name_ttl: self.ttl,
            attr: inode.attr,
            attr_ttl: self.ttl,
        })
    }

    fn make(&self, dir: NodeId, name: &[u8], mode: u32, bytes: &[u8]) -> Result<EntryReply> {
        let mut tree = self.tree();
        let node = tree.add(dir, name, mode, bytes)?;
        self.entry(&mut tree, node)
    }
}

fn new_inode(node: u64, mode: u32) -> Inode {
    let attr = InodeAttr {
        ino: node,
        mode,
        nlink: if mode & KIND == DIRECTORY { 2 } else { 1 },
        ..InodeAttr::default()
    };
    Inode {
        attr,
        ..Inode::default()
    }
}

impl Tree {
    fn get(&self, node: NodeId) -> Result<&Inode> {
        self.inodes.get(&node).ok_or(Errno::ESTALE)
    }

    fn get_mut(&mut self, node: NodeId) -> Result<&mut Inode> {
        self.inodes.get_mut(&node).ok_or(Errno::ESTALE)
    }

    fn touch(&mut self, node: NodeId) -> Result<&mut Inode> {
        self.ticks += 1;
        let seconds = self.ticks;
        let inode = self.get_mut(node)?;
        inode.attr.mtime = FuseTimestamp { seconds, nanos: 0 };
        Ok(inode)
    }

    fn find(&self, dir: NodeId, name: &[u8]) -> Result<NodeId> {
        let found = self.get(dir)?.names.get(name);
        found.copied().ok_or(Errno::ENOENT)
    }

    fn is_directory(&self, node: NodeId) -> bool {
        self.get(node)
            .is_ok_and(|inode| inode.attr.mode & KIND == DIRECTORY)
    }

    fn add(&mut self, dir: NodeId, name: &[u8], mode: u32, bytes: &[u8]) -> Result<NodeId> {
        if self.find(dir, name).is_ok() {
            return Err(Errno::EEXIST);
        }
        let node = NodeId(self.inodes.len() as u64 + 1);
        let mut inode = new_inode(node.0, mode);
        inode.bytes = bytes.to_vec();
        inode.attr.size = bytes.len() as u64;
        self.inodes.insert(node, inode);
        let is_directory = mode & KIND == DIRECTORY;
        let parent = self.touch(dir)?;
        parent.names.insert(name.to_vec(), node);
        parent.attr.nlink += u32::from(is_directory);
        Ok(node)
    }

    fn remove(&mut self, dir: NodeId, name: &[u8]) -> Result<()> {
        let node = self.find(dir, name)?;
        if !self.get(node)?.names.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        let is_directory = self.is_directory(node);
        let parent = self.touch(dir)?;
        parent.names.remove(name);
        parent.attr.nlink -= u32::from(is_directory);
        let inode = self.get_mut(node)?;
        inode.attr.nlink = if is_directory {
            0
        } else {
            inode.attr.nlink - 1
        };
        Ok(())
    }

    fn rename(&mut self, from: (NodeId, &[u8]), to: (NodeId, &[u8]), flags: u32) -> Result<()> {
        let moved = self.find(from.0, from.1)?;
        let target = self.find(to.0, to.1);
        if flags == libc::RENAME_EXCHANGE {
            let target = target?;
            self.put(from, target)?;
            return self.put(to, moved);
        }
        if target.is_ok() {
            self.remove(to.0, to.1)?;
        }
        let is_directory = self.is_directory(moved);
        let old = self.touch(from.0)?;
        old.names.remove(from.1);
        old.attr.nlink -= u32::from(is_directory);
        self.get_mut(to.0)?.attr.nlink += u32::from(is_directory);
        self.put(to, moved)
    }

    fn put(&mut self, (dir, name): (NodeId, &[u8]), node: NodeId) -> Result<()> {
        let is_directory = u32::from(self.is_directory(node));
        let old = self.find(dir, name).is_ok_and(|old| self.is_directory(old));
        let has_old = self.find(dir, name).is_ok();
        let inode = self.touch(dir)?;
        inode.names.insert(name.to_vec(), node);
        if has_old {
            inode.attr.nlink = inode.attr.nlink + is_directory - u32::from(old);
        }
        Ok(())
    }

    fn resize(&mut self, node: NodeId, size: usize) -> Result<()> {
        let inode = self.touch(node)?;
        inode.bytes.resize(size, 0);
        inode.attr.size = size as u64;
        Ok(())
    }
}

/// The server lets the kernel cache some files, with and without KEEP_CACHE, and wants direct I/O for others.
fn open_flags(node: NodeId) -> OpenReplyFlags {
    match node.0 % 3 {
        0 => OpenReplyFlags::empty(),
        1 => OpenReplyFlags::KEEP_CACHE,
        _ => OpenReplyFlags::DIRECT_IO | OpenReplyFlags::PARALLEL_DIRECT_WRITES,
    }
}

fn opened(node: NodeId) -> OpenReply {
    OpenReply {
        fh: FileHandle(node.0),
        flags: open_flags(node),
    }
}

impl FileSystem for TreeServer {
    async fn lookup(&self, call: Call, op: op::Lookup) -> Result<EntryReply> {
        let mut tree = self.tree();
        tree.requests.push("lookup");
        match tree.find(call.node, &op.name) {
            Ok(node) => self.entry(&mut tree, node),
            Err(Errno::ENOENT) => Ok(EntryReply::absent(self.ttl)),
            Err(errno) => Err(errno),
        }
    }

    async fn forget(&self, batch: Vec<op::Forget>) {
        let mut tree = self.tree();
        for forget in batch {
            let inode = tree.get_mut(forget.node).unwrap();
            assert!(inode.lookups >= forget.lookups, "{forget:?}");
            inode.lookups -= forget.lookups;
        }
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<AttrReply> {
        let mut tree = self.tree();
        tree.requests.push("getattr");
        self.attr_reply(&tree, call.node)
    }

    async fn setattr(&self, call: Call, op: op::Setattr) -> Result<AttrReply> {
        let mut tree = self.tree();
        tree.requests.push("setattr");
        if let Some(size) = op.size() {
            tree.resize(call.node, size as usize)?;
        }
        let inode = tree.get_mut(call.node)?;
        inode.attr.mode = op.mode().unwrap_or(inode.attr.mode);
        inode.attr.uid = op.uid().unwrap_or(inode.attr.uid);
        inode.attr.gid = op.gid().unwrap_or(inode.attr.gid);
        if let Some(op::SetTime::At(mtime)) = op.mtime() {
            inode.attr.mtime = mtime;
        }
        self.attr_reply(&tree, call.node)
    }

    async fn readlink(&self, call: Call, (): ()) -> Result<Vec<u8>> {
        Ok(self.tree().get(call.node)?.bytes.clone())
    }

    async fn symlink(&self, call: Call, op: op::Symlink) -> Result<EntryReply> {
        self.make(call.node, &op.name, SYMLINK | 0o777, &op.target)
    }

    async fn mkdir(&self, call: Call, op: op::Mkdir) -> Result<EntryReply> {
        let mode = DIRECTORY | op.mode & !op.umask;
        self.make(call.node, &op.name, mode, b"")
    }

    async fn unlink(&self, call: Call, op: op::Unlink) -> Result<()> {
        self.tree().remove(call.node, &op.name)
    }

    async fn rmdir(&self, call: Call, op: op::Rmdir) -> Result<()> {
        self.tree().remove(call.node, &op.name)
    }

    async fn rename(&self, call: Call, op: op::Rename) -> Result<()> {
        let (from, to) = ((call.node, &*op.name), (op.new_directory, &*op.new_name));
        self.tree().rename(from, to, op.flags)
    }

    async fn link(&self, call: Call, op: op::Link) -> Result<EntryReply> {
        let mut tree = self.tree();
        tree.get_mut(op.target)?.attr.nlink += 1;
        tree.touch(call.node)?
            .names
            .insert(op.name.to_vec(), op.target);
        self.entry(&mut tree, op.target)
    }

    async fn open(&self, call: Call, op: op::Open) -> Result<OpenReply> {
        if op.flags & libc::O_TRUNC as u32 != 0 {
            self.tree().resize(call.node, 0)?;
        }
        Ok(opened(call.node))
    }

    async fn create(&self, call: Call, op: op::Create) -> Result<CreateReply> {
        let mode = REGULAR | op.mode & !op.umask;
        let entry = self.make(call.node, &op.name, mode, b"")?;
        Ok(CreateReply {
            entry,
            opened: opened(entry.node),
        })
    }

    async fn read(&self, call: Call, op: op::Read) -> Result<ReplyData> {
        let mut tree = self.tree();
        tree.requests.push("read");
        let bytes = &tree.get(call.node)?.bytes;
        let start = (op.offset as usize).min(bytes.len());
        let end = (start + op.size as usize).min(bytes.len());
        Ok(bytes[start..end].to_vec().into())
    }

    async fn write(&self, call: Call, op: op::Write) -> Result<u32> {
        let (mut tree, data) = (self.tree(), op.data.to_vec());
        let end = op.offset as usize + data.len();
        let size = tree.get(call.node)?.bytes.len();
        tree.resize(call.node, size.max(end))?;
        let inode = tree.get_mut(call.node)?;
        inode.bytes[op.offset as usize..end].copy_from_slice(&data);
        Ok(data.len() as u32)
    }

    async fn flush(&self, _: Call, _: op::Flush) -> Result<()> {
        Ok(())
    }

    async fn release(&self, _: Call, _: op::Release) -> Result<()> {
        Ok(())
    }

    async fn getxattr(&self, _: Call, _: op::Getxattr) -> Result<XattrReply> {
        Err(Errno::ENODATA)
    }

    async fn opendir(&self, _: Call, _: op::Open) -> Result<OpenReply> {
        Ok(OpenReply {
            flags: self.tree().directory_flags,
            ..OpenReply::default()
        })
    }

    async fn readdir(&self, call: Call, op: op::Readdir) -> Result<Dirents> {
        let mut tree = self.tree();
        tree.requests.push("readdir");
        let mut dirents = Dirents::new(&op);
        let names = tree.get(call.node)?.names.iter().enumerate();
        for (index, (name, node)) in names.skip(op.offset as usize) {
            let mode = tree.get(*node)?.attr.mode;
            if !dirents.push(node.0, index as u64 + 1, mode, name) {
                break;
            }
        }
        Ok(dirents)
    }

    async fn readdirplus(&self, call: Call, op: op::Readdir) -> Result<DirentsPlus> {
        let mut tree = self.tree();
        tree.requests.push("readdirplus");
        let mut dirents = DirentsPlus::new(&op);
        let names = tree.get(call.node)?.names.clone().into_iter().enumerate();
        for (index, (name, node)) in names.skip(op.offset as usize) {
            if !dirents.fits(&name) {
                break;
            }
            let entry = self.entry(&mut tree, node)?;
            assert!(dirents.push(&entry, index as u64 + 1, &name));
        }
        Ok(dirents)
    }

    async fn releasedir(&self, _: Call, _: op::Release) -> Result<()> {
        Ok(())
    }
}
