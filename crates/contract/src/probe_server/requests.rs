//! The requests of the kernel.

use gupfs_fuse::{
    AttrReply, Call, CreateReply, DirentsPlus, EntryReply, Errno, FileHandle, FileSystem,
    InodeAttr, NodeId, OpenReply, OpenReplyFlags, ReplyData, Result, XattrReply, op,
};

use super::{ACCESS_ACL, FileState, LONG_TTL, ProbeServer};

/// `op::Open::flags`: the program truncates the file.
const O_TRUNC: u32 = 0o1000;

/// Version, then entries: tag, permissions, id (linux/posix_acl_xattr.h).
fn access_acl(user: u32) -> Vec<u8> {
    const NO_ID: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 6, NO_ID),
        (0x02, 4, user),
        (0x04, 4, NO_ID),
        (0x10, 4, NO_ID),
        (0x20, 4, NO_ID),
    ];
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        acl.extend(tag.to_le_bytes());
        acl.extend(permissions.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    acl
}

/// The user that an ACL names, in the form of getxattr(2).
pub fn acl_user(acl: &[u8]) -> Option<u32> {
    let entries = acl.get(4..)?.as_chunks::<8>().0;
    let named = entries.iter().find(|entry| entry[0] == 0x02)?;
    Some(u32::from_le_bytes(*named.last_chunk()?))
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

impl FileSystem for ProbeServer {
    async fn lookup(&self, _: Call, op: op::Lookup) -> Result<EntryReply> {
        let found = match self.node_named(op.name.as_bytes()) {
            Ok(node) if !self.file_state(node)?.hidden => self.give(node),
            _ => {
                let ttl = self.state().absent_ttl.unwrap_or(LONG_TTL);
                Ok(EntryReply::absent(ttl))
            }
        };
        self.log_and_wait("lookup", text(op.name.as_bytes())).await;
        found
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<AttrReply> {
        if call.node == NodeId::ROOT {
            let attr = InodeAttr {
                ino: 1,
                mode: 0o040777,
                nlink: 2,
                ..InodeAttr::default()
            };
            return Ok(AttrReply {
                attr,
                ttl: LONG_TTL,
            });
        }
        let entry = self.entry(call.node);
        self.log_and_wait("getattr", call.node.to_string()).await;
        let entry = entry?;
        Ok(AttrReply {
            attr: entry.attr,
            ttl: entry.attr_ttl,
        })
    }

    async fn open(&self, call: Call, op: op::Open) -> Result<OpenReply> {
        let flags = self.file_state(call.node)?.flags;
        let truncates = op.flags & O_TRUNC != 0;
        if truncates {
            self.with_file(call.node.0, |file| file.size = 0);
        }
        let how = if truncates { " truncating" } else { "" };
        self.log_and_wait("open", format!("{}{how}", call.node))
            .await;
        Ok(OpenReply {
            fh: FileHandle(7),
            flags,
        })
    }

    async fn read(&self, call: Call, op: op::Read) -> Result<ReplyData> {
        let FileState { size, byte, .. } = self.file_state(call.node)?;
        let owner = match op.lock_owner {
            Some(_) => " with owner",
            None => "",
        };
        self.log_and_wait("read", format!("{} at {}{owner}", call.node, op.offset))
            .await;
        let count = size.saturating_sub(op.offset).min(u64::from(op.size));
        Ok(vec![byte; count as usize].into())
    }

    async fn write(&self, call: Call, op: op::Write) -> Result<u32> {
        self.log_and_wait("write", format!("{} at {}", call.node, op.offset))
            .await;
        let mut state = self.state();
        let file = state.files.get_mut(&call.node).ok_or(Errno::ESTALE)?;
        file.size = file.size.max(op.offset + op.data.len() as u64);
        file.byte = op.data.first().copied().unwrap_or(file.byte);
        file.mtime += 1;
        Ok(op.data.len() as u32)
    }

    async fn create(&self, _: Call, op: op::Create) -> Result<CreateReply> {
        let name = text(op.name.as_bytes());
        let found = self.node_named(op.name.as_bytes());
        // Taken now: the reply may wait.
        let found = found.and_then(|node| self.give(node));
        self.log_and_wait("create", name.clone()).await;
        if let Ok(entry) = found {
            return Ok(CreateReply {
                entry,
                opened: OpenReply::default(),
            });
        }
        let node = NodeId(1000 + name.len() as u64);
        let flags = OpenReplyFlags::empty();
        let file = FileState::new(name.into_bytes(), 0o100_666, 0, b'n', flags);
        self.state().files.insert(node, file);
        Ok(CreateReply {
            entry: self.give(node)?,
            opened: OpenReply::default(),
        })
    }

    async fn link(&self, _: Call, op: op::Link) -> Result<EntryReply> {
        let entry = self.give(op.target);
        self.log_and_wait("link", text(op.name.as_bytes())).await;
        entry
    }

    async fn mkdir(&self, _: Call, op: op::Mkdir) -> Result<EntryReply> {
        let name = op.name.as_bytes();
        let node = NodeId(2000 + name.len() as u64);
        let flags = OpenReplyFlags::empty();
        let directory = FileState::new(name.into(), 0o040_777, 0, b'n', flags);
        self.state().files.insert(node, directory);
        let entry = self.give(node);
        self.log_and_wait("mkdir", text(name)).await;
        entry
    }

    /// Changes nothing; the reply is made before it waits.
    async fn setattr(&self, call: Call, _: op::Setattr) -> Result<AttrReply> {
        let entry = self.entry(call.node)?;
        self.log_and_wait("setattr", call.node.to_string()).await;
        Ok(AttrReply {
            attr: entry.attr,
            ttl: entry.attr_ttl,
        })
    }

    async fn getxattr(&self, call: Call, op: op::Getxattr) -> Result<XattrReply> {
        if op.name.as_bytes() != ACCESS_ACL.as_bytes() || call.node == NodeId::ROOT {
            return Err(Errno::ENODATA);
        }
        let user = self.file_state(call.node)?.acl_user;
        self.log_and_wait("getxattr", call.node.to_string()).await;
        XattrReply::fit(access_acl(user), op.size)
    }

    async fn forget(&self, batch: Vec<op::Forget>) {
        let mut state = self.state();
        for forget in batch {
            *state.forgotten.entry(forget.node).or_default() += forget.lookups;
        }
    }

    async fn opendir(&self, _: Call, _: op::Open) -> Result<OpenReply> {
        Ok(OpenReply::default())
    }

    async fn releasedir(&self, _: Call, _: op::Release) -> Result<()> {
        Ok(())
    }

    async fn readdirplus(&self, call: Call, op: op::Readdir) -> Result<DirentsPlus> {
        let mut dirents = DirentsPlus::new(&op);
        if call.node == NodeId::ROOT && op.offset == 0 {
            let nodes: Vec<NodeId> = self.state().files.keys().copied().collect();
            for node in nodes {
                let name = self.file_state(node)?.name;
                if !dirents.push(&self.entry(node)?, node.0, &name) {
                    break;
                }
                *self.state().lookups_given.entry(node).or_default() += 1;
            }
        }
        self.log_and_wait("readdirplus", op.offset.to_string())
            .await;
        Ok(dirents)
    }

    async fn setlk(&self, call: Call, op: op::Lock) -> Result<()> {
        let mut details = format!("{} {:?}", call.node, op.lock.kind);
        if !op.is_flock() {
            details += &format!(" by {}", op.owner.0);
        }
        self.log_and_wait("setlk", details).await;
        Ok(())
    }

    async fn setlkw(&self, call: Call, op: op::Lock) -> Result<()> {
        self.setlk(call, op).await
    }

    async fn flush(&self, call: Call, op: op::Flush) -> Result<()> {
        self.log_and_wait("flush", format!("{} by {}", call.node, op.lock_owner.0))
            .await;
        Ok(())
    }

    async fn release(&self, call: Call, op: op::Release) -> Result<()> {
        self.log_and_wait("release", format!("{} {:?}", call.node, op.flags))
            .await;
        Ok(())
    }
}
