//! Short functions for requests in tests; they return the contents of the reply.

use super::TestServer;
use bytes::Bytes;
use gupfs_proto::meta::{
    self, AccessMode, CreateMode, MetaOp, MetaReplyBody, OpenMode, RemovedName, RenameMode,
};
use gupfs_proto::{Attr, Caller, FsError, InodeId, Name, SessionId, Timestamp};

pub const ROOT: InodeId = InodeId::ROOT;

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

pub fn xattr(text: &str) -> meta::XattrName {
    meta::XattrName::new(text.as_bytes()).unwrap()
}

pub fn report(size: u64, present: &[(u32, u32)]) -> meta::AttrReport {
    meta::AttrReport {
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

pub fn create_mode(mode: u32) -> CreateMode {
    CreateMode { mode, umask: 0 }
}

pub fn open_mode(access: AccessMode) -> OpenMode {
    OpenMode {
        access,
        truncate: false,
        kill_privileges: false,
    }
}

/// Requests that return the contents of the reply, or the error.
/// An open of a file.
pub fn open_op(ino: InodeId, access: AccessMode, truncate: bool) -> MetaOp {
    let open = OpenMode {
        access,
        truncate,
        kill_privileges: false,
    };
    MetaOp::Open { ino, open }
}

pub const OTHER_SESSION: SessionId = SessionId(8);

/// Two sessions, and a file with a write lease of the first.
pub fn leased_file() -> (TestServer, InodeId) {
    let mut server = TestServer::new(2);
    let one = std::mem::replace(&mut server.session, OTHER_SESSION);
    let client = "other".into();
    server
        .request(&Caller::root(), &MetaOp::OpenSession { client })
        .unwrap();
    (server.session, server.is_only_session) = (one, false);
    let created = server.create(&Caller::root(), ROOT, "f", 0o644);
    let file = created.unwrap().ino;
    server.begin_write(file).unwrap();
    (server, file)
}

impl TestServer {
    pub fn mkdir(
        &mut self,
        caller: &Caller,
        dir: InodeId,
        text: &str,
        mode: u32,
    ) -> Result<Attr, FsError> {
        entry(self.request(
            caller,
            &meta::MetaOp::Mkdir {
                dir,
                name: name(text),
                create_mode: create_mode(mode),
            },
        ))
    }

    pub fn create(
        &mut self,
        caller: &Caller,
        dir: InodeId,
        text: &str,
        mode: u32,
    ) -> Result<Attr, FsError> {
        let open = open_mode(AccessMode::READ | AccessMode::WRITE);
        let op = meta::MetaOp::Create {
            dir,
            name: name(text),
            create_mode: create_mode(mode),
            exclusive: true,
            open,
        };
        match self.request(caller, &op)? {
            MetaReplyBody::Opened(opened) => Ok(opened.attr),
            other => panic!("{other:?}"),
        }
    }

    /// The reply to a creation that asks for the write lease.
    pub fn create_for_writing(&mut self, text: &str) -> MetaReplyBody {
        let op = meta::MetaOp::CreateForWriting {
            dir: ROOT,
            name: name(text),
            create_mode: create_mode(0o644),
            exclusive: false,
            open: open_mode(AccessMode::WRITE),
        };
        self.request(&Caller::root(), &op).unwrap()
    }

    pub fn report_writes(
        &mut self,
        ino: InodeId,
        report: meta::AttrReport,
        ctime: Option<Timestamp>,
        inline: Option<&[u8]>,
    ) -> Result<Attr, FsError> {
        let op = meta::MetaOp::ReportWrites {
            ino,
            report,
            keep_lease: false,
            ctime,
            inline: inline.map(Bytes::copy_from_slice),
        };
        attr(self.request(&Caller::root(), &op))
    }

    pub fn lookup(&mut self, caller: &Caller, dir: InodeId, text: &str) -> Result<Attr, FsError> {
        entry(self.request(
            caller,
            &meta::MetaOp::Lookup {
                dir,
                name: name(text),
            },
        ))
    }

    pub fn getattr(&mut self, ino: InodeId) -> Result<Attr, FsError> {
        attr(self.request(&Caller::root(), &meta::MetaOp::GetAttr { ino }))
    }

    pub fn link(
        &mut self,
        caller: &Caller,
        ino: InodeId,
        dir: InodeId,
        text: &str,
    ) -> Result<Attr, FsError> {
        entry(self.request(
            caller,
            &meta::MetaOp::Link {
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
    ) -> Result<RemovedName, FsError> {
        removed(self.request(
            caller,
            &meta::MetaOp::Unlink {
                dir,
                name: name(text),
            },
        ))
    }

    pub fn rmdir(
        &mut self,
        caller: &Caller,
        dir: InodeId,
        text: &str,
    ) -> Result<RemovedName, FsError> {
        removed(self.request(
            caller,
            &meta::MetaOp::Rmdir {
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
        how: RenameMode,
    ) -> Result<RemovedName, FsError> {
        removed(self.request(
            caller,
            &meta::MetaOp::Rename {
                from,
                name: name(old),
                to,
                new_name: name(new),
                mode: how,
            },
        ))
    }

    pub fn setattr(
        &mut self,
        caller: &Caller,
        ino: InodeId,
        set: meta::SetAttr,
    ) -> Result<Attr, FsError> {
        attr(self.request(caller, &meta::MetaOp::SetAttr { ino, set }))
    }

    pub fn open(
        &mut self,
        caller: &Caller,
        ino: InodeId,
        access: AccessMode,
    ) -> Result<meta::OpenInfo, FsError> {
        opened(self.request(
            caller,
            &meta::MetaOp::Open {
                ino,
                open: open_mode(access),
            },
        ))
    }

    pub fn truncate(&mut self, ino: InodeId, to: u64) -> Result<meta::OpenInfo, FsError> {
        let op = meta::MetaOp::Truncate {
            ino,
            to,
            by_handle: true,
            kill_privileges: false,
        };
        opened(self.request(&Caller::root(), &op))
    }

    pub fn write_inline(
        &mut self,
        ino: InodeId,
        at: meta::WritePosition,
        data: &[u8],
    ) -> Result<MetaReplyBody, FsError> {
        let data = Bytes::copy_from_slice(data);
        self.request(
            &Caller::root(),
            &meta::MetaOp::WriteInline {
                ino,
                at,
                data,
                kill_privileges: false,
            },
        )
    }

    pub fn begin_write(&mut self, ino: InodeId) -> Result<meta::OpenInfo, FsError> {
        opened(self.request(
            &Caller::root(),
            &meta::MetaOp::BeginWrite {
                ino,
                kill_privileges: false,
            },
        ))
    }

    pub fn end_write(
        &mut self,
        ino: InodeId,
        written: meta::AttrReport,
        keep: bool,
    ) -> Result<Attr, FsError> {
        attr(self.request(
            &Caller::root(),
            &meta::MetaOp::EndWrite {
                ino,
                report: written,
                keep_lease: keep,
            },
        ))
    }

    pub fn set_xattr(
        &mut self,
        caller: &Caller,
        ino: InodeId,
        text: &str,
        value: &[u8],
    ) -> Result<Attr, FsError> {
        let (value, how) = (
            Bytes::copy_from_slice(value),
            meta::XattrMode::CreateOrReplace,
        );
        attr(self.request(
            caller,
            &meta::MetaOp::SetXattr {
                ino,
                name: xattr(text),
                value,
                mode: how,
            },
        ))
    }

    pub fn get_xattr(
        &mut self,
        caller: &Caller,
        ino: InodeId,
        text: &str,
    ) -> Result<Bytes, FsError> {
        match self.request(
            caller,
            &meta::MetaOp::GetXattr {
                ino,
                name: xattr(text),
            },
        )? {
            MetaReplyBody::Xattr(value) => Ok(value),
            other => panic!("{other:?}"),
        }
    }

    pub fn remove_xattr(
        &mut self,
        caller: &Caller,
        ino: InodeId,
        text: &str,
    ) -> Result<Attr, FsError> {
        attr(self.request(
            caller,
            &meta::MetaOp::RemoveXattr {
                ino,
                name: xattr(text),
            },
        ))
    }

    pub fn list_xattr(&mut self, caller: &Caller, ino: InodeId) -> Vec<String> {
        match self.request(caller, &meta::MetaOp::ListXattr { ino }) {
            Ok(MetaReplyBody::XattrNames(names)) => names
                .iter()
                .map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned())
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    pub fn forget(&mut self, ino: InodeId) {
        let op = meta::MetaOp::Forget { inodes: vec![ino] };
        assert_eq!(self.request(&Caller::root(), &op), Ok(MetaReplyBody::Done));
    }

    /// The entries in readdir order, `limit` per request.
    pub fn list(&mut self, dir: InodeId, limit: u32) -> Vec<meta::DirEntry> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let op = meta::MetaOp::Readdir {
                dir,
                after,
                limit,
                plus: false,
            };
            let Ok(MetaReplyBody::Entries { entries, end }) = self.request(&Caller::root(), &op)
            else {
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

pub fn entry(reply: Result<MetaReplyBody, FsError>) -> Result<Attr, FsError> {
    match reply? {
        MetaReplyBody::Entry(attr) => Ok(attr),
        other => panic!("{other:?} where an entry was expected"),
    }
}

pub fn attr(reply: Result<MetaReplyBody, FsError>) -> Result<Attr, FsError> {
    match reply? {
        MetaReplyBody::Attr(attr) => Ok(attr),
        other => panic!("{other:?} where attributes were expected"),
    }
}

pub fn opened(reply: Result<MetaReplyBody, FsError>) -> Result<meta::OpenInfo, FsError> {
    match reply? {
        MetaReplyBody::Opened(opened) => Ok(opened),
        other => panic!("{other:?} where an open file was expected"),
    }
}

pub fn removed(reply: Result<MetaReplyBody, FsError>) -> Result<RemovedName, FsError> {
    match reply? {
        MetaReplyBody::Removed(removed) => Ok(removed),
        other => panic!("{other:?} where a removal was expected"),
    }
}
