//! A client with a few slots, one request in flight in each; it names the inodes and names that it saw lately.

use gupfs_platform::fake::FakeRandom;
use gupfs_proto::meta::{
    AccessMode, CreateMode, MetaOp, OpenMode, RenameMode, SetAttr, SetTime, SlotSeq, WritePosition,
};
use gupfs_proto::{FileKind, InodeId, Name, SessionId, Slot, Timestamp};

pub const SLOTS: usize = 3;

/// Number of inodes that a client remembers: few, so that requests name the same ones often.
const INODES_KNOWN: usize = 6;

pub struct Client {
    pub session: SessionId,
    pub slots: [SlotState; SLOTS],
    random: FakeRandom,
    directories: Vec<InodeId>,
    files: Vec<InodeId>,
    /// Inodes whose last name this client removed and that it has not forgotten.
    orphans: Vec<InodeId>,
}

/// One slot of the session.
#[derive(Default)]
pub struct SlotState {
    sequence: u64,
    /// The request that was sent and has no reply.
    pub waiting: Option<MetaOp>,
}

impl Client {
    pub fn new(session: SessionId, random: FakeRandom) -> Client {
        Client {
            session,
            slots: Default::default(),
            random,
            directories: vec![InodeId::ROOT],
            files: Vec::new(),
            orphans: Vec::new(),
        }
    }

    /// Chooses the next request of a slot.
    pub fn begin_request(&mut self, slot: usize) {
        let op = self.random_op();
        let slot_state = &mut self.slots[slot];
        slot_state.sequence += 1;
        slot_state.waiting = Some(op);
    }

    pub fn slot_seq(&self, slot: usize) -> SlotSeq {
        SlotSeq {
            slot: Slot(slot as u16),
            sequence: self.slots[slot].sequence,
        }
    }

    /// Begins a new session. The server has already forgotten the orphans of the former one.
    pub fn begin_session(&mut self, session: SessionId) {
        self.session = session;
        self.orphans.clear();
    }

    pub fn note_inode(&mut self, ino: InodeId, kind: FileKind) {
        let list = match kind {
            FileKind::Directory => &mut self.directories,
            _ => &mut self.files,
        };
        if !list.contains(&ino) {
            list.push(ino);
        }
        if list.len() > INODES_KNOWN {
            list.remove(1);
        }
    }

    pub fn note_orphan(&mut self, ino: InodeId) {
        self.orphans.push(ino);
    }

    fn random_op(&mut self) -> MetaOp {
        if self.orphans.len() > 3 {
            let inodes = std::mem::take(&mut self.orphans);
            return MetaOp::Forget { inodes };
        }
        let random = self.random.clone();
        let (dir, name, ino) = (
            self.random_directory(),
            self.random_name(),
            self.random_file(),
        );
        match random.below(100) {
            choice @ 0..80 => self.random_name_op(choice, (dir, name), ino),
            choice => self.random_file_op(choice, ino),
        }
    }

    /// `choice`: a random number below 80.
    fn random_name_op(&self, choice: u64, (dir, name): (InodeId, Name), ino: InodeId) -> MetaOp {
        let random = &self.random;
        let create_mode = CreateMode {
            mode: 0o700,
            umask: 0,
        };
        match choice {
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
                create_mode,
                exclusive: random.one_in(2),
                open: OpenMode {
                    access: AccessMode::READ | AccessMode::WRITE,
                    truncate: false,
                    kill_privileges: false,
                },
            },
            40..46 => MetaOp::Mkdir {
                dir,
                name,
                create_mode,
            },
            46..52 => MetaOp::Link { ino, dir, name },
            52..62 => MetaOp::Unlink { dir, name },
            62..66 => MetaOp::Rmdir { dir, name },
            _ => MetaOp::Rename {
                from: dir,
                name,
                to: self.random_directory(),
                new_name: self.random_name(),
                mode: match random.below(6) {
                    0 => RenameMode::Exchange,
                    1 => RenameMode::NoReplace,
                    _ => RenameMode::Replace,
                },
            },
        }
    }

    /// `choice`: a random number from 80 to 99.
    fn random_file_op(&self, choice: u64, ino: InodeId) -> MetaOp {
        let random = &self.random;
        match choice {
            80..86 => MetaOp::SetAttr {
                ino,
                set: SetAttr {
                    mode: Some(0o600 + random.below(64) as u32),
                    mtime: random
                        .one_in(2)
                        .then(|| SetTime::To(Timestamp::new(1 + random.below(1 << 30) as i64, 0))),
                    ..SetAttr::default()
                },
            },
            86..89 => MetaOp::Truncate {
                ino,
                to: random.below(5000),
                by_handle: false,
                kill_privileges: false,
            },
            _ => MetaOp::WriteInline {
                ino,
                at: match random.one_in(2) {
                    true => WritePosition::End,
                    false => WritePosition::Offset(random.below(4000)),
                },
                data: vec![random.below(256) as u8; 1 + random.below(200) as usize].into(),
                kill_privileges: false,
            },
        }
    }

    fn random_directory(&self) -> InodeId {
        self.directories[self.random.below(self.directories.len() as u64) as usize]
    }

    /// Returns a directory now and then, to test errors.
    fn random_file(&self) -> InodeId {
        match self.random.below(self.files.len() as u64 + 1) {
            0 => self.random_directory(),
            pick => self.files[pick as usize - 1],
        }
    }

    fn random_name(&self) -> Name {
        let letter = b'a' + self.random.below(4) as u8;
        Name::new(&[letter]).expect("a letter is a name")
    }
}
