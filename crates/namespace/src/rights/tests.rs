//! Every operation, for every kind of caller and every set of open files: allowed or refused as in the expected table, and no
//! data of another user returned or changed.

use super::{AccessRule, OpenRights, access_rule};
use crate::testing::*;
use crate::{Record, RecordKey, WriteLease};
use bytes::Bytes;
use expect_test::expect;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::capability::Rights;
use gupfs_proto::lock::{
    AdvisoryLock, LockFamily, LockHolder, LockMode, LockRange, LockRequest, LockSeq,
};
use gupfs_proto::meta::{
    AccessMode, AttrReport, MetaOp, MetaReplyBody, OpenMode, RenameMode, SetAttr, SetTime,
    WritePosition, XattrMode, XattrName,
};
use gupfs_proto::{Caller, FileKind, FsError, InodeId, OwnerEpoch, Seq, Timestamp};
use std::fmt::Write as _;

const OWNER: u32 = 1000;
const SECRET: &[u8] = b"secret";

/// Root of a trusted host; the owner; another user; and the user to which root of other hosts is squashed.
const CALLERS: [(&str, u32); 4] = [
    ("root", 0),
    ("owner", OWNER),
    ("other", 2000),
    ("nobody", 65_534),
];

/// What the session has open; "holder": it has the write lease but sends no open capability.
const SESSION_STATES: [&str; 4] = ["nothing", "read", "write", "holder"];

struct Fixture {
    server: TestServer,
    /// Owned by `OWNER`, mode 0700; contains "f", "empty", "link".
    dir: InodeId,
    /// Owned by `OWNER`, mode 0600, with secret inline bytes and a secret extended attribute.
    file: InodeId,
    link: InodeId,
}

fn fixture() -> Fixture {
    let owner = user(OWNER);
    let mut server = TestServer::new(2);
    server.replays = false;
    server.is_only_session = false;
    let dir = server.mkdir(&Caller::root(), ROOT, "d", 0o700).unwrap().ino;
    let to_owner = SetAttr {
        uid: Some(OWNER),
        gid: Some(OWNER),
        ..SetAttr::default()
    };
    server.setattr(&Caller::root(), dir, to_owner).unwrap();
    let file = server.create(&owner, dir, "f", 0o600).unwrap().ino;
    server
        .write_inline(file, WritePosition::End, SECRET)
        .unwrap();
    server.set_xattr(&owner, file, "user.a", SECRET).unwrap();
    server.mkdir(&owner, dir, "empty", 0o700).unwrap();
    let symlink = MetaOp::Symlink {
        dir,
        name: name("link"),
        target: b"there".to_vec(),
    };
    let link = entry(server.request(&owner, &symlink)).unwrap().ino;
    Fixture {
        server,
        dir,
        file,
        link,
    }
}

impl Fixture {
    fn set_session_state(&mut self, state: &str) {
        let open = |rights| OpenRights::new(vec![(self.file, rights), (self.dir, rights)]);
        match state {
            "nothing" => {}
            "read" => self.server.open_rights = open(Rights::READ),
            "write" => self.server.open_rights = open(Rights::all()),
            "holder" => {
                let key = RecordKey::write_lease(self.file, self.server.session);
                let since = self.server.now;
                self.server
                    .records
                    .insert(key, WriteLease { since }.encode());
                self.server.edit(self.file, |inode| {
                    inode.file_mut().unwrap().write_leases = 1;
                });
            }
            other => panic!("{other}"),
        }
    }

    fn operations(&self) -> Vec<(&'static str, MetaOp)> {
        let (dir, ino, link) = (self.dir, self.file, self.link);
        let (f, g) = (name("f"), name("g"));
        let how = |access, truncate| OpenMode {
            access,
            truncate,
            kill_privileges: false,
        };
        let open = |access, truncate| MetaOp::Open {
            ino,
            open: how(access, truncate),
        };
        let create = |name: &gupfs_proto::Name, access, truncate| MetaOp::Create {
            dir,
            name: name.clone(),
            create_mode: create_mode(0o600),
            exclusive: false,
            open: how(access, truncate),
        };
        let mknod = |kind| MetaOp::Mknod {
            dir,
            name: g.clone(),
            kind,
            rdev: 1,
            create_mode: create_mode(0o600),
        };
        let none = SetAttr::default();
        let set = |set: SetAttr| MetaOp::SetAttr { ino, set };
        let time = |secs| Timestamp::new(secs, 0);
        let (at, ctime) = (Some(SetTime::To(time(2_000))), Some(time(5)));
        let now = Some(SetTime::Now);
        let xattr = XattrName::new(b"user.a").unwrap();
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
        let kill_privileges = true;
        let written = AttrReport {
            size: 6,
            ..AttrReport::default()
        };
        let end = |keep| MetaOp::EndWrite {
            ino,
            report: written.clone(),
            keep_lease: keep,
        };
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
            ("create new", create(&g, AccessMode::WRITE, false)),
            ("create there", create(&f, AccessMode::READ, false)),
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
            ("kill_privileges", MetaOp::KillPrivileges { ino }),
            ("forgotten", MetaOp::Forget { inodes: vec![ino] }),
            ("close_session", MetaOp::CloseSession),
        ]
    }
}

fn reply_symbol(reply: &Result<MetaReplyBody, FsError>) -> char {
    match reply {
        Ok(_) => '+',
        Err(FsError::Denied) => '-',
        Err(FsError::NotPermitted) => 'p',
        Err(FsError::Malformed(_)) => 'm',
        Err(other) => panic!("{other}"),
    }
}

/// `+` done, `-` EACCES, `p` EPERM, `m` a request that no correct client sends. Four columns per caller: the session has nothing
/// open, has the inodes open for reading, for writing, and has the write lease.
#[test]
fn each_operation_is_allowed_exactly_for_the_callers_in_the_table() {
    let mut table = String::new();
    let names: Vec<&str> = fixture()
        .operations()
        .iter()
        .map(|(name, _)| *name)
        .collect();
    for (row, op_name) in names.into_iter().enumerate() {
        write!(table, "{op_name:<25}").unwrap();
        for (caller_name, uid) in CALLERS {
            write!(table, " {caller_name} ").unwrap();
            for state in SESSION_STATES {
                let mut fixture = fixture();
                fixture.set_session_state(state);
                let before = fixture.server.inode(fixture.file);
                let (_, op) = fixture.operations().remove(row);
                let caller = Caller::new(uid, uid, []);
                let reply = fixture.server.request(&caller, &op);
                table.push(reply_symbol(&reply));
                if caller_name == "root" || caller_name == "owner" {
                    continue;
                }
                let why = format!("{op_name} by {caller_name}, {state}: {reply:?}");
                let after = fixture.server.inode(fixture.file);
                let of_owner = |inode: &crate::Inode| {
                    (inode.mode, inode.uid, inode.gid, inode.flags, inode.names)
                };
                assert_eq!(of_owner(&before), of_owner(&after), "{why}");
                if state == "nothing" {
                    assert!(!format!("{reply:?}").contains("secret"), "{why}");
                    assert_eq!(before, after, "{why}");
                }
                if state == "read" {
                    let (before, after) = (before.file().unwrap(), after.file().unwrap());
                    assert_eq!(before, after, "{why}");
                }
            }
        }
        table.push('\n');
    }
    expect![[r#"
        lookup                    root ++++ owner ++++ other ---- nobody ----
        lookup_parent             root ++++ owner ++++ other -++- nobody -++-
        getattr                   root ++++ owner ++++ other ++++ nobody ++++
        access read               root ++++ owner ++++ other ---- nobody ----
        access nothing            root ++++ owner ++++ other ++++ nobody ++++
        readlink                  root ++++ owner ++++ other ++++ nobody ++++
        readdir                   root ++++ owner ++++ other -++- nobody -++-
        readdir plus              root ++++ owner ++++ other -++- nobody -++-
        getxattr                  root ++++ owner ++++ other ---- nobody ----
        listxattr                 root ++++ owner ++++ other ++++ nobody ++++
        statfs                    root ++++ owner ++++ other ++++ nobody ++++
        get_layout_rule           root ++++ owner ++++ other ++++ nobody ++++
        create new                root ++++ owner ++++ other ---- nobody ----
        create there              root ++++ owner ++++ other ---- nobody ----
        create there, truncate    root ++++ owner ++++ other ---- nobody ----
        create there, no access   root ++++ owner ++++ other ---- nobody ----
        mkdir                     root ++++ owner ++++ other ---- nobody ----
        mknod                     root ++++ owner ++++ other ---- nobody ----
        mknod device              root ++++ owner pppp other ---- nobody ----
        symlink                   root ++++ owner ++++ other ---- nobody ----
        tmpfile                   root ++++ owner ++++ other ---- nobody ----
        open_tmpfile              root ++++ owner ++++ other ---- nobody ----
        link                      root ++++ owner ++++ other ---- nobody ----
        unlink                    root ++++ owner ++++ other ---- nobody ----
        rmdir                     root ++++ owner ++++ other ---- nobody ----
        rename                    root ++++ owner ++++ other ---- nobody ----
        setattr mode              root ++++ owner ++++ other pppp nobody pppp
        setattr mode, ctime       root mmmm owner mmmm other -mm- nobody -mm-
        setattr uid               root ++++ owner pppp other pppp nobody pppp
        setattr uid, ctime        root mmmm owner mmmm other -mm- nobody -mm-
        setattr gid, ctime        root mmmm owner mmmm other -mm- nobody -mm-
        setattr mtime             root ++++ owner ++++ other pppp nobody pppp
        setattr mtime, ctime      root mmmm owner mmmm other -mm- nobody -mm-
        setattr atime             root ++++ owner ++++ other pppp nobody pppp
        setattr atime, ctime      root ++++ owner ++++ other -++- nobody -++-
        setattr atime now, ctime  root mmmm owner mmmm other -mm- nobody -mm-
        setattr ctime             root mmmm owner mmmm other -mm- nobody -mm-
        setattr both now          root ++++ owner ++++ other ---- nobody ----
        setattr nothing           root ++++ owner ++++ other --+- nobody --+-
        setattr kill              root ++++ owner ++++ other --+- nobody --+-
        setattr kill, ctime       root mmmm owner mmmm other -mm- nobody -mm-
        setxattr                  root ++++ owner ++++ other ---- nobody ----
        removexattr               root ++++ owner ++++ other ---- nobody ----
        set_layout_rule           root ++++ owner ++++ other pppp nobody pppp
        set_flags                 root ++++ owner pppp other pppp nobody pppp
        open                      root ++++ owner ++++ other ---- nobody ----
        open to write             root ++++ owner ++++ other ---- nobody ----
        open to run               root ---- owner ---- other ---- nobody ----
        open, truncate            root ++++ owner ++++ other ---- nobody ----
        open, no access           root ++++ owner ++++ other -++- nobody -++-
        open, append alone        root ++++ owner ++++ other -++- nobody -++-
        open, unknown access      root ++++ owner ---- other ---- nobody ----
        truncate                  root ++++ owner ++++ other ---- nobody ----
        truncate by handle        root ++++ owner ++++ other --+- nobody --+-
        write_inline              root ++++ owner ++++ other --+- nobody --+-
        write_inline nothing      root ++++ owner ++++ other --+- nobody --+-
        begin_write               root ++++ owner ++++ other --+- nobody --+-
        spilled                   root mmmm owner mmmm other mmmm nobody mmmm
        end_write                 root mmm+ owner mmm+ other mmm+ nobody mmm+
        end_write, keep           root mmm+ owner mmm+ other mmm+ nobody mmm+
        kill_privileges           root ++++ owner ++++ other --+- nobody --+-
        forgotten                 root ++++ owner ++++ other ++++ nobody ++++
        close_session             root ++++ owner ++++ other ++++ nobody ++++
    "#]]
    .assert_eq(&table);
}

/// Operations that the driver executes itself, and for which it looks up the access rule.
#[test]
fn operations_that_change_no_record_have_access_rules_too() {
    let ino = InodeId(9);
    let lock = |kind, mode| AdvisoryLock {
        holder: LockHolder {
            ino,
            family: kind,
            owner: 1,
        },
        range: LockRange::WHOLE,
        mode,
        pid: 1,
    };
    let order = LockSeq {
        number: 1,
        replied_below: 1,
    };
    let take = |kind, mode| {
        let (lock, waits) = (lock(kind, mode), true);
        MetaOp::Lock(LockRequest::Acquire {
            seq: order,
            lock,
            wait: waits,
        })
    };
    let test = MetaOp::Lock(LockRequest::Test {
        lock: lock(LockFamily::Record, LockMode::Exclusive),
    });
    let free = MetaOp::Lock(LockRequest::Release {
        seq: order,
        holder: lock(LockFamily::Flock, LockMode::Shared).holder,
        range: LockRange::WHOLE,
    });
    let permit = |rights| MetaOp::IssueCapability { ino, rights };
    let (read, write) = (
        AccessRule::Open(ino, AccessMode::READ),
        AccessRule::Open(ino, AccessMode::WRITE),
    );
    for (op, expected) in [
        (take(LockFamily::Flock, LockMode::Shared), read),
        (take(LockFamily::Flock, LockMode::Exclusive), read),
        (take(LockFamily::Record, LockMode::Shared), read),
        (take(LockFamily::Record, LockMode::Exclusive), write),
        (test, write),
        (free, AccessRule::Session),
        (
            MetaOp::Lock(LockRequest::Cancel {
                seq: order,
                acquire: 1,
            }),
            AccessRule::Session,
        ),
        (permit(Rights::READ), read),
        (permit(Rights::WRITE), AccessRule::LeaseHolder(ino)),
        (permit(Rights::all()), AccessRule::LeaseHolder(ino)),
        (permit(Rights::empty()), read),
        (MetaOp::Renew, AccessRule::Session),
        (MetaOp::Sync { upto: Seq(1) }, AccessRule::Session),
        (
            MetaOp::OpenSession { client: "c".into() },
            AccessRule::Session,
        ),
        (
            MetaOp::Replay {
                instance: OwnerEpoch(1),
                records: vec![],
                locks: vec![],
                last: true,
            },
            AccessRule::PerPart,
        ),
        (
            MetaOp::WithOpenCapability {
                open_capabilities: vec![],
                op: Bytes::new(),
            },
            AccessRule::PerPart,
        ),
    ] {
        assert_eq!(access_rule(&op), expected, "{op:?}");
    }
}

#[test]
fn open_rights_apply_only_to_their_own_inode() {
    let (one, two, three) = (InodeId(1), InodeId(2), InodeId(3));
    let opens = OpenRights::new(vec![
        (three, Rights::READ),
        (one, Rights::READ),
        (one, Rights::all()),
    ]);
    let user = user(1000);
    let suffice = |ino, access| opens.allow_without_record(&user, ino, access);
    assert!(suffice(one, AccessMode::WRITE) && suffice(one, AccessMode::EXECUTE));
    assert!(!suffice(two, AccessMode::READ) && !suffice(two, AccessMode::WRITE));
    assert!(suffice(three, AccessMode::READ) && !suffice(three, AccessMode::WRITE));
    assert!(OpenRights::NONE.allow_without_record(&Caller::root(), two, AccessMode::WRITE));
    assert!(!OpenRights::NONE.allow_without_record(&user, two, AccessMode::READ));
}

/// A client's access time report moves the access time towards now, and not beyond.
#[test]
fn an_atime_report_changes_the_access_time_and_nothing_else() {
    let mut fixture = fixture();
    fixture.server.open_rights = OpenRights::new(vec![(fixture.file, Rights::READ)]);
    let report = |fixture: &mut Fixture, secs| {
        let set = SetAttr {
            atime: Some(SetTime::To(Timestamp::new(secs, 0))),
            ctime: Some(Timestamp::new(1 << 40, 0)),
            ..SetAttr::default()
        };
        fixture.server.now = Timestamp::new(5_000, 0);
        fixture
            .server
            .setattr(&user(2000), fixture.file, set)
            .unwrap()
    };
    let before = fixture.server.getattr(fixture.file).unwrap();
    let times = |attr: gupfs_proto::Attr| (attr.atime.secs, attr.ctime, attr.mtime);
    let (ctime, mtime) = (before.ctime, before.mtime);
    assert_eq!(times(report(&mut fixture, 4_000)), (4_000, ctime, mtime));
    assert_eq!(times(report(&mut fixture, 3_000)), (4_000, ctime, mtime));
    assert_eq!(times(report(&mut fixture, 9_000)), (5_001, ctime, mtime));
    // The owner has set it to a time in the future: the next report moves it back to now.
    let ahead = SetAttr {
        atime: Some(SetTime::To(Timestamp::new(1 << 40, 0))),
        ..SetAttr::default()
    };
    let set = fixture
        .server
        .setattr(&user(OWNER), fixture.file, ahead)
        .unwrap();
    assert_eq!(set.atime.secs, 1 << 40);
    assert_eq!(report(&mut fixture, 4_500).atime.secs, 4_500);
}
