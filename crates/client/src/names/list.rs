//! readdir(3), a part at a time.

use crate::answer;
use crate::service::Client;
use gupfs_proto::meta::{Answer, DirEntry, Op};
use gupfs_proto::{Attr, Caller, FileKind, InodeId, Name, Refusal};

/// Cookies of "." and ".."; the first real entry's is above.
const DOT: u64 = 1;
const DOT_DOT: u64 = 2;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    pub entries: Vec<Listed>,
    /// Nothing follows.
    pub end: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    pub name: EntryName,
    pub ino: InodeId,
    pub kind: FileKind,
    /// Where to go on after this entry.
    pub cookie: u64,
    /// If attributes were asked; never of "." and "..".
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

impl Client {
    /// About `limit` entries after `cookie` (0 is the start), "." and ".." first. With attributes if `plus`; these
    /// entries do *not* count as given: whoever passes one on to the kernel says so with `Client::gave`.
    pub async fn readdir(
        &self,
        caller: &Caller,
        dir: InodeId,
        cookie: u64,
        limit: u32,
        plus: bool,
    ) -> Result<Listing, Refusal> {
        let mut entries = Vec::with_capacity(limit.min(256) as usize);
        if cookie < DOT {
            entries.push(listed(EntryName::Dot, dir, DOT));
        }
        if cookie < DOT_DOT {
            let parent = self.ask(caller, Op::LookupParent { dir }).await;
            let parent = match parent {
                Ok(answer) => answer::entry("lookup_parent", answer)?.ino,
                // A removed directory has no parent any more and is still open: it lists as empty, above itself.
                Err(Refusal::NotFound) => dir,
                Err(refusal) => return Err(refusal),
            };
            entries.push(listed(EntryName::DotDot, parent, DOT_DOT));
        }
        let moment = self.table.moment();
        let op = Op::Readdir {
            dir,
            after: if cookie <= DOT_DOT { 0 } else { cookie },
            limit,
            plus,
        };
        let Answer::Entries {
            entries: found,
            end,
        } = self.ask(caller, op).await?
        else {
            return answer::unexpected("readdir");
        };
        for DirEntry {
            name,
            ino,
            kind,
            cookie,
            attr,
        } in found
        {
            let attr = match attr {
                Some(attr) => match self.current(moment, attr).await {
                    Ok(attr) => Some(attr),
                    // Removed while we asked: it lists without attributes, as it would have before. So does a file whose size
                    // cannot be had, since its objects lie on a target that is down: the others are listed.
                    Err(Refusal::NotFound | Refusal::Stale | Refusal::TargetDown { .. }) => None,
                    Err(refusal) => return Err(refusal),
                },
                None => None,
            };
            let name = EntryName::Name(name);
            entries.push(Listed {
                name,
                ino,
                kind,
                cookie,
                attr,
            });
        }
        if cookie < DOT && self.options.directory_atime {
            self.touch(dir).await;
        }
        Ok(Listing { entries, end })
    }
}

fn listed(name: EntryName, ino: InodeId, cookie: u64) -> Listed {
    Listed {
        name,
        ino,
        kind: FileKind::Directory,
        cookie,
        attr: None,
    }
}
