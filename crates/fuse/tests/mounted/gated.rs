//! A file system whose next requests wait until they are let through.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use gupfs_fuse::{
    Attr, Attributes, Call, Created, Data, Dirents, DirentsPlus, Entry, Errno, FileSystem, Handle,
    NodeId, Opened, OpenedFlags, Result, op,
};
use tokio::sync::Semaphore;

pub struct Gated {
    /// So many of the next requests wait.
    pub hold: AtomicUsize,
    /// Lets them through.
    pub gate: Semaphore,
    pub bytes: Mutex<Vec<u8>>,
    /// What was done with anything but `other`, in order.
    pub log: Mutex<Vec<&'static str>>,
    pub given: AtomicUsize,
    pub forgotten: AtomicUsize,
    pub opened: AtomicUsize,
    pub released: AtomicUsize,
}

const FILES: [&str; 2] = ["file", "other"];
const MADE: NodeId = NodeId(9);

impl Gated {
    pub fn new() -> Gated {
        Gated {
            hold: AtomicUsize::new(0),
            gate: Semaphore::new(0),
            bytes: Mutex::new(vec![b'-'; 1 << 20]),
            log: Mutex::default(),
            given: AtomicUsize::new(0),
            forgotten: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
            released: AtomicUsize::new(0),
        }
    }

    async fn pass(&self) {
        let held = self
            .hold
            .fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        if held.is_ok() {
            self.gate.acquire().await.unwrap().forget();
        }
    }

    /// Nothing that was handed out is still with anybody, but for the references of a mount's life.
    pub fn is_even(&self) -> bool {
        self.opened.load(SeqCst) == self.released.load(SeqCst)
    }

    fn attr(node: NodeId) -> Attr {
        Attr {
            ino: node.0,
            mode: if node == NodeId::ROOT {
                0o040777
            } else {
                0o100666
            },
            nlink: 1,
            size: 1 << 20,
            ..Attr::default()
        }
    }

    /// The kernel keeps nothing.
    fn entry(&self, node: NodeId) -> Entry {
        self.given.fetch_add(1, SeqCst);
        Entry {
            node,
            generation: 0,
            name_ttl: Duration::ZERO,
            attr: Gated::attr(node),
            attr_ttl: Duration::ZERO,
        }
    }

    fn opened(&self) -> Opened {
        self.opened.fetch_add(1, SeqCst);
        Opened {
            fh: Handle(7),
            flags: OpenedFlags::DIRECT_IO
                | OpenedFlags::NOFLUSH
                | OpenedFlags::PARALLEL_DIRECT_WRITES,
        }
    }
}

impl FileSystem for Gated {
    async fn forget(&self, batch: Vec<op::Forget>) {
        let lookups: u64 = batch.iter().map(|forget| forget.lookups).sum();
        self.forgotten.fetch_add(lookups as usize, SeqCst);
    }

    async fn lookup(&self, _: Call, op: op::Lookup) -> Result<Entry> {
        let at = FILES.iter().position(|name| name.as_bytes() == &*op.name);
        if &*op.name == b"slow to find" {
            self.pass().await;
            return Ok(self.entry(NodeId(2)));
        }
        let at = at.ok_or(Errno::ENOENT)?;
        Ok(self.entry(NodeId(at as u64 + 2)))
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<Attributes> {
        Ok(Attributes {
            attr: Gated::attr(call.node),
            ttl: Duration::ZERO,
        })
    }

    async fn open(&self, _: Call, op: op::Open) -> Result<Opened> {
        // Only who asks for it waits in open(2).
        if op.flags & libc::O_APPEND as u32 != 0 {
            self.pass().await;
        }
        Ok(self.opened())
    }

    async fn create(&self, _: Call, _: op::Create) -> Result<Created> {
        self.pass().await;
        self.log.lock().unwrap().push("create");
        Ok(Created {
            entry: self.entry(MADE),
            opened: self.opened(),
        })
    }

    async fn read(&self, _: Call, op: op::Read) -> Result<Data> {
        self.pass().await;
        let bytes = self.bytes.lock().unwrap();
        let from = (op.offset as usize).min(bytes.len());
        let to = (from + op.size as usize).min(bytes.len());
        Ok(bytes[from..to].to_vec().into())
    }

    async fn write(&self, call: Call, op: op::Write) -> Result<u32> {
        let length = op.data.len();
        // As a client has it that sends them: no copy.
        let data = op.data.into_passing_bytes();
        if call.node == NodeId(2) {
            self.pass().await;
            let mut bytes = self.bytes.lock().unwrap();
            bytes[op.offset as usize..][..length].copy_from_slice(&data);
            self.log.lock().unwrap().push("write");
        }
        Ok(length as u32)
    }

    async fn fsync(&self, _: Call, _: op::Fsync) -> Result<()> {
        self.pass().await;
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

    async fn opendir(&self, _: Call, _: op::Open) -> Result<Opened> {
        Ok(Opened::default())
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
        self.pass().await;
        for (at, name) in FILES.iter().enumerate() {
            let entry = self.entry(NodeId(at as u64 + 2));
            assert!(listing.push(&entry, at as u64 + 1, name.as_bytes()));
        }
        Ok(listing)
    }
}
