//! The operations of the random test, and what a reply to a read says.

use super::super::session::{chmod, get_xattr, link, list, look_up, set_xattr, unlink};
use crate::client::{Client, MAKE, name};
use bytes::Bytes;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::attr::Attr;
use gupfs_proto::meta::{
    AccessMode, AttrReport, MetaOp, MetaReplyBody, OpenMode, RenameMode, SetAttr, SetTime,
    WritePosition,
};
use gupfs_proto::{FsError, InodeId, Timestamp};
use parking_lot::Mutex;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// The inodes that the random operations use.
pub struct Files {
    dirs: Vec<InodeId>,
    inodes: Mutex<Vec<InodeId>>,
}

impl Files {
    pub async fn new(client: &Client) -> Files {
        let mut dirs = vec![InodeId::ROOT];
        for dir in ["d1", "d2", "d3"] {
            dirs.push(client.mkdir(0, InodeId::ROOT, dir).await.unwrap());
        }
        let file = client.create(0, dirs[1], "a").await.unwrap();
        Files {
            dirs,
            inodes: Mutex::new(vec![file]),
        }
    }

    /// Notes an inode that a reply names.
    pub fn note(&self, ino: InodeId) {
        let mut inodes = self.inodes.lock();
        if !self.dirs.contains(&ino) && !inodes.contains(&ino) {
            inodes.push(ino);
            // Old ones are mostly removed.
            if inodes.len() > 8 {
                inodes.remove(0);
            }
        }
    }

    fn dir(&self, dice: &FakeRandom) -> InodeId {
        self.dirs[dice.u64() as usize % self.dirs.len()]
    }

    fn ino(&self, dice: &FakeRandom) -> InodeId {
        let inodes = self.inodes.lock();
        inodes[dice.u64() as usize % inodes.len()]
    }

    pub fn random_read(&self, dice: &FakeRandom) -> MetaOp {
        let ino = self.ino(dice);
        match dice.u64() % 6 {
            0 => MetaOp::GetAttr { ino },
            1 => MetaOp::GetAttr {
                ino: self.dir(dice),
            },
            2 => list(self.dir(dice)),
            3 => get_xattr(ino),
            4 => open(ino),
            _ => look_up(self.dir(dice), random_name(dice)),
        }
    }

    pub fn random_change(&self, dice: &FakeRandom) -> MetaOp {
        let (dir, what, ino) = (self.dir(dice), random_name(dice), self.ino(dice));
        let kill_privileges = false;
        match dice.u64() % 14 {
            0 => Client::creation(dir, what),
            1 => unlink(dir, what),
            2 => link(ino, dir, what),
            3 => MetaOp::Rename {
                from: dir,
                name: name(what),
                to: self.dir(dice),
                new_name: name(random_name(dice)),
                mode: match dice.u64() % 3 {
                    0 => RenameMode::Exchange,
                    _ => RenameMode::Replace,
                },
            },
            4 => MetaOp::Mkdir {
                dir,
                name: name(what),
                create_mode: MAKE,
            },
            5 => MetaOp::Rmdir {
                dir,
                name: name(what),
            },
            6 => chmod(ino, 0o600 + (dice.u64() % 64) as u32),
            7 => chmod(dir, 0o700 + (dice.u64() % 64) as u32),
            8 => set_xattr(ino, [&b"red"[..], b"blue"][dice.u64() as usize % 2]),
            9 => MetaOp::WriteInline {
                ino,
                at: WritePosition::End,
                data: Bytes::from_static(b"more"),
                kill_privileges,
            },
            10 => Client::truncation(ino, dice.u64() % 9),
            11 if dice.one_in(2) => MetaOp::BeginWriteAt {
                ino,
                kill_privileges,
                contended: dice.one_in(2),
            },
            11 if dice.one_in(5) => MetaOp::UpgradeWrite { ino },
            11 => MetaOp::BeginWrite {
                ino,
                kill_privileges,
            },
            12 => MetaOp::EndWrite {
                ino,
                report: AttrReport {
                    size: dice.u64() % 100,
                    mtime: Some(Timestamp::new(4_000_000_000, 0)),
                    ..AttrReport::default()
                },
                keep_lease: dice.one_in(2),
            },
            _ => MetaOp::SetAttr {
                ino,
                set: SetAttr {
                    mtime: Some(SetTime::To(Timestamp::new((dice.u64() % 1000) as i64, 0))),
                    ..SetAttr::default()
                },
            },
        }
    }
}

fn random_name(dice: &FakeRandom) -> &'static str {
    NAMES[dice.u64() as usize % NAMES.len()]
}

fn open(ino: InodeId) -> MetaOp {
    let open = OpenMode {
        access: AccessMode::READ,
        truncate: false,
        kill_privileges: false,
    };
    MetaOp::Open { ino, open }
}

/// What a lease covers of the reply to a read; None if the reply does not say it.
pub fn read_value(op: &MetaOp, outcome: &Result<MetaReplyBody, FsError>) -> Option<String> {
    match (op, outcome) {
        (MetaOp::Lookup { .. }, Ok(MetaReplyBody::Entry(attr))) => Some(attr.ino.to_string()),
        (MetaOp::Lookup { .. }, Err(FsError::NotFound)) => Some("absent".into()),
        (MetaOp::GetAttr { .. }, Ok(MetaReplyBody::Attr(attr))) => Some(attributes(attr)),
        (MetaOp::GetXattr { .. }, Ok(MetaReplyBody::Xattr(value))) => Some(format!("{value:?}")),
        (MetaOp::GetXattr { .. }, Err(FsError::NoAttribute)) => Some("no attribute".into()),
        (MetaOp::Readdir { .. }, Ok(MetaReplyBody::Entries { entries, end: true })) => {
            let names = entries.iter().map(|entry| (&entry.name, entry.ino));
            Some(format!("{:?}", names.collect::<Vec<_>>()))
        }
        (MetaOp::Open { .. }, Ok(MetaReplyBody::Opened(opened))) => Some(format!(
            "{:?} {:?} {}",
            opened.layout, opened.inline, opened.attr.size
        )),
        _ => None,
    }
}

/// Access times are excepted, and the counter that counts them.
pub fn attributes(attr: &Attr) -> String {
    let mut attr = *attr;
    (attr.atime, attr.change) = Default::default();
    format!("{attr:?}")
}
