//! Names in directories.

use gupfs_fuse::op::{EntryName, Rename};
use gupfs_fuse::{Errno, NodeId, Result};

use super::state::{FileTree, now};

impl FileTree {
    pub fn child(&self, directory: NodeId, name: &[u8]) -> Result<NodeId> {
        if name.len() > 255 {
            return Err(Errno::ENAMETOOLONG);
        }
        match name {
            b"." => Ok(directory),
            b".." => Ok(self.node(directory)?.directory()?.parent),
            name => {
                let directory = self.node(directory)?.directory()?;
                directory
                    .by_name
                    .get(name)
                    .map(|(_, node)| *node)
                    .ok_or(Errno::ENOENT)
            }
        }
    }

    pub fn add_name(&mut self, directory: NodeId, name: &EntryName, node: NodeId) -> Result<()> {
        let parent = self.node_mut(directory)?;
        let names = parent.directory_mut()?;
        if names.by_name.contains_key(name.as_bytes()) {
            return Err(Errno::EEXIST);
        }
        let age = names.next;
        names.next += 1;
        names.by_name.insert(name.as_bytes().into(), (age, node));
        names.by_age.insert(age, name.as_bytes().into());
        parent.touch();
        Ok(())
    }

    fn take_name(&mut self, directory: NodeId, name: &[u8]) -> Result<NodeId> {
        let parent = self.node_mut(directory)?;
        let names = parent.directory_mut()?;
        let (age, node) = names.by_name.remove(name).ok_or(Errno::ENOENT)?;
        names.by_age.remove(&age);
        parent.touch();
        Ok(node)
    }

    pub fn unlink(&mut self, directory: NodeId, name: &[u8]) -> Result<()> {
        let child = self.child(directory, name)?;
        if self.node(child)?.is_directory() {
            return Err(Errno::EISDIR);
        }
        self.take_name(directory, name)?;
        let node = self.node_mut(child)?;
        node.attr.nlink -= 1;
        node.attr.ctime = now();
        self.drop_if_unused(child);
        Ok(())
    }

    pub fn rmdir(&mut self, directory: NodeId, name: &[u8]) -> Result<()> {
        let child = self.child(directory, name)?;
        if !self.node(child)?.directory()?.by_name.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.take_name(directory, name)?;
        self.node_mut(child)?.attr.nlink = 0;
        self.node_mut(directory)?.attr.nlink -= 1;
        self.drop_if_unused(child);
        Ok(())
    }

    pub fn rename(&mut self, directory: NodeId, op: &Rename) -> Result<()> {
        let moved = self.child(directory, &op.name)?;
        let replaced = self.child(op.new_directory, &op.new_name).ok();
        match (op.flags, replaced) {
            (libc::RENAME_EXCHANGE, None) => return Err(Errno::ENOENT),
            (libc::RENAME_EXCHANGE, Some(other)) => {
                self.take_name(op.new_directory, &op.new_name)?;
                self.exchange_half(other, op.new_directory, directory, &op.name, moved)?;
                return self.exchange_half(moved, directory, op.new_directory, &op.new_name, moved);
            }
            (libc::RENAME_NOREPLACE, Some(_)) => return Err(Errno::EEXIST),
            (0 | libc::RENAME_NOREPLACE, _) => {}
            _ => return Err(Errno::EINVAL),
        }
        match replaced {
            Some(same) if same == moved => return Ok(()),
            Some(other) if self.node(other)?.is_directory() => {
                if !self.node(moved)?.is_directory() {
                    return Err(Errno::EISDIR);
                }
                self.rmdir(op.new_directory, &op.new_name)?;
            }
            Some(_) if self.node(moved)?.is_directory() => return Err(Errno::ENOTDIR),
            Some(_) => self.unlink(op.new_directory, &op.new_name)?,
            None => {}
        }
        self.take_name(directory, &op.name)?;
        self.put(moved, directory, op.new_directory, &op.new_name)
    }

    /// Half of an exchange: `node` gets the name; `holder` loses it if it still has it.
    fn exchange_half(
        &mut self,
        node: NodeId,
        from: NodeId,
        to: NodeId,
        name: &EntryName,
        previous: NodeId,
    ) -> Result<()> {
        if self.child(to, name) == Ok(previous) {
            self.take_name(to, name)?;
        }
        self.put(node, from, to, name)
    }

    fn put(&mut self, node: NodeId, from: NodeId, to: NodeId, name: &EntryName) -> Result<()> {
        self.add_name(to, name, node)?;
        let moved = self.node_mut(node)?;
        moved.attr.ctime = now();
        if let Ok(names) = moved.directory_mut() {
            names.parent = to;
            self.node_mut(from)?.attr.nlink -= 1;
            self.node_mut(to)?.attr.nlink += 1;
        }
        Ok(())
    }

    /// Offset, name and node of the entries after `offset`.
    pub fn names(
        &self,
        node: NodeId,
        offset: u64,
    ) -> Result<impl Iterator<Item = (u64, &[u8], NodeId)>> {
        let names = self.node(node)?.directory()?;
        let own = [(1, &b"."[..], node), (2, &b".."[..], names.parent)];
        let own = own.into_iter().filter(move |(at, ..)| *at > offset);
        let rest = names.by_age.range(offset.max(2) + 1..).map(|(age, name)| {
            let (_, node) = names.by_name[name];
            (*age, &**name, node)
        });
        Ok(own.chain(rest))
    }
}
