//! The tests' client: a session with its slots.

use gupfs_mds::Mds;
use gupfs_proto::attr::Attr;
use gupfs_proto::meta::{
    AccessMode, AttrReport, CreateMode, MetaOp, MetaReply, MetaReplyBody, MetaRequest, OpenInfo,
    OpenMode, SlotSeq,
};
use gupfs_proto::{Caller, FsError, InodeId, Name, Seq, SessionId, Slot, wire};
use gupfs_rpc::Service;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

pub struct Client {
    pub mds: Arc<Mds>,
    pub session: SessionId,
    /// The sequence number of the last change in each slot used.
    sequences: Mutex<Vec<u64>>,
    seen: AtomicU64,
}

pub const MAKE: CreateMode = CreateMode {
    mode: 0o644,
    umask: 0o022,
};

pub const WRITE: OpenMode = OpenMode {
    access: AccessMode::WRITE,
    truncate: false,
    kill_privileges: false,
};

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

impl Client {
    pub async fn open(mds: &Arc<Mds>) -> Client {
        let op = MetaOp::OpenSession {
            client: "a test".into(),
        };
        let reply = send(mds, SessionId(0), None, op).await;
        let Ok(MetaReplyBody::Session { session, .. }) = reply.result else {
            panic!("{reply:?}");
        };
        let client = Client::of(mds, session);
        client.seen.store(reply.seq.0, SeqCst);
        client
    }

    /// A client of a session that was opened already.
    pub fn of(mds: &Arc<Mds>, session: SessionId) -> Client {
        Client {
            mds: mds.clone(),
            session,
            sequences: Mutex::new(vec![0; 64]),
            seen: AtomicU64::new(0),
        }
    }

    pub fn next_slot_seq(&self, slot: u16) -> SlotSeq {
        let mut sequences = self.sequences.lock();
        sequences[usize::from(slot)] += 1;
        SlotSeq {
            slot: Slot(slot),
            sequence: sequences[usize::from(slot)],
        }
    }

    /// The reply without the leases in it.
    pub async fn send(&self, slot_seq: Option<SlotSeq>, op: MetaOp) -> MetaReply {
        let mut reply = send(&self.mds, self.session, slot_seq, op).await;
        self.seen.fetch_max(reply.seq.0, SeqCst);
        if let Ok(MetaReplyBody::LeaseReply(leased)) = &reply.result {
            reply.result = wire::decode_outcome(&leased.outcome).unwrap();
        }
        reply
    }

    pub async fn read(&self, op: MetaOp) -> Result<MetaReplyBody, FsError> {
        self.send(None, op).await.result
    }

    pub async fn change(&self, slot: u16, op: MetaOp) -> Result<MetaReplyBody, FsError> {
        let slot_seq = self.next_slot_seq(slot);
        self.send(Some(slot_seq), op).await.result
    }

    pub fn seen(&self) -> Seq {
        Seq(self.seen.load(SeqCst))
    }

    /// Returns the newest change that is durable now.
    pub async fn sync(&self) -> Result<Seq, FsError> {
        let upto = self.seen();
        self.read(MetaOp::Sync { upto }).await.map(|_| upto)
    }

    pub async fn mkdir(&self, slot: u16, dir: InodeId, what: &str) -> Result<InodeId, FsError> {
        let name = name(what);
        let op = MetaOp::Mkdir {
            dir,
            name,
            create_mode: CreateMode {
                mode: 0o755,
                ..MAKE
            },
        };
        match self.change(slot, op).await? {
            MetaReplyBody::Entry(attr) => Ok(attr.ino),
            other => panic!("{other:?}"),
        }
    }

    pub fn creation(dir: InodeId, what: &str) -> MetaOp {
        MetaOp::Create {
            dir,
            name: name(what),
            create_mode: MAKE,
            exclusive: true,
            open: WRITE,
        }
    }

    pub async fn create(&self, slot: u16, dir: InodeId, what: &str) -> Result<InodeId, FsError> {
        match self.change(slot, Client::creation(dir, what)).await? {
            MetaReplyBody::Opened(opened) => Ok(opened.attr.ino),
            other => panic!("{other:?}"),
        }
    }

    pub async fn begin_write(&self, ino: InodeId) -> OpenInfo {
        let op = MetaOp::BeginWrite {
            ino,
            kill_privileges: false,
        };
        match self.change(0, op).await.unwrap() {
            MetaReplyBody::Opened(opened) => opened,
            other => panic!("{other:?}"),
        }
    }

    pub async fn open_file(&self, ino: InodeId) -> OpenInfo {
        let open = OpenMode {
            access: AccessMode::READ,
            ..WRITE
        };
        match self.change(0, MetaOp::Open { ino, open }).await.unwrap() {
            MetaReplyBody::Opened(opened) => opened,
            other => panic!("{other:?}"),
        }
    }

    pub async fn end_write(&self, ino: InodeId, written: AttrReport) {
        let op = MetaOp::EndWrite {
            ino,
            report: written,
            keep_lease: false,
        };
        self.change(0, op).await.unwrap();
    }

    pub async fn truncate(&self, ino: InodeId, to: u64) -> Result<OpenInfo, FsError> {
        let slot_seq = self.next_slot_seq(0);
        match self
            .send(Some(slot_seq), Client::truncation(ino, to))
            .await
            .result?
        {
            MetaReplyBody::Opened(opened) => Ok(opened),
            other => panic!("{other:?}"),
        }
    }

    pub fn truncation(ino: InodeId, to: u64) -> MetaOp {
        MetaOp::Truncate {
            ino,
            to,
            by_handle: true,
            kill_privileges: false,
        }
    }

    pub async fn unlink(
        &self,
        slot: u16,
        dir: InodeId,
        what: &str,
    ) -> Result<MetaReplyBody, FsError> {
        let op = MetaOp::Unlink {
            dir,
            name: name(what),
        };
        self.change(slot, op).await
    }

    pub async fn forget(&self, ino: InodeId) {
        let op = MetaOp::Forget { inodes: vec![ino] };
        self.change(0, op).await.unwrap();
    }

    pub async fn attr(&self, ino: InodeId) -> Result<Attr, FsError> {
        match self.read(MetaOp::GetAttr { ino }).await? {
            MetaReplyBody::Attr(attr) => Ok(attr),
            other => panic!("{other:?}"),
        }
    }

    pub async fn lookup(&self, dir: InodeId, what: &str) -> Result<Attr, FsError> {
        let op = MetaOp::Lookup {
            dir,
            name: name(what),
        };
        match self.read(op).await? {
            MetaReplyBody::Entry(attr) => Ok(attr),
            other => panic!("{other:?}"),
        }
    }

    /// All names of a directory, in readdir's order.
    pub async fn list_names(&self, dir: InodeId, step: u32) -> Vec<String> {
        let mut names = Vec::new();
        let mut after = 0;
        loop {
            let op = MetaOp::Readdir {
                dir,
                after,
                limit: step,
                plus: true,
            };
            let Ok(MetaReplyBody::Entries { entries, end }) = self.read(op).await else {
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

pub async fn send(
    mds: &Arc<Mds>,
    session: SessionId,
    slot_seq: Option<SlotSeq>,
    op: MetaOp,
) -> MetaReply {
    let request = MetaRequest {
        session,
        slot_seq,
        caller: Caller::root(),
        job: gupfs_proto::JobId(0),
        instance: mds.owner_epoch(),
        last_seen: Seq(0),
        op,
    };
    mds.clone().handle(request).await
}
