//! The bytes of files in the model: open, truncate, write.

use super::{Model, ModelCaller, ModelResult, NodeId, READ, WRITE};
use gupfs_proto::{FileKind, FsError};

impl Model {
    pub fn open(
        &mut self,
        id: NodeId,
        want: u32,
        truncate: bool,
        caller: &ModelCaller,
    ) -> ModelResult<()> {
        let kind = self.node(id)?.kind;
        let want = match want | if truncate { WRITE } else { 0 } {
            // A client gets the layout again: it needs read access.
            0 => READ,
            want => want,
        };
        match kind {
            FileKind::Symlink => return Err(FsError::Loop),
            FileKind::Directory if want & WRITE != 0 => return Err(FsError::IsDirectory),
            _ => {}
        }
        self.access(id, caller, want)?;
        if truncate && kind == FileKind::Regular {
            self.set_size(id, 0);
            self.kill_privileges(id, caller, !caller.has_group(self.nodes[id].gid));
        }
        Ok(())
    }

    fn check_regular(&self, id: NodeId) -> ModelResult<()> {
        match self.node(id)?.kind {
            FileKind::Regular => Ok(()),
            FileKind::Directory => Err(FsError::IsDirectory),
            _ => Err(FsError::Invalid),
        }
    }

    pub fn truncate(
        &mut self,
        id: NodeId,
        to: u64,
        by_handle: bool,
        caller: &ModelCaller,
    ) -> ModelResult<()> {
        self.check_regular(id)?;
        if !by_handle {
            self.access(id, caller, WRITE)?;
        }
        self.set_size(id, to);
        self.kill_privileges(id, caller, !caller.has_group(self.nodes[id].gid));
        Ok(())
    }

    /// Clears setuid and setgid after a write by a caller that is not root.
    fn kill_privileges(&mut self, id: NodeId, caller: &ModelCaller, group_is_another: bool) {
        let mode = &mut self.nodes[id].mode;
        if caller.uid != 0 {
            let runs_as_group = *mode & 0o10 != 0;
            *mode &= !(0o4000
                | if runs_as_group || group_is_another {
                    0o2000
                } else {
                    0
                });
        }
    }

    fn set_size(&mut self, id: NodeId, to: u64) {
        let node = &mut self.nodes[id];
        node.size = to;
        match &mut node.data {
            Some(data) => data.truncate(to as usize),
            None if to == 0 => node.data = Some(Vec::new()),
            None => {}
        }
        self.touch(id);
    }

    /// Returns whether the bytes were written; false: they do not fit into an inode.
    pub fn write(
        &mut self,
        id: NodeId,
        at: Option<u64>,
        bytes: &[u8],
        caller: &ModelCaller,
    ) -> ModelResult<bool> {
        self.check_regular(id)?;
        let node = &self.nodes[id];
        let at = at.unwrap_or(node.size);
        let end = at + bytes.len() as u64;
        if bytes.is_empty() {
            return Ok(true);
        }
        let Some(data) = &node.data else {
            return Ok(false);
        };
        if end > 4096 {
            return Ok(false);
        }
        if end as usize > data.len() {
            self.check_growth()?;
        }
        let node = &mut self.nodes[id];
        let data = node.data.as_mut().expect("it was checked above");
        data.resize(data.len().max(end as usize), 0);
        data[at as usize..end as usize].copy_from_slice(bytes);
        node.size = node.size.max(end);
        self.touch(id);
        self.kill_privileges(id, caller, false);
        Ok(true)
    }

    /// A write that moves the file into objects.
    pub fn write_objects(
        &mut self,
        id: NodeId,
        size: u64,
        caller: &ModelCaller,
    ) -> ModelResult<()> {
        self.check_regular(id)?;
        self.check_growth()?;
        let node = &mut self.nodes[id];
        node.data = None;
        node.size = node.size.max(size);
        self.touch(id);
        self.kill_privileges(id, caller, false);
        Ok(())
    }
}
