//! Requests as one writes them in a test, and their answers taken apart.

use super::Server;
use bytes::Bytes;
use gupfs_proto::meta::{self, Access, Answer, Make, OpenHow, Removed, RenameHow};
use gupfs_proto::{Attr, Caller, InodeId, Name, Refusal};

pub const ROOT: InodeId = InodeId::ROOT;

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

pub fn xattr(text: &str) -> meta::XattrName {
    meta::XattrName::new(text.as_bytes()).unwrap()
}

pub fn written(size: u64, present: &[(u32, u32)]) -> meta::Written {
    meta::Written {
        size,
        mtime: None,
        atime: None,
        blocks: size.div_ceil(512),
        present: present.to_vec(),
        unsynced: Vec::new(),
    }
}

pub fn user(uid: u32) -> Caller {
    Caller::new(uid, uid, [])
}

pub fn make(mode: u32) -> Make {
    Make { mode, umask: 0 }
}

pub fn how(access: Access) -> OpenHow {
    OpenHow {
        access,
        truncate: false,
        kill_privileges: false,
    }
}

/// Requests with their answers taken apart; a refusal comes back as it is.
impl Server {
    pub fn mkdir(
        &mut self,
        caller: &Caller,
        dir: InodeId,
        text: &str,
        mode: u32,
    ) -> Result<Attr, Refusal> {
        entry(self.ask(
            caller,
            &meta::Op::Mkdir {
                dir,
                name: name(text),
                make: make(mode),
            },
        ))
    }

    pub fn create(
        &mut self,
        caller: &Caller,
        dir: InodeId,
        text: &str,
        mode: u32,
    ) -> Result<Attr, Refusal> {
        let open = how(Access::READ | Access::WRITE);
        let op = meta::Op::Create {
            dir,
            name: name(text),
            make: make(mode),
            exclusive: true,
            open,
        };
        match self.ask(caller, &op)? {
            Answer::Opened(opened) => Ok(opened.attr),
            other => panic!("{other:?}"),
        }
    }

    pub fn lookup(&mut self, caller: &Caller, dir: InodeId, text: &str) -> Result<Attr, Refusal> {
        entry(self.ask(
            caller,
            &meta::Op::Lookup {
                dir,
                name: name(text),
            },
        ))
    }

    pub fn getattr(&mut self, ino: InodeId) -> Result<Attr, Refusal> {
        attr(self.ask(&Caller::root(), &meta::Op::GetAttr { ino }))
    }

    pub fn link(
        &mut self,
        caller: &Caller,
        ino: InodeId,
        dir: InodeId,
        text: &str,
    ) -> Result<Attr, Refusal> {
        entry(self.ask(
            caller,
            &meta::Op::Link {
                ino,
                dir,
                name: name(text),
            },
        ))
    }

    pub fn unlink(
        &mut self,
        caller: &Caller,
        dir: InodeId,
        text: &str,
    ) -> Result<Removed, Refusal> {
        removed(self.ask(
            caller,
            &meta::Op::Unlink {
                dir,
                name: name(text),
            },
        ))
    }

    pub fn rmdir(&mut self, caller: &Caller, dir: InodeId, text: &str) -> Result<Removed, Refusal> {
        removed(self.ask(
            caller,
            &meta::Op::Rmdir {
                dir,
                name: name(text),
            },
        ))
    }

    pub fn rename(
        &mut self,
        caller: &Caller,
        (from, old): (InodeId, &str),
        (to, new): (InodeId, &str),
        how: RenameHow,
    ) -> Result<Removed, Refusal> {
        removed(self.ask(
            caller,
            &meta::Op::Rename {
                from,
                name: name(old),
                to,
                new_name: name(new),
                how,
            },
        ))
    }

    pub fn setattr(
        &mut self,
        caller: &Caller,
        ino: InodeId,
        set: meta::SetAttr,
    ) -> Result<Attr, Refusal> {
        attr(self.ask(caller, &meta::Op::SetAttr { ino, set }))
    }

    pub fn open(
        &mut self,
        caller: &Caller,
        ino: InodeId,
        access: Access,
    ) -> Result<meta::Opened, Refusal> {
        opened(self.ask(
            caller,
            &meta::Op::Open {
                ino,
                open: how(access),
            },
        ))
    }

    pub fn truncate(&mut self, ino: InodeId, to: u64) -> Result<meta::Opened, Refusal> {
        let op = meta::Op::Truncate {
            ino,
            to,
            by_handle: true,
            kill_privileges: false,
        };
        opened(self.ask(&Caller::root(), &op))
    }

    pub fn write_inline(
        &mut self,
        ino: InodeId,
        at: meta::WriteAt,
        data: &[u8],
    ) -> Result<Answer, Refusal> {
        let data = Bytes::copy_from_slice(data);
        self.ask(
            &Caller::root(),
            &meta::Op::WriteInline {
                ino,
                at,
                data,
                kill_privileges: false,
            },
        )
    }

    pub fn begin_write(&mut self, ino: InodeId) -> Result<meta::Opened, Refusal> {
        opened(self.ask(
            &Caller::root(),
            &meta::Op::BeginWrite {
                ino,
                kill_privileges: false,
            },
        ))
    }

    pub fn end_write(
        &mut self,
        ino: InodeId,
        written: meta::Written,
        keep: bool,
    ) -> Result<Attr, Refusal> {
        attr(self.ask(&Caller::root(), &meta::Op::EndWrite { ino, written, keep }))
    }

    pub fn set_xattr(
        &mut self,
        caller: &Caller,
        ino: InodeId,
        text: &str,
        value: &[u8],
    ) -> Result<Attr, Refusal> {
        let (value, how) = (Bytes::copy_from_slice(value), meta::XattrHow::Either);
        attr(self.ask(
            caller,
            &meta::Op::SetXattr {
                ino,
                name: xattr(text),
                value,
                how,
            },
        ))
    }

    pub fn get_xattr(
        &mut self,
        caller: &Caller,
        ino: InodeId,
        text: &str,
    ) -> Result<Bytes, Refusal> {
        match self.ask(
            caller,
            &meta::Op::GetXattr {
                ino,
                name: xattr(text),
            },
        )? {
            Answer::Xattr(value) => Ok(value),
            other => panic!("{other:?}"),
        }
    }

    pub fn remove_xattr(
        &mut self,
        caller: &Caller,
        ino: InodeId,
        text: &str,
    ) -> Result<Attr, Refusal> {
        attr(self.ask(
            caller,
            &meta::Op::RemoveXattr {
                ino,
                name: xattr(text),
            },
        ))
    }

    pub fn list_xattr(&mut self, caller: &Caller, ino: InodeId) -> Vec<String> {
        match self.ask(caller, &meta::Op::ListXattr { ino }) {
            Ok(Answer::XattrNames(names)) => names
                .iter()
                .map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned())
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    pub fn forget(&mut self, ino: InodeId) {
        let op = meta::Op::Forgotten { inodes: vec![ino] };
        assert_eq!(self.ask(&Caller::root(), &op), Ok(Answer::Done));
    }

    /// Names in the order of readdir, `limit` at a time.
    pub fn list(&mut self, dir: InodeId, limit: u32) -> Vec<meta::DirEntry> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let op = meta::Op::Readdir {
                dir,
                after,
                limit,
                plus: false,
            };
            let Ok(Answer::Entries { entries, end }) = self.ask(&Caller::root(), &op) else {
                panic!("readdir refused")
            };
            assert!(entries.len() <= limit as usize && (end || !entries.is_empty()));
            after = entries.last().map_or(after, |entry| entry.cookie);
            all.extend(entries);
            if end {
                return all;
            }
        }
    }
}

pub fn entry(answer: Result<Answer, Refusal>) -> Result<Attr, Refusal> {
    match answer? {
        Answer::Entry(attr) => Ok(attr),
        other => panic!("{other:?} where an entry was expected"),
    }
}

pub fn attr(answer: Result<Answer, Refusal>) -> Result<Attr, Refusal> {
    match answer? {
        Answer::Attr(attr) => Ok(attr),
        other => panic!("{other:?} where attributes were expected"),
    }
}

pub fn opened(answer: Result<Answer, Refusal>) -> Result<meta::Opened, Refusal> {
    match answer? {
        Answer::Opened(opened) => Ok(opened),
        other => panic!("{other:?} where an open file was expected"),
    }
}

pub fn removed(answer: Result<Answer, Refusal>) -> Result<Removed, Refusal> {
    match answer? {
        Answer::Removed(removed) => Ok(removed),
        other => panic!("{other:?} where a removal was expected"),
    }
}
