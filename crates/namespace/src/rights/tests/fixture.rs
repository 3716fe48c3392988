//! A directory and a file of one user, and a session that has more or less of them open.

use crate::rights::OpenRights;
use crate::testing::*;
use crate::{Record, RecordKey, WriteLease, WriteLeaseMode};
use gupfs_proto::capability::Rights;
use gupfs_proto::meta::{MetaOp, SetAttr, WritePosition};
use gupfs_proto::{Caller, InodeId};

pub const OWNER: u32 = 1000;
pub const SECRET: &[u8] = b"secret";

/// Root of a trusted host; the owner; another user; and the user to which root of other hosts is squashed.
pub const CALLERS: [(&str, u32); 4] = [
    ("root", 0),
    ("owner", OWNER),
    ("other", 2000),
    ("nobody", 65_534),
];

/// The access with which the session has the inodes open; "holder": it has the write lease but sends no open capability.
pub const SESSION_STATES: [&str; 4] = ["nothing", "read", "write", "holder"];

pub struct Fixture {
    pub server: TestServer,
    /// Owned by `OWNER`, mode 0700; contains "f", "empty", "link".
    pub dir: InodeId,
    /// Owned by `OWNER`, mode 0600, with secret inline bytes and a secret extended attribute.
    pub file: InodeId,
    pub link: InodeId,
}

pub fn fixture() -> Fixture {
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
    pub fn set_session_state(&mut self, state: &str) {
        let open = |rights| OpenRights::new(vec![(self.file, rights), (self.dir, rights)]);
        match state {
            "nothing" => {}
            "read" => self.server.open_rights = open(Rights::READ),
            "write" => self.server.open_rights = open(Rights::all()),
            "holder" => {
                let key = RecordKey::write_lease(self.file, self.server.session);
                let (since, mode) = (self.server.now, WriteLeaseMode::Exclusive);
                self.server
                    .records
                    .insert(key, WriteLease { since, mode }.encode());
                self.server.edit(self.file, |inode| {
                    inode.file_mut().unwrap().write_leases = 1;
                });
            }
            other => panic!("{other}"),
        }
    }
}
