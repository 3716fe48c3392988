//! A client of the tests: a session with its lanes.

use gupfs_mds::Mds;
use gupfs_proto::attr::Attr;
use gupfs_proto::meta::{Access, Answer, Lane, Make, Op, OpenHow, Opened, Reply, Request, Written};
use gupfs_proto::{Caller, InodeId, Name, Refusal, Seq, SessionId, Slot};
use gupfs_rpc::Service;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

pub struct Client {
    pub mds: Arc<Mds>,
    pub session: SessionId,
    /// The number of the last change in each lane used.
    lanes: Mutex<Vec<u64>>,
    seen: AtomicU64,
}

pub const MAKE: Make = Make {
    mode: 0o644,
    umask: 0o022,
};

pub const WRITE: OpenHow = OpenHow {
    access: Access::WRITE,
    truncate: false,
    kill_privileges: false,
};

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

impl Client {
    pub async fn open(mds: &Arc<Mds>) -> Client {
        let op = Op::OpenSession {
            client: "a test".into(),
        };
        let reply = ask(mds, SessionId(0), None, op).await;
        let Ok(Answer::Session { session, .. }) = reply.result else {
            panic!("{reply:?}");
        };
        let client = Client::of(mds, session);
        client.seen.store(reply.seq.0, SeqCst);
        client
    }

    /// With a session that was opened already.
    pub fn of(mds: &Arc<Mds>, session: SessionId) -> Client {
        Client {
            mds: mds.clone(),
            session,
            lanes: Mutex::new(vec![0; 64]),
            seen: AtomicU64::new(0),
        }
    }

    pub fn next_lane(&self, slot: u16) -> Lane {
        let mut lanes = self.lanes.lock();
        lanes[usize::from(slot)] += 1;
        Lane {
            slot: Slot(slot),
            sequence: lanes[usize::from(slot)],
        }
    }

    pub async fn ask(&self, lane: Option<Lane>, op: Op) -> Reply {
        let reply = ask(&self.mds, self.session, lane, op).await;
        self.seen.fetch_max(reply.seq.0, SeqCst);
        reply
    }

    pub async fn read(&self, op: Op) -> Result<Answer, Refusal> {
        self.ask(None, op).await.result
    }

    pub async fn change(&self, slot: u16, op: Op) -> Result<Answer, Refusal> {
        let lane = self.next_lane(slot);
        self.ask(Some(lane), op).await.result
    }

    pub fn seen(&self) -> Seq {
        Seq(self.seen.load(SeqCst))
    }

    /// Returns what is durable now.
    pub async fn sync(&self) -> Result<Seq, Refusal> {
        let upto = self.seen();
        self.read(Op::Sync { upto }).await.map(|_| upto)
    }

    pub async fn mkdir(&self, slot: u16, dir: InodeId, what: &str) -> Result<InodeId, Refusal> {
        let name = name(what);
        let op = Op::Mkdir {
            dir,
            name,
            make: Make {
                mode: 0o755,
                ..MAKE
            },
        };
        match self.change(slot, op).await? {
            Answer::Entry(attr) => Ok(attr.ino),
            other => panic!("{other:?}"),
        }
    }

    pub fn creation(dir: InodeId, what: &str) -> Op {
        Op::Create {
            dir,
            name: name(what),
            make: MAKE,
            exclusive: true,
            open: WRITE,
        }
    }

    pub async fn create(&self, slot: u16, dir: InodeId, what: &str) -> Result<InodeId, Refusal> {
        match self.change(slot, Client::creation(dir, what)).await? {
            Answer::Opened(opened) => Ok(opened.attr.ino),
            other => panic!("{other:?}"),
        }
    }

    pub async fn begin_write(&self, ino: InodeId) -> Opened {
        let op = Op::BeginWrite {
            ino,
            kill_privileges: false,
        };
        match self.change(0, op).await.unwrap() {
            Answer::Opened(opened) => opened,
            other => panic!("{other:?}"),
        }
    }

    pub async fn open_file(&self, ino: InodeId) -> Opened {
        let open = OpenHow {
            access: Access::READ,
            ..WRITE
        };
        match self.change(0, Op::Open { ino, open }).await.unwrap() {
            Answer::Opened(opened) => opened,
            other => panic!("{other:?}"),
        }
    }

    pub async fn end_write(&self, ino: InodeId, written: Written) {
        let op = Op::EndWrite {
            ino,
            written,
            keep: false,
        };
        self.change(0, op).await.unwrap();
    }

    pub async fn truncate(&self, ino: InodeId, to: u64) -> Result<Opened, Refusal> {
        let lane = self.next_lane(0);
        match self
            .ask(Some(lane), Client::truncation(ino, to))
            .await
            .result?
        {
            Answer::Opened(opened) => Ok(opened),
            other => panic!("{other:?}"),
        }
    }

    pub fn truncation(ino: InodeId, to: u64) -> Op {
        Op::Truncate {
            ino,
            to,
            by_handle: true,
            kill_privileges: false,
        }
    }

    pub async fn unlink(&self, slot: u16, dir: InodeId, what: &str) -> Result<Answer, Refusal> {
        let op = Op::Unlink {
            dir,
            name: name(what),
        };
        self.change(slot, op).await
    }

    pub async fn forget(&self, ino: InodeId) {
        let op = Op::Forgotten { inodes: vec![ino] };
        self.change(0, op).await.unwrap();
    }

    pub async fn attr(&self, ino: InodeId) -> Result<Attr, Refusal> {
        match self.read(Op::GetAttr { ino }).await? {
            Answer::Attr(attr) => Ok(attr),
            other => panic!("{other:?}"),
        }
    }

    pub async fn lookup(&self, dir: InodeId, what: &str) -> Result<Attr, Refusal> {
        let op = Op::Lookup {
            dir,
            name: name(what),
        };
        match self.read(op).await? {
            Answer::Entry(attr) => Ok(attr),
            other => panic!("{other:?}"),
        }
    }

    /// All names of a directory, in readdir's order.
    pub async fn names(&self, dir: InodeId, step: u32) -> Vec<String> {
        let mut names = Vec::new();
        let mut after = 0;
        loop {
            let op = Op::Readdir {
                dir,
                after,
                limit: step,
                plus: true,
            };
            let Ok(Answer::Entries { entries, end }) = self.read(op).await else {
                panic!("no entries");
            };
            names.extend(entries.iter().map(|entry| entry.name.to_string()));
            match entries.last() {
                Some(last) if !end => after = last.cookie,
                _ => return names,
            }
        }
    }
}

pub async fn ask(mds: &Arc<Mds>, session: SessionId, lane: Option<Lane>, op: Op) -> Reply {
    let request = Request {
        session,
        lane,
        caller: Caller::root(),
        job: 0,
        life: mds.owner_epoch(),
        seen: Seq(0),
        op,
    };
    mds.clone().answer(request).await
}
