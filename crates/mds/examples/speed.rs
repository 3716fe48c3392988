//! Measures operations on a warm server in a directory of its own: `cargo run --release -p gupfs-mds --example speed`.
#![allow(clippy::disallowed_methods)] // a measurement runs outside the simulated platform

use gupfs_mds::{Mds, MdsOptions};
use gupfs_platform::{Disk, Platform};
use gupfs_proto::meta::{
    AccessMode, CreateMode, MetaOp, MetaReplyBody, MetaRequest, OpenMode, SlotSeq,
};
use gupfs_proto::{
    Caller, ClusterId, Incarnation, InodeId, Name, OwnerEpoch, Seq, SessionId, Slot,
};
use gupfs_rpc::Peer;
use gupfs_store::index::{Index, OPEN_TABLES_MAX};
use gupfs_store::kv::{Kv, KvOptions};
use gupfs_store::log::{LogOptions, StoreId};
use std::sync::Arc;
use std::time::{Duration, Instant};

const FILES: u64 = 100_000;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let dir = tempfile::tempdir().expect("a directory for the store");
    let (cluster, incarnation) = (ClusterId(1), Incarnation(2));
    let index = Index::open_fjall(&dir.path().join("index"), OPEN_TABLES_MAX).expect("an index");
    let disk = Disk::real(dir.path()).expect("a disk");
    let kv_options = KvOptions::new(LogOptions::new(StoreId {
        cluster,
        incarnation,
    }));
    let kv = Kv::open(disk.clone(), index, kv_options, Platform::real())
        .await
        .expect("a store");
    let options = MdsOptions::new(kv, disk, Platform::real(), cluster, incarnation);
    let mds = Mds::start(options).await.expect("a server");
    let peer = Peer::local(mds.clone());
    let client = Arc::new(Client::open(peer).await);

    for tasks in [1, 4, 64] {
        let dirs = client.dirs(tasks).await;
        measure("create", tasks, &client, &dirs, |dir, i| MetaOp::Create {
            dir,
            name: name(i),
            create_mode: MAKE,
            exclusive: true,
            open: OPEN,
        })
        .await;
        measure("lookup", tasks, &client, &dirs, |dir, i| MetaOp::Lookup {
            dir,
            name: name(i),
        })
        .await;
        measure("unlink", tasks, &client, &dirs, |dir, i| MetaOp::Unlink {
            dir,
            name: name(i),
        })
        .await;
    }
    for op in mds.status().await.ops {
        println!(
            "{:12} {:8} mean {:?} median {:?} 99 % {:?}",
            op.op,
            op.done,
            op.latency.mean(),
            op.latency.quantile(0.5),
            op.latency.quantile(0.99)
        );
    }
    println!("{:?}", mds.status().await.store);
    mds.stop().await.expect("a clean stop");
}

const MAKE: CreateMode = CreateMode {
    mode: 0o644,
    umask: 0o022,
};
const OPEN: OpenMode = OpenMode {
    access: AccessMode::WRITE,
    truncate: false,
    kill_privileges: false,
};

fn name(i: u64) -> Name {
    Name::new(format!("file{i:06}").as_bytes()).expect("a name")
}

struct Client {
    peer: Peer<MetaRequest, gupfs_proto::meta::MetaReply>,
    session: SessionId,
    instance: OwnerEpoch,
    sequences: [std::sync::atomic::AtomicU64; 64],
}

impl Client {
    async fn open(peer: Peer<MetaRequest, gupfs_proto::meta::MetaReply>) -> Client {
        let op = MetaOp::OpenSession {
            client: "speed".into(),
        };
        let mut client = Client {
            peer,
            session: SessionId(0),
            instance: OwnerEpoch(0),
            sequences: std::array::from_fn(|_| 0.into()),
        };
        match client.ask(0, op).await {
            MetaReplyBody::Session {
                session, instance, ..
            } => {
                (client.session, client.instance) = (session, instance);
            }
            other => panic!("{other:?}"),
        }
        client
    }

    async fn ask(&self, slot: u16, op: MetaOp) -> MetaReplyBody {
        let next = &self.sequences[usize::from(slot)];
        let sequence = 1 + next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let request = MetaRequest {
            session: self.session,
            slot_seq: op.changes().then_some(SlotSeq {
                slot: Slot(slot),
                sequence,
            }),
            caller: Caller::root(),
            job: gupfs_proto::JobId(0),
            instance: self.instance,
            last_seen: Seq(0),
            op,
        };
        let reply = self.peer.call(request).await;
        reply.result.expect("no error")
    }

    async fn dirs(&self, count: u64) -> Vec<InodeId> {
        let mut dirs = Vec::new();
        for i in 0..count {
            let op = MetaOp::Mkdir {
                dir: InodeId::ROOT,
                name: Name::new(format!("dir{count}-{i}").as_bytes()).expect("a name"),
                create_mode: MAKE,
            };
            match self.ask(0, op).await {
                MetaReplyBody::Entry(attr) => dirs.push(attr.ino),
                other => panic!("{other:?}"),
            }
        }
        dirs
    }
}

async fn measure(
    what: &str,
    tasks: u64,
    client: &Arc<Client>,
    dirs: &[InodeId],
    op: impl Fn(InodeId, u64) -> MetaOp + Clone + Send + 'static,
) {
    let (begun, cpu) = (Instant::now(), cpu_time());
    let mut running = Vec::new();
    for (slot, dir) in dirs.iter().enumerate() {
        let (client, op, dir) = (client.clone(), op.clone(), *dir);
        running.push(tokio::spawn(async move {
            for i in 0..FILES / tasks {
                client.ask(slot as u16, op(dir, i)).await;
            }
        }));
    }
    for task in running {
        task.await.expect("a task that ended");
    }
    let each = begun.elapsed() / FILES as u32;
    let cpu = (cpu_time() - cpu) / FILES as u32;
    println!(
        "{what:8} {tasks:3} tasks: {each:?} an operation, {cpu:?} of processor, the index's included"
    );
}

/// Processor time of this process, in steps of 10 ms: the load of other processes does not show in it.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("proc is mounted");
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .expect("a stat line")
        .split_whitespace()
        .collect();
    let ticks = |field: usize| fields[field].parse::<u64>().expect("a number");
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}
