//! The tests' object server: a map of objects with their sizes, which can be down or slow.

use crate::fixture::CLUSTER;
use bytes::Bytes;
use gupfs_mds::osts::{AdminFuture, OstPeer, TargetAdmin, TargetHandle};
use gupfs_proto::cluster::{ObjectInventory, OwnerMark, TargetIdentity};
use gupfs_proto::data::{
    BlockChecksums, DataOp, DataReply, DataReplyBody, DataRequest, ObjectStat, SeekWhence,
    TargetCapacity,
};
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::{
    FsError, Incarnation, ObjectId, ObjectOffset, OstId, OwnerEpoch, Timestamp, VirtualShard,
    WriteVerifier,
};
use gupfs_rpc::{Peer, Service};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub struct FakeOst(Arc<Inner>);

struct Inner {
    ost: OstId,
    state: Mutex<OstContents>,
}

struct OstContents {
    objects: BTreeMap<ObjectId, ObjectStat>,
    quarantined: Vec<ObjectId>,
    info: TargetIdentity,
    down: bool,
    /// Never replies, except for its space.
    stuck: bool,
    /// How long a reply, which is true when the request arrives, is on its way; not for space.
    slow: Duration,
    /// Each reply about the size of an object is followed by a write that makes the object longer.
    growing: bool,
    /// Damage of these at the ends to which they are truncated.
    damaged: BTreeSet<ObjectId>,
    space: TargetCapacity,
    /// What its objects occupy is not free.
    counts_objects: bool,
    /// Names of the requests, with their objects.
    requests: Vec<String>,
}

impl FakeOst {
    pub fn new(ost: u16) -> FakeOst {
        FakeOst(Arc::new(Inner {
            ost: OstId(ost),
            state: Mutex::new(OstContents {
                objects: BTreeMap::new(),
                quarantined: Vec::new(),
                info: TargetIdentity {
                    cluster: CLUSTER,
                    incarnation: Incarnation(0x100 + u64::from(ost)),
                    stamp: 10,
                    run: 1,
                    open_instance: 1,
                    stopped: false,
                    owner: OwnerMark::default(),
                },
                down: false,
                stuck: false,
                slow: Duration::ZERO,
                growing: false,
                damaged: BTreeSet::new(),
                space: TargetCapacity {
                    volume: 0,
                    total: 1 << 40,
                    free: 1 << 39,
                    available: 1 << 39,
                    objects: 0,
                },
                counts_objects: false,
                requests: Vec::new(),
            }),
        }))
    }

    pub fn peer(&self) -> OstPeer {
        Peer::local(self.0.clone())
    }

    /// The target as a start gets it: opened anew.
    pub fn target(&self) -> TargetHandle {
        let mut state = self.0.state.lock();
        state.info.open_instance += 1_000;
        TargetHandle {
            ost: self.0.ost,
            peer: self.peer(),
            admin: Ok(self.admin()),
        }
    }

    pub fn admin(&self) -> Arc<dyn TargetAdmin> {
        self.0.clone()
    }

    /// The contents of its superblock, and its open instance.
    pub fn info(&self) -> TargetIdentity {
        self.0.state.lock().info
    }

    pub fn set_info(&self, info: TargetIdentity) {
        self.0.state.lock().info = info;
    }

    /// All its contents, as a copy of its directory has them.
    pub fn copy(&self) -> (TargetIdentity, BTreeMap<ObjectId, ObjectStat>) {
        let state = self.0.state.lock();
        (state.info, state.objects.clone())
    }

    pub fn restore(&self, copy: (TargetIdentity, BTreeMap<ObjectId, ObjectStat>)) {
        let mut state = self.0.state.lock();
        (state.info, state.objects) = copy;
    }

    pub fn quarantined(&self) -> Vec<ObjectId> {
        self.0.state.lock().quarantined.clone()
    }

    /// Writes as a client does: the object exists, and is at least `size` long.
    pub fn put(&self, object: ObjectId, size: u64, mtime: Timestamp) {
        let mut state = self.0.state.lock();
        let stat = state.objects.entry(object).or_default();
        stat.size = stat.size.max(size);
        stat.blocks = stat.size.div_ceil(512);
        stat.mtime = mtime;
    }

    pub fn size(&self, object: ObjectId) -> Option<u64> {
        self.0.state.lock().objects.get(&object).map(|o| o.size)
    }

    pub fn list(&self) -> Vec<ObjectId> {
        self.0.state.lock().objects.keys().copied().collect()
    }

    /// Removes an object as a power loss does.
    pub fn lose_object(&self, object: ObjectId) {
        self.0.state.lock().objects.remove(&object);
    }

    pub fn set_down(&self, down: bool) {
        self.0.state.lock().down = down;
    }

    pub fn set_slow(&self, slow: Duration) {
        self.0.state.lock().slow = slow;
    }

    /// A bit of the object rots.
    pub fn damage(&self, object: ObjectId) {
        self.0.state.lock().damaged.insert(object);
    }

    pub fn set_growing(&self, growing: bool) {
        self.0.state.lock().growing = growing;
    }

    pub fn set_stuck(&self, stuck: bool) {
        self.0.state.lock().stuck = stuck;
    }

    pub fn set_available(&self, available: u64) {
        self.0.state.lock().space.available = available;
    }

    /// It is alone on a volume of this size.
    pub fn set_volume(&self, volume: u64, total: u64) {
        let mut state = self.0.state.lock();
        state.counts_objects = true;
        state.space = TargetCapacity {
            volume,
            total,
            ..TargetCapacity::default()
        };
    }

    /// What its objects occupy.
    pub fn used(&self) -> u64 {
        self.0.state.lock().used()
    }

    /// The requests since the last call, except for space.
    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.0.state.lock().requests)
    }
}

impl OstContents {
    fn used(&self) -> u64 {
        self.objects.values().map(|stat| stat.blocks * 512).sum()
    }
}

impl TargetAdmin for Inner {
    fn identity(&self) -> TargetIdentity {
        self.state.lock().info
    }

    fn adopt(&self, owner: OwnerMark) -> AdminFuture<'_, ()> {
        let info = &mut self.state.lock().info;
        if !info.is_adopted() {
            (info.stamp, info.run) = (info.stamp + 1, info.open_instance);
        }
        info.owner = owner;
        Box::pin(std::future::ready(Ok(())))
    }

    fn holdings(&self, since: OwnerEpoch) -> AdminFuture<'_, ObjectInventory> {
        let state = self.state.lock();
        let mut held = ObjectInventory {
            since,
            ..ObjectInventory::default()
        };
        let mut numbers: BTreeMap<VirtualShard, u64> = BTreeMap::new();
        for (object, stat) in &state.objects {
            let above = numbers.entry(object.ino.shard()).or_default();
            *above = (*above).max(object.ino.counter() + 1);
            if object.generation.window() > since.counter() {
                held.newer_objects += 1;
                held.newest = held.newest.max(Some(stat.mtime));
            }
        }
        held.inode_counters = numbers.into_iter().collect();
        Box::pin(std::future::ready(Ok(held)))
    }
}

impl Service<DataRequest, DataReply> for Inner {
    async fn handle(self: Arc<Self>, request: DataRequest) -> DataReply {
        tokio::task::yield_now().await;
        assert_eq!(request.ost, self.ost);
        if matches!(request.op, DataOp::Space) {
            return self.execute(request.op);
        }
        if self.state.lock().stuck {
            std::future::pending::<()>().await;
        }
        let reply = self.execute(request.op);
        let slow = self.state.lock().slow;
        tokio::time::sleep(slow).await;
        reply
    }
}

impl Inner {
    fn execute(&self, op: DataOp) -> DataReply {
        let mut state = self.state.lock();
        if state.down {
            return Err(FsError::TargetDown {
                ost: self.ost,
                reason: "the test took it away".into(),
            });
        }
        let OstContents {
            objects,
            requests,
            quarantined,
            growing,
            damaged,
            ..
        } = &mut *state;
        match op {
            DataOp::Stat { object } => {
                requests.push(format!("stat {object}"));
                let found = objects.get(&object).copied();
                if let (true, Some(stat)) = (*growing, objects.get_mut(&object)) {
                    stat.size += 1;
                }
                Ok(DataReplyBody::Stat(found))
            }
            DataOp::Seek { object, at, whence } => {
                let end = objects.get(&object).map_or(0, |stat| stat.size);
                let found = match whence {
                    SeekWhence::Data => at,
                    SeekWhence::Hole => ObjectOffset(end),
                };
                Ok(DataReplyBody::Position((end > at.0).then_some(found)))
            }
            DataOp::Zero { object, .. } => {
                let stat = objects.entry(object).or_default();
                Ok(DataReplyBody::Written(*stat, WriteVerifier(1)))
            }
            // All bytes are zeros.
            DataOp::Read { object, .. } => {
                requests.push(format!("read {object}"));
                Ok(DataReplyBody::Data {
                    data: Bytes::new(),
                    checksums: BlockChecksums::default(),
                })
            }
            DataOp::Write {
                object, at, data, ..
            } => {
                let stat = objects.entry(object).or_default();
                stat.size = stat.size.max(at.0 + data.len() as u64);
                Ok(DataReplyBody::Written(*stat, WriteVerifier(1)))
            }
            DataOp::Allocate { object, len, .. } => {
                let stat = objects.entry(object).or_default();
                stat.blocks = stat.blocks.max(len.div_ceil(512));
                Ok(DataReplyBody::Written(*stat, WriteVerifier(1)))
            }
            DataOp::FenceObject { .. } => Ok(DataReplyBody::Done),
            DataOp::List { after, limit } => {
                requests.push("list".into());
                let later = objects
                    .iter()
                    .filter(|(object, _)| after.is_none_or(|after| **object > after));
                let some = later.take(limit as usize);
                Ok(DataReplyBody::Objects(
                    some.map(|(object, stat)| (*object, *stat)).collect(),
                ))
            }
            DataOp::Remove { object } => {
                requests.push(format!("remove {object}"));
                objects.remove(&object);
                damaged.remove(&object);
                Ok(DataReplyBody::DoneWithVerifier(WriteVerifier(1)))
            }
            DataOp::Quarantine { object } => {
                requests.push(format!("quarantine {object}"));
                if objects.remove(&object).is_some() {
                    quarantined.push(object);
                }
                Ok(DataReplyBody::DoneWithVerifier(WriteVerifier(1)))
            }
            DataOp::Truncate { object, to } => {
                requests.push(format!("truncate {object} to {to}"));
                if damaged.contains(&object) {
                    return Err(FsError::ObjectDamaged {
                        ost: self.ost,
                        object,
                        damage: ObjectDamage::Checksum,
                    });
                }
                let stat = objects.get_mut(&object).map(|stat| {
                    stat.size = stat.size.min(to);
                    stat.blocks = stat.size.div_ceil(512);
                    *stat
                });
                Ok(DataReplyBody::Written(
                    stat.unwrap_or_default(),
                    WriteVerifier(1),
                ))
            }
            DataOp::Sync { objects } => {
                let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
                requests.push(format!("sync {}", names.join(" ")));
                Ok(DataReplyBody::DoneWithVerifier(WriteVerifier(1)))
            }
            DataOp::Confirm { objects: asked_for } => {
                let names: Vec<String> = asked_for.iter().map(ToString::to_string).collect();
                requests.push(format!("confirm {}", names.join(" ")));
                let there = asked_for.iter().map(|object| objects.contains_key(object));
                Ok(DataReplyBody::Confirmed(there.collect()))
            }
            DataOp::Fence { session } => {
                requests.push(format!("fence {session}"));
                Ok(DataReplyBody::Done)
            }
            DataOp::Space if state.counts_objects => {
                let free = state.space.total - state.used();
                let space = TargetCapacity {
                    free,
                    available: free,
                    ..state.space
                };
                Ok(DataReplyBody::Space(space))
            }
            DataOp::Space => Ok(DataReplyBody::Space(state.space)),
            other => Err(FsError::Malformed(format!(
                "the tests' OST does not know {}",
                other.name()
            ))),
        }
    }
}
