//! readdir(3), a part at a time.

use super::Namespace;
use crate::reply;
use gupfs_proto::meta::{DirEntry, MetaOp, MetaReplyBody};
use gupfs_proto::{Attr, Caller, FileKind, FsError, InodeId, Name};

/// Cookies of "." and ".."; the first real entry's is above.
const DOT: u64 = 1;
const DOT_DOT: u64 = 2;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirListing {
    pub entries: Vec<ListedEntry>,
    /// Nothing follows.
    pub end: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedEntry {
    pub name: EntryName,
    pub ino: InodeId,
    pub kind: FileKind,
    /// Where to go on after this entry.
    pub cookie: u64,
    /// Present if attributes were requested; never for "." and "..".
    pub attr: Option<Attr>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EntryName {
    Dot,
    DotDot,
    Name(Name),
}

impl EntryName {
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            EntryName::Dot => b".",
            EntryName::DotDot => b"..",
            EntryName::Name(name) => name.as_bytes(),
        }
    }
}

impl Namespace {
    /// About `limit` entries after `cookie` (0 is the start), "." and ".." first. With attributes if `plus`; these entries add no
    /// lookup: a caller that passes one on to the kernel calls `Client::add_lookups`.
    pub async fn readdir(
        &self,
        caller: &Caller,
        dir: InodeId,
        cookie: u64,
        limit: u32,
        plus: bool,
    ) -> Result<DirListing, FsError> {
        let mut entries = Vec::with_capacity(limit.min(256) as usize);
        if cookie < DOT {
            entries.push(dot_entry(EntryName::Dot, dir, DOT));
        }
        if cookie < DOT_DOT {
            let parent = self.mds.call(caller, MetaOp::LookupParent { dir }).await;
            let parent = match parent {
                Ok(reply) => reply::entry("lookup_parent", reply)?.ino,
                // A removed directory that is still open has no parent any more: it lists as empty, with itself as "..".
                Err(FsError::NotFound) => dir,
                Err(error) => return Err(error),
            };
            entries.push(dot_entry(EntryName::DotDot, parent, DOT_DOT));
        }
        let attr_version = self.inodes.attr_version();
        let op = MetaOp::Readdir {
            dir,
            after: if cookie <= DOT_DOT { 0 } else { cookie },
            limit,
            plus,
        };
        let MetaReplyBody::Entries {
            entries: found,
            end,
        } = self.mds.call(caller, op).await?
        else {
            return reply::unexpected("readdir");
        };
        for DirEntry {
            name,
            ino,
            kind,
            cookie,
            attr,
        } in found
        {
            let attr = match attr.filter(|_| plus) {
                Some(attr) => match self.current_attr(attr_version, attr).await {
                    Ok(attr) => Some(attr),
                    // Removed after the server listed it: the entry has no attributes. The same for a file whose size this client
                    // cannot fetch because an OST with its objects is down: the other entries are listed.
                    Err(FsError::NotFound | FsError::Stale | FsError::TargetDown { .. }) => None,
                    Err(error) => return Err(error),
                },
                None => None,
            };
            let name = EntryName::Name(name);
            entries.push(ListedEntry {
                name,
                ino,
                kind,
                cookie,
                attr,
            });
        }
        if cookie < DOT && self.directory_atime {
            self.update_atime(dir).await;
        }
        Ok(DirListing { entries, end })
    }
}

fn dot_entry(name: EntryName, ino: InodeId, cookie: u64) -> ListedEntry {
    ListedEntry {
        name,
        ino,
        kind: FileKind::Directory,
        cookie,
        attr: None,
    }
}
