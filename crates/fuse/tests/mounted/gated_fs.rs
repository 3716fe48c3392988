//! A file system whose next requests wait at a gate.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use gupfs_fuse::{
    AttrReply, Call, CreateReply, Dirents, DirentsPlus, EntryReply, Errno, FileHandle, FileSystem,
    InodeAttr, NodeId, OpenReply, OpenReplyFlags, ReplyData, Result, op,
};
use tokio::sync::Semaphore;

pub struct GatedFs {
    /// Number of next requests that wait.
    pub hold_next: AtomicUsize,
    /// Releases waiting requests.
    pub gate: Semaphore,
    pub bytes: Mutex<Vec<u8>>,
    /// Executed operations on all files except `other`, in order.
    pub log: Mutex<Vec<&'static str>>,
    pub references_given: AtomicUsize,
    pub forgotten: AtomicUsize,
    pub opened: AtomicUsize,
    pub released: AtomicUsize,
}

const FILES: [&str; 2] = ["file", "other"];
const CREATED_NODE: NodeId = NodeId(9);

impl GatedFs {
    pub fn new() -> GatedFs {
        GatedFs {
            hold_next: AtomicUsize::new(0),
            gate: Semaphore::new(0),
            bytes: Mutex::new(vec![b'-'; 1 << 20]),
            log: Mutex::default(),
            references_given: AtomicUsize::new(0),
            forgotten: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
            released: AtomicUsize::new(0),
        }
    }

    async fn wait_at_gate(&self) {
        let was_held = self
            .hold_next
            .fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        if was_held.is_ok() {
            self.gate.acquire().await.unwrap().forget();
        }
    }

    /// Whether every opened handle was released.
    pub fn is_balanced(&self) -> bool {
        self.opened.load(SeqCst) == self.released.load(SeqCst)
    }

    fn attr(node: NodeId) -> InodeAttr {
        InodeAttr {
            ino: node.0,
            mode: if node == NodeId::ROOT {
                0o040777
            } else {
                0o100666
            },
            nlink: 1,
            size: 1 << 20,
            ..InodeAttr::default()
        }
    }

    /// An entry that the kernel must not cache.
    fn entry(&self, node: NodeId) -> EntryReply {
        self.references_given.fetch_add(1, SeqCst);
        EntryReply {
            node,
            generation: 0,
            name_ttl: Duration::ZERO,
            attr: GatedFs::attr(node),
            attr_ttl: Duration::ZERO,
        }
    }

    fn opened(&self) -> OpenReply {
        self.opened.fetch_add(1, SeqCst);
        OpenReply {
            fh: FileHandle(7),
            flags: OpenReplyFlags::DIRECT_IO
                | OpenReplyFlags::NOFLUSH
                | OpenReplyFlags::PARALLEL_DIRECT_WRITES,
        }
    }
}

impl FileSystem for GatedFs {
    async fn forget(&self, batch: Vec<op::Forget>) {
        let lookups: u64 = batch.iter().map(|forget| forget.lookups).sum();
        self.forgotten.fetch_add(lookups as usize, SeqCst);
    }

    async fn lookup(&self, _: Call, op: op::Lookup) -> Result<EntryReply> {
        let at = FILES.iter().position(|name| name.as_bytes() == &*op.name);
        if &*op.name == b"slow to find" {
            self.wait_at_gate().await;
            return Ok(self.entry(NodeId(2)));
        }
        let at = at.ok_or(Errno::ENOENT)?;
        Ok(self.entry(NodeId(at as u64 + 2)))
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<AttrReply> {
        Ok(AttrReply {
            attr: GatedFs::attr(call.node),
            ttl: Duration::ZERO,
        })
    }

    async fn open(&self, _: Call, op: op::Open) -> Result<OpenReply> {
        // open(2) waits only with O_APPEND.
        if op.flags & libc::O_APPEND as u32 != 0 {
            self.wait_at_gate().await;
        }
        Ok(self.opened())
    }

    async fn create(&self, _: Call, _: op::Create) -> Result<CreateReply> {
        self.wait_at_gate().await;
        self.log.lock().unwrap().push("create");
        Ok(CreateReply {
            entry: self.entry(CREATED_NODE),
            opened: self.opened(),
        })
    }

    async fn read(&self, _: Call, op: op::Read) -> Result<ReplyData> {
        self.wait_at_gate().await;
        let bytes = self.bytes.lock().unwrap();
        let from = (op.offset as usize).min(bytes.len());
        let to = (from + op.size as usize).min(bytes.len());
        Ok(bytes[from..to].to_vec().into())
    }

    async fn write(&self, call: Call, op: op::Write) -> Result<u32> {
        let length = op.data.len();
        // Uses the bytes without a copy, as a client that sends them over the network does.
        let data = op.data.into_shared_bytes();
        if call.node == NodeId(2) {
            self.wait_at_gate().await;
            let mut bytes = self.bytes.lock().unwrap();
            bytes[op.offset as usize..][..length].copy_from_slice(&data);
            self.log.lock().unwrap().push("write");
        }
        Ok(length as u32)
    }

    async fn fsync(&self, _: Call, _: op::Fsync) -> Result<()> {
        self.wait_at_gate().await;
        self.log.lock().unwrap().push("fsync");
        Ok(())
    }

    async fn release(&self, call: Call, _: op::Release) -> Result<()> {
        if call.node != NodeId(3) {
            self.log.lock().unwrap().push("release");
        }
        self.released.fetch_add(1, SeqCst);
        Ok(())
    }

    async fn opendir(&self, _: Call, _: op::Open) -> Result<OpenReply> {
        Ok(OpenReply::default())
    }

    async fn releasedir(&self, _: Call, _: op::Release) -> Result<()> {
        Ok(())
    }

    async fn readdir(&self, _: Call, op: op::Readdir) -> Result<Dirents> {
        Ok(Dirents::new(&op))
    }

    async fn readdirplus(&self, _: Call, op: op::Readdir) -> Result<DirentsPlus> {
        let mut listing = DirentsPlus::new(&op);
        if op.offset > 0 {
            return Ok(listing);
        }
        self.wait_at_gate().await;
        for (at, name) in FILES.iter().enumerate() {
            let entry = self.entry(NodeId(at as u64 + 2));
            assert!(listing.push(&entry, at as u64 + 1, name.as_bytes()));
        }
        Ok(listing)
    }
}
