//! A file system whose files misbehave, each in a different way.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use gupfs_fuse::{
    AttrReply, Call, CreateReply, EntryReply, Errno, FileHandle, FileSystem, InodeAttr, IoctlReply,
    NodeId, Notifier, OpenReply, OpenReplyFlags, PollFlags, ReplyData, Result, XattrReply, op,
};
use std::sync::{Arc, Mutex};

/// Size of every file unless a test changes it.
pub const SIZE: u64 = 100_000;

pub struct FaultyFs {
    pub size: AtomicU64,
    pub looked_up: AtomicUsize,
    pub interrupts: AtomicUsize,
    pub unmounted: AtomicUsize,
    pub retrieved: Mutex<Vec<(u64, u64, Vec<u8>)>>,
    pub groups: Mutex<Vec<Vec<u32>>>,
    /// Offset and size of each READ of an ordinary file.
    pub reads: Mutex<Vec<(u64, u32)>>,
    pub notifier: Mutex<Option<Notifier>>,
    pub ready: AtomicBool,
    pub polls: Mutex<Vec<u64>>,
    /// Releases creates of `stuck`.
    pub gate: tokio::sync::Notify,
    kept: Mutex<Vec<(u8, Bytes)>>,
    /// Number of payloads that another thread has.
    pub payloads_passed_on: Arc<AtomicUsize>,
}

impl FaultyFs {
    pub fn new() -> FaultyFs {
        FaultyFs {
            size: AtomicU64::new(SIZE),
            looked_up: AtomicUsize::new(0),
            interrupts: AtomicUsize::new(0),
            unmounted: AtomicUsize::new(0),
            retrieved: Mutex::default(),
            groups: Mutex::default(),
            reads: Mutex::default(),
            notifier: Mutex::default(),
            ready: AtomicBool::new(false),
            polls: Mutex::default(),
            gate: tokio::sync::Notify::new(),
            kept: Mutex::default(),
            payloads_passed_on: Arc::default(),
        }
    }

    pub fn node(name: &str) -> NodeId {
        let at = NAMES.iter().position(|known| *known == name).unwrap();
        NodeId(at as u64 + 2)
    }

    fn name(node: NodeId) -> &'static str {
        NAMES[node.0 as usize - 2]
    }

    fn attr(&self, node: NodeId) -> InodeAttr {
        let mode = if node == NodeId::ROOT {
            0o040777
        } else {
            0o100666
        };
        InodeAttr {
            ino: node.0,
            mode,
            nlink: 1,
            size: self.size.load(Ordering::Relaxed),
            ..InodeAttr::default()
        }
    }

    fn entry(&self, node: NodeId) -> EntryReply {
        let ttl = Duration::from_secs(3600);
        EntryReply {
            node,
            generation: 0,
            name_ttl: ttl,
            attr: self.attr(node),
            attr_ttl: ttl,
        }
    }
}

const NAMES: &[&str] = &[
    "plain",
    "cached",
    "panics",
    "panics later",
    "in an hour",
    "never answers",
    "slow",
    "longer than asked",
    "error",
    "pieces",
    "scratch",
    "waits for a signal",
    "keeps what is written",
    "passes on what is written",
    "notifies",
    "stuck",
];

impl FileSystem for FaultyFs {
    fn unmounted(&self) {
        self.unmounted.fetch_add(1, Ordering::Relaxed);
    }

    async fn lookup(&self, call: Call, op: op::Lookup) -> Result<EntryReply> {
        self.looked_up.fetch_add(1, Ordering::Relaxed);
        let known = NAMES
            .iter()
            .any(|name| name.as_bytes() == op.name.as_bytes());
        if call.node != NodeId::ROOT || !known || &*op.name == b"stuck" {
            return Err(Errno::ENOENT);
        }
        Ok(self.entry(FaultyFs::node(op.name.as_os_str().to_str().unwrap())))
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<AttrReply> {
        Ok(AttrReply {
            attr: self.attr(call.node),
            ttl: Duration::from_secs(3600),
        })
    }

    async fn open(&self, call: Call, _: op::Open) -> Result<OpenReply> {
        let flags = match FaultyFs::name(call.node) {
            "cached" => OpenReplyFlags::KEEP_CACHE,
            "slow" => OpenReplyFlags::DIRECT_IO | OpenReplyFlags::PARALLEL_DIRECT_WRITES,
            _ => OpenReplyFlags::DIRECT_IO,
        };
        Ok(OpenReply {
            fh: FileHandle(1),
            flags,
        })
    }

    async fn create(&self, call: Call, op: op::Create) -> Result<CreateReply> {
        self.groups.lock().unwrap().push(call.groups.clone());
        if &*op.name == b"stuck" {
            self.gate.notified().await;
        }
        let flags = OpenReplyFlags::DIRECT_IO;
        Ok(CreateReply {
            entry: self.entry(FaultyFs::node("stuck")),
            opened: OpenReply {
                fh: FileHandle(1),
                flags,
            },
        })
    }

    async fn read(&self, call: Call, op: op::Read) -> Result<ReplyData> {
        match FaultyFs::name(call.node) {
            "panics" => panic!("on purpose, at once"),
            "panics later" => {
                tokio::task::yield_now().await;
                panic!("on purpose, in a task");
            }
            "in an hour" => {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                Ok(vec![b'h'; op.size as usize].into())
            }
            "never answers" => std::future::pending().await,
            "slow" => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Ok(vec![b's'; op.size as usize].into())
            }
            "longer than asked" => Ok(vec![b'l'; op.size as usize + 1].into()),
            "notifies" => {
                let notifier = self.notifier.lock().unwrap().clone().unwrap();
                // This notification waits for no lock, so it is allowed on a worker thread.
                notifier.inc_epoch().unwrap();
                notifier.inval_entry(NodeId::ROOT, b"plain").unwrap();
                Ok(ReplyData::default())
            }
            "error" => Err(Errno::EDQUOT),
            "pieces" => Ok((0..op.size)
                .map(|n| Bytes::from(vec![(n % 200) as u8]))
                .collect::<Vec<_>>()
                .into()),
            "scratch" => {
                let mut scratch = call.scratch(op.size as usize);
                scratch.fill(b'c');
                scratch.truncate(op.size as usize / 2);
                Ok(scratch.into())
            }
            "waits for a signal" => {
                call.interrupted().await;
                assert!(call.is_interrupted());
                self.interrupts.fetch_add(1, Ordering::Relaxed);
                Err(Errno::EINTR)
            }
            _ => {
                self.reads.lock().unwrap().push((op.offset, op.size));
                Ok(vec![b'.'; op.size as usize].into())
            }
        }
    }

    async fn write(&self, call: Call, op: op::Write) -> Result<u32> {
        assert_eq!(
            op.data.as_ptr().align_offset(4096),
            0,
            "a payload begins on a page"
        );
        let taken = op.data.len() as u32;
        if FaultyFs::name(call.node) == "slow" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        if FaultyFs::name(call.node) == "keeps what is written" {
            let mut kept = self.kept.lock().unwrap();
            // All payloads that were kept so far must be unchanged.
            assert!(
                kept.iter()
                    .all(|(value, data)| data.iter().all(|byte| byte == value))
            );
            kept.push((op.data[0], op.data.into_bytes()));
        } else if FaultyFs::name(call.node) == "passes on what is written" && taken > 512 << 10 {
            let (payloads_passed_on, bytes) =
                (self.payloads_passed_on.clone(), op.data.into_shared_bytes());
            payloads_passed_on.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                let unchanged = bytes.iter().all(|byte| *byte == 7);
                payloads_passed_on.fetch_sub(usize::from(unchanged), Ordering::Relaxed);
            });
        }
        Ok(taken)
    }

    async fn getxattr(&self, _: Call, op: op::Getxattr) -> Result<XattrReply> {
        match op.name.as_bytes() {
            b"user.long" => Ok(XattrReply::Value(vec![1; op.size as usize + 100])),
            _ => Err(Errno::ENODATA),
        }
    }

    async fn ioctl(&self, _: Call, op: op::Ioctl) -> Result<IoctlReply> {
        let mut data = op.data;
        data.reverse();
        assert_eq!(data.len(), op.out_size as usize);
        Ok(IoctlReply { result: 42, data })
    }

    async fn poll(&self, _: Call, op: op::Poll) -> Result<u32> {
        if op.flags.contains(PollFlags::SCHEDULE_NOTIFY) {
            self.polls.lock().unwrap().push(op.kh);
        }
        let ready = self.ready.load(Ordering::Relaxed);
        Ok(if ready {
            op.events & libc::POLLIN as u32
        } else {
            0
        })
    }

    async fn retrieved(&self, call: Call, op: op::Retrieved) {
        self.retrieved
            .lock()
            .unwrap()
            .push((call.unique.0, op.offset, op.data.to_vec()));
    }
}
