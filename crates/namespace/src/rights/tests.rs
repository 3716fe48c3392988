//! Every operation, by whoever, with whatever open: done or refused as the text says, and nothing shown or changed that is
//! another's.

use super::{Opens, Rule, rule};
use crate::testing::*;
use crate::{Key, Record, Writer};
use bytes::Bytes;
use expect_test::expect;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::capability::Rights;
use gupfs_proto::lock::{Ask, Extent, Holder, Kind, Lock, Mode, Order};
use gupfs_proto::meta::{
    Access, Answer, Op, OpenHow, RenameHow, SetAttr, SetTime, WriteAt, Written, XattrHow, XattrName,
};
use gupfs_proto::{Caller, FileKind, InodeId, OwnerEpoch, Refusal, Seq, Timestamp};
use std::fmt::Write as _;

const OWNER: u32 = 1000;
const SECRET: &[u8] = b"secret";

/// uid 0 of a host whose root counts; the owner; another user; and what root of other hosts becomes.
const WHO: [(&str, u32); 4] = [
    ("root", 0),
    ("owner", OWNER),
    ("other", 2000),
    ("nobody", 65_534),
];

/// What the session has open, or holds for writing without showing it.
const STANDINGS: [&str; 4] = ["nothing", "read", "write", "holder"];

struct Place {
    server: Server,
    /// 0700, and the owner's; in it "f", "empty", "link".
    dir: InodeId,
    /// 0600, the owner's, with secret bytes in its inode and an attribute.
    file: InodeId,
    link: InodeId,
}

fn place() -> Place {
    let owner = user(OWNER);
    let mut server = Server::new(2);
    server.repeats = false;
    server.alone = false;
    let dir = server.mkdir(&Caller::root(), ROOT, "d", 0o700).unwrap().ino;
    let theirs = SetAttr {
        uid: Some(OWNER),
        gid: Some(OWNER),
        ..SetAttr::default()
    };
    server.setattr(&Caller::root(), dir, theirs).unwrap();
    let file = server.create(&owner, dir, "f", 0o600).unwrap().ino;
    server.write_inline(file, WriteAt::End, SECRET).unwrap();
    server.set_xattr(&owner, file, "user.a", SECRET).unwrap();
    server.mkdir(&owner, dir, "empty", 0o700).unwrap();
    let symlink = Op::Symlink {
        dir,
        name: name("link"),
        target: b"there".to_vec(),
    };
    let link = entry(server.ask(&owner, &symlink)).unwrap().ino;
    Place {
        server,
        dir,
        file,
        link,
    }
}

impl Place {
    fn stand(&mut self, standing: &str) {
        let open = |rights| Opens::new(vec![(self.file, rights), (self.dir, rights)]);
        match standing {
            "nothing" => {}
            "read" => self.server.opens = open(Rights::READ),
            "write" => self.server.opens = open(Rights::all()),
            "holder" => {
                let key = Key::writer(self.file, self.server.session);
                let since = self.server.now;
                self.server.records.insert(key, Writer { since }.encode());
                self.server.edit(self.file, |inode| {
                    inode.file_mut().unwrap().writers = 1;
                });
            }
            other => panic!("{other}"),
        }
    }

    fn operations(&self) -> Vec<(&'static str, Op)> {
        let (dir, ino, link) = (self.dir, self.file, self.link);
        let (f, g) = (name("f"), name("g"));
        let how = |access, truncate| OpenHow {
            access,
            truncate,
            kill_privileges: false,
        };
        let open = |access, truncate| Op::Open {
            ino,
            open: how(access, truncate),
        };
        let create = |name: &gupfs_proto::Name, access, truncate| Op::Create {
            dir,
            name: name.clone(),
            make: make(0o600),
            exclusive: false,
            open: how(access, truncate),
        };
        let mknod = |kind| Op::Mknod {
            dir,
            name: g.clone(),
            kind,
            rdev: 1,
            make: make(0o600),
        };
        let none = SetAttr::default();
        let set = |set: SetAttr| Op::SetAttr { ino, set };
        let time = |secs| Timestamp::new(secs, 0);
        let (at, ctime) = (Some(SetTime::To(time(2_000))), Some(time(5)));
        let now = Some(SetTime::Now);
        let xattr = XattrName::new(b"user.a").unwrap();
        let truncate = |by_handle| Op::Truncate {
            ino,
            to: 0,
            by_handle,
            kill_privileges: false,
        };
        let write = |data: &'static [u8]| Op::WriteInline {
            ino,
            at: WriteAt::Offset(0),
            data: Bytes::from_static(data),
            kill_privileges: false,
        };
        let kill_privileges = true;
        let written = Written {
            size: 6,
            ..Written::default()
        };
        let end = |keep| Op::EndWrite {
            ino,
            written: written.clone(),
            keep,
        };
        let list = |plus| Op::Readdir {
            dir,
            after: 0,
            limit: 10,
            plus,
        };
        vec![
            (
                "lookup",
                Op::Lookup {
                    dir,
                    name: f.clone(),
                },
            ),
            ("lookup_parent", Op::LookupParent { dir }),
            ("getattr", Op::GetAttr { ino }),
            (
                "access read",
                Op::Access {
                    ino,
                    want: Access::READ,
                },
            ),
            (
                "access nothing",
                Op::Access {
                    ino,
                    want: Access::empty(),
                },
            ),
            ("readlink", Op::Readlink { ino: link }),
            ("readdir", list(false)),
            ("readdir plus", list(true)),
            (
                "getxattr",
                Op::GetXattr {
                    ino,
                    name: xattr.clone(),
                },
            ),
            ("listxattr", Op::ListXattr { ino }),
            ("statfs", Op::StatFs),
            ("get_layout_rule", Op::GetLayoutRule { ino }),
            ("create new", create(&g, Access::WRITE, false)),
            ("create there", create(&f, Access::READ, false)),
            ("create there, cut", create(&f, Access::READ, true)),
            (
                "create there, no access",
                create(&f, Access::empty(), false),
            ),
            (
                "mkdir",
                Op::Mkdir {
                    dir,
                    name: g.clone(),
                    make: make(0o700),
                },
            ),
            ("mknod", mknod(FileKind::Fifo)),
            ("mknod device", mknod(FileKind::CharDevice)),
            (
                "symlink",
                Op::Symlink {
                    dir,
                    name: g.clone(),
                    target: b"x".to_vec(),
                },
            ),
            (
                "tmpfile",
                Op::TmpFile {
                    dir,
                    make: make(0o600),
                },
            ),
            (
                "open_tmpfile",
                Op::OpenTmpFile {
                    dir,
                    make: make(0o600),
                    access: Access::READ,
                },
            ),
            (
                "link",
                Op::Link {
                    ino,
                    dir,
                    name: g.clone(),
                },
            ),
            (
                "unlink",
                Op::Unlink {
                    dir,
                    name: f.clone(),
                },
            ),
            (
                "rmdir",
                Op::Rmdir {
                    dir,
                    name: name("empty"),
                },
            ),
            (
                "rename",
                Op::Rename {
                    from: dir,
                    name: f.clone(),
                    to: dir,
                    new_name: g.clone(),
                    how: RenameHow::Replace,
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
                Op::SetXattr {
                    ino,
                    name: xattr.clone(),
                    value: Bytes::from_static(b"x"),
                    how: XattrHow::Either,
                },
            ),
            ("removexattr", Op::RemoveXattr { ino, name: xattr }),
            ("set_layout_rule", Op::SetLayoutRule { ino, rule: None }),
            (
                "set_flags",
                Op::SetFlags {
                    ino,
                    flags: InodeFlags::IMMUTABLE,
                },
            ),
            ("open", open(Access::READ, false)),
            ("open to write", open(Access::WRITE, false)),
            ("open to run", open(Access::EXECUTE, false)),
            ("open, cut", open(Access::empty(), true)),
            ("open, no access", open(Access::empty(), false)),
            ("open, append alone", open(Access::APPEND, false)),
            (
                "open, unknown access",
                open(Access::from_bits_retain(16), false),
            ),
            ("truncate", truncate(false)),
            ("truncate by handle", truncate(true)),
            ("write_inline", write(b"PWNED")),
            ("write_inline nothing", write(b"")),
            (
                "begin_write",
                Op::BeginWrite {
                    ino,
                    kill_privileges: false,
                },
            ),
            (
                "spilled",
                Op::Spilled {
                    ino,
                    written: written.clone(),
                },
            ),
            ("end_write", end(false)),
            ("end_write, keep", end(true)),
            ("kill_privileges", Op::KillPrivileges { ino }),
            ("forgotten", Op::Forgotten { inodes: vec![ino] }),
            ("close_session", Op::CloseSession),
        ]
    }
}

fn how_it_ended(answer: &Result<Answer, Refusal>) -> char {
    match answer {
        Ok(_) => '+',
        Err(Refusal::Denied) => '-',
        Err(Refusal::NotPermitted) => 'p',
        Err(Refusal::Malformed(_)) => 'm',
        Err(other) => panic!("{other}"),
    }
}

/// `+` done, `-` EACCES, `p` EPERM, `m` a request that no correct client sends. Four each: the session has nothing open, has
/// it open to read, to write, and is recorded as its writer.
#[test]
fn each_operation_is_done_for_whom_it_should_and_for_nobody_else() {
    let mut table = String::new();
    let names: Vec<&str> = place().operations().iter().map(|(name, _)| *name).collect();
    for (row, what) in names.into_iter().enumerate() {
        write!(table, "{what:<25}").unwrap();
        for (who, uid) in WHO {
            write!(table, " {who} ").unwrap();
            for standing in STANDINGS {
                let mut place = place();
                place.stand(standing);
                let before = place.server.inode(place.file);
                let (_, op) = place.operations().remove(row);
                let caller = Caller::new(uid, uid, []);
                let answer = place.server.ask(&caller, &op);
                table.push(how_it_ended(&answer));
                if who == "root" || who == "owner" {
                    continue;
                }
                let why = format!("{what} by {who}, {standing}: {answer:?}");
                let after = place.server.inode(place.file);
                let of_owner = |inode: &crate::Inode| {
                    (inode.mode, inode.uid, inode.gid, inode.flags, inode.names)
                };
                assert_eq!(of_owner(&before), of_owner(&after), "{why}");
                if standing == "nothing" {
                    assert!(!format!("{answer:?}").contains("secret"), "{why}");
                    assert_eq!(before, after, "{why}");
                }
                if standing == "read" {
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
        create there, cut         root ++++ owner ++++ other ---- nobody ----
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
        open, cut                 root ++++ owner ++++ other ---- nobody ----
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

/// What the driver does without the machine, and asks the table for.
#[test]
fn what_changes_no_record_has_its_rule_too() {
    let ino = InodeId(9);
    let lock = |kind, mode| Lock {
        holder: Holder {
            ino,
            kind,
            owner: 1,
        },
        extent: Extent::WHOLE,
        mode,
        pid: 1,
    };
    let order = Order {
        number: 1,
        answered_below: 1,
    };
    let take = |kind, mode| {
        let (lock, waits) = (lock(kind, mode), true);
        Op::Lock(Ask::Take { order, lock, waits })
    };
    let test = Op::Lock(Ask::Test {
        lock: lock(Kind::Record, Mode::Exclusive),
    });
    let free = Op::Lock(Ask::Free {
        order,
        holder: lock(Kind::Flock, Mode::Shared).holder,
        extent: Extent::WHOLE,
    });
    let permit = |rights| Op::Permit { ino, rights };
    let (read, write) = (
        Rule::Open(ino, Access::READ),
        Rule::Open(ino, Access::WRITE),
    );
    for (op, expected) in [
        (take(Kind::Flock, Mode::Shared), read),
        (take(Kind::Flock, Mode::Exclusive), read),
        (take(Kind::Record, Mode::Shared), read),
        (take(Kind::Record, Mode::Exclusive), write),
        (test, write),
        (free, Rule::Session),
        (Op::Lock(Ask::Cancel { order, take: 1 }), Rule::Session),
        (permit(Rights::READ), read),
        (permit(Rights::WRITE), Rule::Holder(ino)),
        (permit(Rights::all()), Rule::Holder(ino)),
        (permit(Rights::empty()), read),
        (Op::Renew, Rule::Session),
        (Op::Sync { upto: Seq(1) }, Rule::Session),
        (Op::OpenSession { client: "c".into() }, Rule::Session),
        (
            Op::Return {
                of: OwnerEpoch(1),
                kept: vec![],
                locks: vec![],
                last: true,
            },
            Rule::Parts,
        ),
        (
            Op::Proven {
                proofs: vec![],
                op: Bytes::new(),
            },
            Rule::Parts,
        ),
    ] {
        assert_eq!(rule(&op), expected, "{op:?}");
    }
}

#[test]
fn what_is_open_gives_its_rights_for_itself_alone() {
    let (one, two, three) = (InodeId(1), InodeId(2), InodeId(3));
    let opens = Opens::new(vec![
        (three, Rights::READ),
        (one, Rights::READ),
        (one, Rights::all()),
    ]);
    let user = user(1000);
    let suffice = |ino, access| opens.suffice(&user, ino, access);
    assert!(suffice(one, Access::WRITE) && suffice(one, Access::EXECUTE));
    assert!(!suffice(two, Access::READ) && !suffice(two, Access::WRITE));
    assert!(suffice(three, Access::READ) && !suffice(three, Access::WRITE));
    assert!(Opens::NONE.suffice(&Caller::root(), two, Access::WRITE));
    assert!(!Opens::NONE.suffice(&user, two, Access::READ));
}

/// A client's word on reading moves an access time towards now, and not beyond.
#[test]
fn a_word_on_reading_moves_the_access_time_and_nothing_else() {
    let mut place = place();
    place.server.opens = Opens::new(vec![(place.file, Rights::READ)]);
    let tell = |place: &mut Place, secs| {
        let set = SetAttr {
            atime: Some(SetTime::To(Timestamp::new(secs, 0))),
            ctime: Some(Timestamp::new(1 << 40, 0)),
            ..SetAttr::default()
        };
        place.server.now = Timestamp::new(5_000, 0);
        place.server.setattr(&user(2000), place.file, set).unwrap()
    };
    let before = place.server.getattr(place.file).unwrap();
    let said = |attr: gupfs_proto::Attr| (attr.atime.secs, attr.ctime, attr.mtime);
    let (ctime, mtime) = (before.ctime, before.mtime);
    assert_eq!(said(tell(&mut place, 4_000)), (4_000, ctime, mtime));
    assert_eq!(said(tell(&mut place, 3_000)), (4_000, ctime, mtime));
    assert_eq!(said(tell(&mut place, 9_000)), (5_001, ctime, mtime));
    // Its owner has set it to a day to come: the next reading is before that.
    let ahead = SetAttr {
        atime: Some(SetTime::To(Timestamp::new(1 << 40, 0))),
        ..SetAttr::default()
    };
    let set = place
        .server
        .setattr(&user(OWNER), place.file, ahead)
        .unwrap();
    assert_eq!(set.atime.secs, 1 << 40);
    assert_eq!(tell(&mut place, 4_500).atime.secs, 4_500);
}
