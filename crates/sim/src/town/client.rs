//! A client: lanes with one request under way in each, and numbers it has heard of.

use gupfs_platform::fake::FakeRandom;
use gupfs_proto::meta::{
    AccessMode, CreateMode, MetaOp, OpenMode, RenameMode, SetAttr, SetTime, SlotSeq, WritePosition,
};
use gupfs_proto::{FileKind, InodeId, Name, SessionId, Slot, Timestamp};

pub const LANES: usize = 3;

/// Numbers remembered: few, so that they are asked for again.
const KNOWN: usize = 6;

pub struct Client {
    pub session: SessionId,
    pub lanes: [Line; LANES],
    dice: FakeRandom,
    dirs: Vec<InodeId>,
    files: Vec<InodeId>,
    /// Removed by this client and not forgotten.
    orphans: Vec<InodeId>,
}

/// One lane.
#[derive(Default)]
pub struct Line {
    sequence: u64,
    /// Sent and not answered.
    pub waiting: Option<MetaOp>,
}

impl Client {
    pub fn new(session: SessionId, dice: FakeRandom) -> Client {
        Client {
            session,
            lanes: Default::default(),
            dice,
            dirs: vec![InodeId::ROOT],
            files: Vec::new(),
            orphans: Vec::new(),
        }
    }

    /// The next request of a lane.
    pub fn next(&mut self, lane: usize) {
        let op = self.throw();
        let line = &mut self.lanes[lane];
        line.sequence += 1;
        line.waiting = Some(op);
    }

    pub fn lane(&self, lane: usize) -> SlotSeq {
        SlotSeq {
            slot: Slot(lane as u16),
            sequence: self.lanes[lane].sequence,
        }
    }

    /// Another session: what the former held is gone.
    pub fn renew(&mut self, session: SessionId) {
        self.session = session;
        self.orphans.clear();
    }

    pub fn saw(&mut self, ino: InodeId, kind: FileKind) {
        let list = match kind {
            FileKind::Directory => &mut self.dirs,
            _ => &mut self.files,
        };
        if !list.contains(&ino) {
            list.push(ino);
        }
        if list.len() > KNOWN {
            list.remove(1);
        }
    }

    pub fn orphaned(&mut self, ino: InodeId) {
        self.orphans.push(ino);
    }

    fn throw(&mut self) -> MetaOp {
        if self.orphans.len() > 3 {
            let inodes = std::mem::take(&mut self.orphans);
            return MetaOp::Forget { inodes };
        }
        let dice = self.dice.clone();
        let (dir, name, ino) = (self.dir(), self.name(), self.file());
        let make = CreateMode {
            mode: 0o700,
            umask: 0,
        };
        match dice.below(100) {
            0..10 => MetaOp::Lookup { dir, name },
            10..18 => MetaOp::GetAttr { ino },
            18..22 => MetaOp::Readdir {
                dir,
                after: 0,
                limit: 100,
                plus: false,
            },
            22..40 => MetaOp::Create {
                dir,
                name,
                create_mode: make,
                exclusive: dice.one_in(2),
                open: OpenMode {
                    access: AccessMode::READ | AccessMode::WRITE,
                    truncate: false,
                    kill_privileges: false,
                },
            },
            40..46 => MetaOp::Mkdir {
                dir,
                name,
                create_mode: make,
            },
            46..52 => MetaOp::Link { ino, dir, name },
            52..62 => MetaOp::Unlink { dir, name },
            62..66 => MetaOp::Rmdir { dir, name },
            66..80 => MetaOp::Rename {
                from: dir,
                name,
                to: self.dir(),
                new_name: self.name(),
                mode: match dice.below(6) {
                    0 => RenameMode::Exchange,
                    1 => RenameMode::NoReplace,
                    _ => RenameMode::Replace,
                },
            },
            80..86 => MetaOp::SetAttr {
                ino,
                set: SetAttr {
                    mode: Some(0o600 + dice.below(64) as u32),
                    mtime: dice
                        .one_in(2)
                        .then(|| SetTime::To(Timestamp::new(1 + dice.below(1 << 30) as i64, 0))),
                    ..SetAttr::default()
                },
            },
            86..89 => MetaOp::Truncate {
                ino,
                to: dice.below(5000),
                by_handle: false,
                kill_privileges: false,
            },
            _ => MetaOp::WriteInline {
                ino,
                at: match dice.one_in(2) {
                    true => WritePosition::End,
                    false => WritePosition::Offset(dice.below(4000)),
                },
                data: vec![dice.below(256) as u8; 1 + dice.below(200) as usize].into(),
                kill_privileges: false,
            },
        }
    }

    fn dir(&self) -> InodeId {
        self.dirs[self.dice.below(self.dirs.len() as u64) as usize]
    }

    /// Now and then a directory, where files belong.
    fn file(&self) -> InodeId {
        match self.dice.below(self.files.len() as u64 + 1) {
            0 => self.dir(),
            pick => self.files[pick as usize - 1],
        }
    }

    fn name(&self) -> Name {
        let letter = b'a' + self.dice.below(4) as u8;
        Name::new(&[letter]).expect("a letter is a name")
    }
}
