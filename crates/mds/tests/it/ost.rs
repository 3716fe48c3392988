//! An object server of the tests: a map of objects with their sizes, that can be down or slow.

use crate::house::CLUSTER;
use gupfs_mds::targets::{Admin, OstPeer, Target, Told};
use gupfs_proto::cluster::{Holdings, OwnerMark, TargetIdentity};
use gupfs_proto::data::{Answer, ObjectStat, Op, Reply, Request, Space};
use gupfs_proto::{
    Incarnation, ObjectId, OstId, OstLife, OwnerEpoch, Refusal, Timestamp, VirtualShard,
};
use gupfs_rpc::{Peer, Service};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub struct FakeOst(Arc<Inner>);

struct Inner {
    ost: OstId,
    state: Mutex<State>,
}

struct State {
    objects: BTreeMap<ObjectId, ObjectStat>,
    set_aside: Vec<ObjectId>,
    info: TargetIdentity,
    down: bool,
    /// Never answers, but for its space.
    stuck: bool,
    /// How long an answer, true when it is asked for, is on its way; not of space.
    slow: Duration,
    space: Space,
    /// Names of what was asked, with the object.
    asked: Vec<String>,
}

impl FakeOst {
    pub fn new(ost: u16) -> FakeOst {
        FakeOst(Arc::new(Inner {
            ost: OstId(ost),
            state: Mutex::new(State {
                objects: BTreeMap::new(),
                set_aside: Vec::new(),
                info: TargetIdentity {
                    cluster: CLUSTER,
                    incarnation: Incarnation(0x100 + u64::from(ost)),
                    stamp: 10,
                    run: 1,
                    opening: 1,
                    stopped: false,
                    owner: OwnerMark::default(),
                },
                down: false,
                stuck: false,
                slow: Duration::ZERO,
                space: Space {
                    volume: 0,
                    total: 1 << 40,
                    free: 1 << 39,
                    available: 1 << 39,
                    objects: 0,
                },
                asked: Vec::new(),
            }),
        }))
    }

    pub fn peer(&self) -> OstPeer {
        Peer::local(self.0.clone())
    }

    /// As it is handed to a start: opened anew.
    pub fn target(&self) -> Target {
        let mut state = self.0.state.lock();
        state.info.opening += 1_000;
        Target {
            ost: self.0.ost,
            peer: self.peer(),
            admin: Ok(self.admin()),
        }
    }

    pub fn admin(&self) -> Arc<dyn Admin> {
        self.0.clone()
    }

    /// What its superblock says, and who opened it.
    pub fn info(&self) -> TargetIdentity {
        self.0.state.lock().info
    }

    pub fn set_info(&self, info: TargetIdentity) {
        self.0.state.lock().info = info;
    }

    /// All that lies there, as a copy of its directory has it.
    pub fn copy(&self) -> (TargetIdentity, BTreeMap<ObjectId, ObjectStat>) {
        let state = self.0.state.lock();
        (state.info, state.objects.clone())
    }

    pub fn restore(&self, copy: (TargetIdentity, BTreeMap<ObjectId, ObjectStat>)) {
        let mut state = self.0.state.lock();
        (state.info, state.objects) = copy;
    }

    pub fn was_set_aside(&self) -> Vec<ObjectId> {
        self.0.state.lock().set_aside.clone()
    }

    /// As a client writes it: the object exists, and ends at `size` or behind.
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

    /// As a power cut takes it.
    pub fn lose(&self, object: ObjectId) {
        self.0.state.lock().objects.remove(&object);
    }

    pub fn set_down(&self, down: bool) {
        self.0.state.lock().down = down;
    }

    pub fn set_slow(&self, slow: Duration) {
        self.0.state.lock().slow = slow;
    }

    pub fn set_stuck(&self, stuck: bool) {
        self.0.state.lock().stuck = stuck;
    }

    pub fn set_available(&self, available: u64) {
        self.0.state.lock().space.available = available;
    }

    /// What was asked since the last call, but for space.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.state.lock().asked)
    }
}

impl Admin for Inner {
    fn identity(&self) -> TargetIdentity {
        self.state.lock().info
    }

    fn adopt(&self, owner: OwnerMark) -> Told<'_, ()> {
        let info = &mut self.state.lock().info;
        if !info.is_adopted() {
            (info.stamp, info.run) = (info.stamp + 1, info.opening);
        }
        info.owner = owner;
        Box::pin(std::future::ready(Ok(())))
    }

    fn holdings(&self, since: OwnerEpoch) -> Told<'_, Holdings> {
        let state = self.state.lock();
        let mut held = Holdings {
            since,
            ..Holdings::default()
        };
        let mut numbers: BTreeMap<VirtualShard, u64> = BTreeMap::new();
        for (object, stat) in &state.objects {
            let above = numbers.entry(object.ino.shard()).or_default();
            *above = (*above).max(object.ino.counter() + 1);
            if object.generation.window() > since {
                held.newer += 1;
                held.newest = held.newest.max(Some(stat.mtime));
            }
        }
        held.numbers = numbers.into_iter().collect();
        Box::pin(std::future::ready(Ok(held)))
    }
}

impl Service<Request, Reply> for Inner {
    async fn answer(self: Arc<Self>, request: Request) -> Reply {
        tokio::task::yield_now().await;
        assert_eq!(request.ost, self.ost);
        if matches!(request.op, Op::Space) {
            return self.now(request.op);
        }
        if self.state.lock().stuck {
            std::future::pending::<()>().await;
        }
        let reply = self.now(request.op);
        let slow = self.state.lock().slow;
        tokio::time::sleep(slow).await;
        reply
    }
}

impl Inner {
    fn now(&self, op: Op) -> Reply {
        let mut state = self.state.lock();
        if state.down {
            return Err(Refusal::TargetDown {
                ost: self.ost,
                why: "the test took it away".into(),
            });
        }
        let State {
            objects,
            asked,
            set_aside,
            ..
        } = &mut *state;
        match op {
            Op::Stat { object } => {
                asked.push(format!("stat {object}"));
                Ok(Answer::Stat(objects.get(&object).copied()))
            }
            Op::List { after, limit } => {
                asked.push("list".into());
                let later = objects
                    .iter()
                    .filter(|(object, _)| after.is_none_or(|after| **object > after));
                let some = later.take(limit as usize);
                Ok(Answer::Objects(
                    some.map(|(object, stat)| (*object, *stat)).collect(),
                ))
            }
            Op::Remove { object } => {
                asked.push(format!("remove {object}"));
                objects.remove(&object);
                Ok(Answer::DoneIn(OstLife(1)))
            }
            Op::SetAside { object } => {
                asked.push(format!("set aside {object}"));
                if objects.remove(&object).is_some() {
                    set_aside.push(object);
                }
                Ok(Answer::DoneIn(OstLife(1)))
            }
            Op::Cut { object, to } => {
                asked.push(format!("cut {object} to {to}"));
                let stat = objects.get_mut(&object).map(|stat| {
                    stat.size = stat.size.min(to);
                    stat.blocks = stat.size.div_ceil(512);
                    *stat
                });
                Ok(Answer::Written(stat.unwrap_or_default(), OstLife(1)))
            }
            Op::Sync { objects } => {
                let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
                asked.push(format!("sync {}", names.join(" ")));
                Ok(Answer::DoneIn(OstLife(1)))
            }
            Op::Confirm { objects: asked_for } => {
                let names: Vec<String> = asked_for.iter().map(ToString::to_string).collect();
                asked.push(format!("confirm {}", names.join(" ")));
                let there = asked_for.iter().map(|object| objects.contains_key(object));
                Ok(Answer::There(there.collect()))
            }
            Op::Space => Ok(Answer::Space(state.space)),
            other => Err(Refusal::Malformed(format!(
                "the tests' OST does not know {}",
                other.name()
            ))),
        }
    }
}
