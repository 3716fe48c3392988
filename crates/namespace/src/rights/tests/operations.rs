//! One or more requests of each operation, on the inodes of the fixture.

use super::fixture::Fixture;
use crate::testing::*;
use bytes::Bytes;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::meta::{
    AccessMode, AttrReport, MetaOp, OpenMode, RenameMode, SetAttr, SetTime, WritePosition,
    XattrMode, XattrName,
};
use gupfs_proto::{FileKind, Name, Timestamp};

type NamedOps = Vec<(&'static str, MetaOp)>;

impl Fixture {
    /// The requests, each with its name in the table.
    pub fn operations(&self) -> NamedOps {
        let mut all = self.lookups_and_reads();
        all.extend(self.creations());
        all.extend(self.name_changes());
        all.extend(self.attribute_changes());
        all.extend(self.time_changes());
        all.extend(self.other_attribute_changes());
        all.extend(self.opens());
        all.extend(self.writes_and_session_ends());
        all
    }

    fn lookups_and_reads(&self) -> NamedOps {
        let (dir, ino) = (self.dir, self.file);
        let link = self.link;
        let f = name("f");
        let xattr = XattrName::new(b"user.a").unwrap();
        let list = |plus| MetaOp::Readdir {
            dir,
            after: 0,
            limit: 10,
            plus,
        };
        vec![
            (
                "lookup",
                MetaOp::Lookup {
                    dir,
                    name: f.clone(),
                },
            ),
            ("lookup_parent", MetaOp::LookupParent { dir }),
            ("getattr", MetaOp::GetAttr { ino }),
            (
                "access read",
                MetaOp::Access {
                    ino,
                    want: AccessMode::READ,
                },
            ),
            (
                "access nothing",
                MetaOp::Access {
                    ino,
                    want: AccessMode::empty(),
                },
            ),
            ("readlink", MetaOp::Readlink { ino: link }),
            ("readdir", list(false)),
            ("readdir plus", list(true)),
            (
                "getxattr",
                MetaOp::GetXattr {
                    ino,
                    name: xattr.clone(),
                },
            ),
            ("listxattr", MetaOp::ListXattr { ino }),
            ("statfs", MetaOp::StatFs),
            ("get_layout_rule", MetaOp::GetDefaultLayout { ino }),
        ]
    }

    fn creations(&self) -> NamedOps {
        let dir = self.dir;
        let (f, g) = (name("f"), name("g"));
        let create = |name: &Name, access, truncate| MetaOp::Create {
            dir,
            name: name.clone(),
            create_mode: create_mode(0o600),
            exclusive: false,
            open: open_mode_of(access, truncate),
        };
        let create_for_writing = |name: &Name| MetaOp::CreateForWriting {
            dir,
            name: name.clone(),
            create_mode: create_mode(0o600),
            exclusive: false,
            open: open_mode_of(AccessMode::WRITE, false),
        };
        let mknod = |kind| MetaOp::Mknod {
            dir,
            name: g.clone(),
            kind,
            rdev: 1,
            create_mode: create_mode(0o600),
        };
        vec![
            ("create new", create(&g, AccessMode::WRITE, false)),
            ("create there", create(&f, AccessMode::READ, false)),
            ("create for writing", create_for_writing(&g)),
            ("create for writing there", create_for_writing(&f)),
            ("create there, truncate", create(&f, AccessMode::READ, true)),
            (
                "create there, no access",
                create(&f, AccessMode::empty(), false),
            ),
            (
                "mkdir",
                MetaOp::Mkdir {
                    dir,
                    name: g.clone(),
                    create_mode: create_mode(0o700),
                },
            ),
            ("mknod", mknod(FileKind::Fifo)),
            ("mknod device", mknod(FileKind::CharDevice)),
            (
                "symlink",
                MetaOp::Symlink {
                    dir,
                    name: g.clone(),
                    target: b"x".to_vec(),
                },
            ),
            (
                "tmpfile",
                MetaOp::TmpFile {
                    dir,
                    create_mode: create_mode(0o600),
                },
            ),
            (
                "open_tmpfile",
                MetaOp::OpenTmpFile {
                    dir,
                    create_mode: create_mode(0o600),
                    access: AccessMode::READ,
                },
            ),
        ]
    }

    fn name_changes(&self) -> NamedOps {
        let (dir, ino) = (self.dir, self.file);
        let (f, g) = (name("f"), name("g"));
        vec![
            (
                "link",
                MetaOp::Link {
                    ino,
                    dir,
                    name: g.clone(),
                },
            ),
            (
                "unlink",
                MetaOp::Unlink {
                    dir,
                    name: f.clone(),
                },
            ),
            (
                "rmdir",
                MetaOp::Rmdir {
                    dir,
                    name: name("empty"),
                },
            ),
            (
                "rename",
                MetaOp::Rename {
                    from: dir,
                    name: f.clone(),
                    to: dir,
                    new_name: g.clone(),
                    mode: RenameMode::Replace,
                },
            ),
        ]
    }

    fn attribute_changes(&self) -> NamedOps {
        let ino = self.file;
        let none = SetAttr::default();
        let set = |set: SetAttr| MetaOp::SetAttr { ino, set };
        let ctime = Some(Timestamp::new(5, 0));
        vec![
            (
                "setattr mode",
                set(SetAttr {
                    mode: Some(0o4777),
                    ..none
                }),
            ),
            (
                "setattr mode, ctime",
                set(SetAttr {
                    mode: Some(0o4777),
                    ctime,
                    ..none
                }),
            ),
            (
                "setattr uid",
                set(SetAttr {
                    uid: Some(2000),
                    ..none
                }),
            ),
            (
                "setattr uid, ctime",
                set(SetAttr {
                    uid: Some(2000),
                    ctime,
                    ..none
                }),
            ),
            (
                "setattr gid, ctime",
                set(SetAttr {
                    gid: Some(2000),
                    ctime,
                    ..none
                }),
            ),
        ]
    }

    fn time_changes(&self) -> NamedOps {
        let ino = self.file;
        let none = SetAttr::default();
        let set = |set: SetAttr| MetaOp::SetAttr { ino, set };
        let time = |secs| Timestamp::new(secs, 0);
        let (at, ctime) = (Some(SetTime::To(time(2_000))), Some(time(5)));
        let now = Some(SetTime::Now);
        vec![
            ("setattr mtime", set(SetAttr { mtime: at, ..none })),
            (
                "setattr mtime, ctime",
                set(SetAttr {
                    mtime: at,
                    ctime,
                    ..none
                }),
            ),
            ("setattr atime", set(SetAttr { atime: at, ..none })),
            (
                "setattr atime, ctime",
                set(SetAttr {
                    atime: at,
                    ctime,
                    ..none
                }),
            ),
            (
                "setattr atime now, ctime",
                set(SetAttr {
                    atime: now,
                    ctime,
                    ..none
                }),
            ),
            ("setattr ctime", set(SetAttr { ctime, ..none })),
            (
                "setattr both now",
                set(SetAttr {
                    atime: now,
                    mtime: now,
                    ..none
                }),
            ),
        ]
    }

    fn other_attribute_changes(&self) -> NamedOps {
        let ino = self.file;
        let none = SetAttr::default();
        let set = |set: SetAttr| MetaOp::SetAttr { ino, set };
        let time = |secs| Timestamp::new(secs, 0);
        let (at, ctime) = (Some(SetTime::To(time(2_000))), Some(time(5)));
        let xattr = XattrName::new(b"user.a").unwrap();
        let kill_privileges = true;
        vec![
            ("setattr nothing", set(none)),
            (
                "setattr kill",
                set(SetAttr {
                    kill_privileges,
                    ..none
                }),
            ),
            (
                "setattr kill, ctime",
                set(SetAttr {
                    kill_privileges,
                    atime: at,
                    ctime,
                    ..none
                }),
            ),
            (
                "setxattr",
                MetaOp::SetXattr {
                    ino,
                    name: xattr.clone(),
                    value: Bytes::from_static(b"x"),
                    mode: XattrMode::CreateOrReplace,
                },
            ),
            ("removexattr", MetaOp::RemoveXattr { ino, name: xattr }),
            (
                "set_layout_rule",
                MetaOp::SetDefaultLayout { ino, layout: None },
            ),
            (
                "set_flags",
                MetaOp::SetFlags {
                    ino,
                    flags: InodeFlags::IMMUTABLE,
                },
            ),
        ]
    }

    fn opens(&self) -> NamedOps {
        let ino = self.file;
        let open = |access, truncate| MetaOp::Open {
            ino,
            open: open_mode_of(access, truncate),
        };
        vec![
            ("open", open(AccessMode::READ, false)),
            ("open to write", open(AccessMode::WRITE, false)),
            ("open to run", open(AccessMode::EXECUTE, false)),
            ("open, truncate", open(AccessMode::empty(), true)),
            ("open, no access", open(AccessMode::empty(), false)),
            ("open, append alone", open(AccessMode::APPEND, false)),
            (
                "open, unknown access",
                open(AccessMode::from_bits_retain(16), false),
            ),
        ]
    }

    fn writes_and_session_ends(&self) -> NamedOps {
        let ino = self.file;
        let truncate = |by_handle| MetaOp::Truncate {
            ino,
            to: 0,
            by_handle,
            kill_privileges: false,
        };
        let write = |data: &'static [u8]| MetaOp::WriteInline {
            ino,
            at: WritePosition::Offset(0),
            data: Bytes::from_static(data),
            kill_privileges: false,
        };
        let written = AttrReport {
            size: 6,
            ..AttrReport::default()
        };
        let end = |keep| MetaOp::EndWrite {
            ino,
            report: written.clone(),
            keep_lease: keep,
        };
        let report_writes = |inline| MetaOp::ReportWrites {
            ino,
            report: written.clone(),
            keep_lease: false,
            ctime: None,
            inline,
        };
        vec![
            ("truncate", truncate(false)),
            ("truncate by handle", truncate(true)),
            ("write_inline", write(b"PWNED")),
            ("write_inline nothing", write(b"")),
            (
                "begin_write",
                MetaOp::BeginWrite {
                    ino,
                    kill_privileges: false,
                },
            ),
            (
                "spilled",
                MetaOp::SpillInline {
                    ino,
                    report: written.clone(),
                },
            ),
            ("end_write", end(false)),
            ("end_write, keep", end(true)),
            ("report_writes", report_writes(None)),
            (
                "report_writes, inline",
                report_writes(Some(Bytes::from_static(b"PWNED"))),
            ),
            ("kill_privileges", MetaOp::KillPrivileges { ino }),
            ("forgotten", MetaOp::Forget { inodes: vec![ino] }),
            ("close_session", MetaOp::CloseSession),
        ]
    }
}

fn open_mode_of(access: AccessMode, truncate: bool) -> OpenMode {
    OpenMode {
        access,
        truncate,
        kill_privileges: false,
    }
}
