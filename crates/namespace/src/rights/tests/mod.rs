//! Every operation, for every kind of caller and every set of open files: allowed or refused as in the expected table, and no
//! data of another user returned or changed.

mod driver_operations;
mod fixture;
mod operations;

use crate::Inode;
use crate::rights::OpenRights;
use crate::testing::*;
use expect_test::expect;
use fixture::{CALLERS, Fixture, OWNER, SESSION_STATES, fixture};
use gupfs_proto::capability::Rights;
use gupfs_proto::meta::{MetaReplyBody, SetAttr, SetTime};
use gupfs_proto::{Caller, FsError, Timestamp};
use std::fmt::Write as _;

fn reply_symbol(reply: &Result<MetaReplyBody, FsError>) -> char {
    match reply {
        Ok(_) => '+',
        Err(FsError::Denied) => '-',
        Err(FsError::NotPermitted) => 'p',
        Err(FsError::Malformed(_)) => 'm',
        Err(other) => panic!("{other}"),
    }
}

/// Sends a request and returns its symbol in the table. Unless the caller is root or the owner, checks that it discloses nothing
/// and changes only what the session may change.
fn try_operation(row: usize, caller_name: &str, uid: u32, state: &str) -> char {
    let mut fixture = fixture();
    fixture.set_session_state(state);
    let before = fixture.server.inode(fixture.file);
    let (op_name, op) = fixture.operations().remove(row);
    let caller = Caller::new(uid, uid, []);
    let reply = fixture.server.request(&caller, &op);
    if caller_name != "root" && caller_name != "owner" {
        let why = format!("{op_name} by {caller_name}, {state}: {reply:?}");
        let after = fixture.server.inode(fixture.file);
        let of_owner = |inode: &Inode| (inode.mode, inode.uid, inode.gid, inode.flags, inode.names);
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
    reply_symbol(&reply)
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
                table.push(try_operation(row, caller_name, uid, state));
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
        create for writing        root ++++ owner ++++ other ---- nobody ----
        create for writing there  root ++++ owner ++++ other ---- nobody ----
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
        report_writes             root mmm+ owner mmm+ other mmm+ nobody mmm+
        report_writes, inline     root mmmm owner mmmm other mmmm nobody mmmm
        kill_privileges           root ++++ owner ++++ other --+- nobody --+-
        forgotten                 root ++++ owner ++++ other ++++ nobody ++++
        close_session             root ++++ owner ++++ other ++++ nobody ++++
    "#]]
    .assert_eq(&table);
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
