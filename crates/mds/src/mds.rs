//! `Mds`: one metadata server, from its start to its stop.

use crate::chores;
use crate::core::{Core, Parts};
use crate::error::StartError;
use crate::holders::Back;
use crate::limits::{STOP_CONFIRMS, STOP_WAIT};
use crate::permits::Permits;
use crate::records::to_store;
use crate::recover::RecoveryReport;
use crate::targets::{Dial, Target, TargetInfo, Targets};
use crate::waits::Who;
use bytes::Bytes;
use gupfs_names::{Format, Key, KeyRange, Kind, KnownTarget, Parsed, Record};
use gupfs_proto::cluster::Seals;
use gupfs_proto::limits::VIRTUAL_SHARDS_DEFAULT;
use gupfs_proto::{
    ClusterId, Incarnation, OstId, OwnerEpoch, Refusal, Seq, SessionId, VirtualShard, VirtualShards,
};
use gupfs_rpc::ClusterKey;
use gupfs_store::kv::{Kv, KvError, KvRecovery};
use gupfs_store::log::Stop;
use gupfs_world::{Disk, Task, World};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// What a server is started with.
pub struct Options {
    /// Open, and of nobody else; and what opening it found.
    pub kv: Kv,
    pub found: KvRecovery,
    /// Where the store lies; asked for its free space.
    pub disk: Disk,
    pub world: World,
    pub cluster: ClusterId,
    /// What an empty store is made: its incarnation, and how many virtual shards it has.
    pub incarnation: Incarnation,
    pub shards: VirtualShards,
    pub targets: Vec<Target>,
    /// How servers of targets elsewhere are reached; None when there are none.
    pub dial: Option<Arc<dyn Dial>>,
    /// The cluster's key: half of what capabilities are sealed with, where there are servers elsewhere.
    pub key: Option<ClusterKey>,
    /// Believe targets that are not who they were: the operator knows that what they lack is lost.
    pub accept_loss: bool,
    /// Clients outlive this server: their sessions are still theirs after a start, if they say so in time. Else every start
    /// ends them all.
    pub keep_sessions: bool,
}

impl Options {
    pub fn new(
        (kv, found): (Kv, KvRecovery),
        disk: Disk,
        world: World,
        cluster: ClusterId,
        incarnation: Incarnation,
    ) -> Options {
        Options {
            kv,
            found,
            disk,
            world,
            cluster,
            incarnation,
            shards: VirtualShards(VIRTUAL_SHARDS_DEFAULT),
            targets: Vec::new(),
            dial: None,
            key: None,
            accept_loss: false,
            keep_sessions: false,
        }
    }
}

/// One metadata server. Dropped without `stop` it ends as if it had been killed.
pub struct Mds {
    pub(crate) core: Arc<Core>,
    pub(crate) recovery: RecoveryReport,
    chores: Mutex<Vec<Task<()>>>,
}

impl Drop for Mds {
    fn drop(&mut self) {
        for chore in self.chores.lock().iter() {
            chore.stop();
        }
    }
}

impl Mds {
    /// Formats an empty store, hears the targets, settles what dead sessions left, and serves.
    pub async fn start(options: Options) -> Result<Arc<Mds>, StartError> {
        let Options { disk, world, .. } = options;
        let kv = Arc::new(options.kv);
        let mut formatted = false;
        let format = match read_format(&kv)? {
            Some(format) => format,
            None => {
                formatted = true;
                write_format(
                    &kv,
                    &world,
                    options.cluster,
                    options.incarnation,
                    options.shards,
                )
                .await?
            }
        };
        if let Some(why) = format.refusal() {
            return Err(StartError::Format(why));
        }
        if format.cluster != options.cluster {
            return Err(StartError::Foreign {
                found: format.cluster.to_string(),
                wanted: options.cluster.to_string(),
            });
        }
        let remembered = remembered_targets(&kv)?;
        let peers = options
            .targets
            .iter()
            .map(|target| (target.ost, target.peer.clone()));
        let elsewhere = options.dial.is_some();
        let mut targets = Targets::new(
            options.cluster,
            world.clock.clone(),
            options.accept_loss,
            options.dial,
            peers.collect(),
            remembered,
        );
        targets.begin_epochs(options.found.log.epoch);
        if elsewhere {
            let epoch = options.found.log.epoch;
            targets.ask_by(Permits::new(&world, epoch, options.key));
        }
        let core = Arc::new(Core::new(Parts {
            world,
            kv,
            disk,
            shards: format.shards,
            owner_epoch: options.found.log.epoch,
            targets,
            keeps_sessions: options.keep_sessions,
        }));
        for target in options.targets {
            if let Err(refusal) = core.hear(target.ost, target.told).await {
                tracing::warn!(%refusal, "a target is not used");
            }
        }
        core.look_at_space().await;
        let recovery = core
            .recover(options.keep_sessions, options.found.log.stopped)
            .await
            .map_err(StartError::Recovery)?;
        let recovery = RecoveryReport {
            formatted,
            replayed: options.found.replayed,
            log_was_torn: options.found.log.torn.is_some(),
            ..recovery
        };
        tracing::info!(?recovery, "the metadata server serves");
        core.targets.listen();
        let chores = Mutex::new(chores::start(
            &core,
            !options.found.log.fresh && !options.found.log.stopped,
            options.keep_sessions,
        ));
        Ok(Arc::new(Mds {
            core,
            recovery,
            chores,
        }))
    }

    /// Which life of the server this is: every start has a higher one.
    pub fn owner_epoch(&self) -> OwnerEpoch {
        self.core.owner_epoch
    }

    /// Whether it is registered.
    pub fn has_session(&self, session: SessionId) -> bool {
        self.core.shard.lock().sessions.contains_key(&session)
    }

    /// The client that opened it, as it named itself; None if it is not registered.
    pub fn client_of(&self, session: SessionId) -> Option<String> {
        let shard = self.core.shard.lock();
        let found = shard.sessions.get(&session);
        found.map(|session| session.client.clone())
    }

    /// Ends a session whatever its client does: its host is let in no more.
    pub async fn end_session(&self, session: SessionId) {
        self.core.end_from_here(session).await;
    }

    /// The way back to a client: from here on it can be asked. Whoever waits for this session asks it now.
    pub fn attach(&self, session: SessionId, back: Back) {
        // Not what has ended: it would never be detached.
        if self.core.shard.lock().sessions.contains_key(&session) {
            self.core.holders.attach(session, back);
        }
    }

    /// Its connection is gone. What was asked over it is asked over the next.
    pub fn detach(&self, session: SessionId) {
        self.core.holders.detach(session);
    }

    /// Takes a target's word of itself: at its start, and now and then so that its stamp is remembered.
    ///
    /// # Errors
    /// `TargetDown` with the reason if it is not who it was: nobody should believe its bytes.
    pub async fn hear(&self, ost: OstId, told: Result<TargetInfo, String>) -> Result<(), Refusal> {
        let heard = self.core.hear(ost, told).await;
        self.core.tell_placement();
        heard
    }

    /// What the server of these targets is to know of capabilities; None where none are given.
    pub fn seals(&self, osts: &[OstId]) -> Option<Seals> {
        let permits = self.core.targets.permits()?;
        Some(permits.seals(osts))
    }

    /// Targets that are not who they were, with the reason.
    pub fn refused_targets(&self) -> Vec<(OstId, String)> {
        self.core.targets.refused()
    }

    pub fn recovery(&self) -> &RecoveryReport {
        &self.recovery
    }

    /// Answers what is under way, refuses what comes, ends the chores and closes the store with everything durable.
    pub async fn stop(&self) -> Result<(), KvError> {
        self.core.stopping.store(true, SeqCst);
        self.last_answers().await;
        let chores = std::mem::take(&mut *self.chores.lock());
        for chore in chores {
            chore.stop();
            let _ = chore.await; // that it was stopped
        }
        // What is not confirmed in time stays recorded.
        tokio::select! {
            biased;
            () = self.core.confirm_all() => {}
            () = self.core.world.clock.sleep(STOP_CONFIRMS) => {}
        }
        let how = match self.core.sweeps.status().left {
            0 => Stop::InOrder,
            _ => Stop::WorkLeft,
        };
        self.core.kv.stop(how).await
    }

    /// Waits for the requests under way, but not for ever.
    async fn last_answers(&self) {
        let core = &self.core;
        let all_answered = async {
            loop {
                let last = core.last_answered.notified();
                if core.under_way.load(SeqCst) == 0 {
                    return;
                }
                last.await;
            }
        };
        tokio::select! {
            biased;
            () = all_answered => {}
            () = core.world.clock.sleep(STOP_WAIT) => {
                tracing::warn!(waits = ?core.waits.status(), "requests are cut off by the stop");
            }
        }
    }
}

impl Core {
    /// Hears a target and commits what is to be remembered of it.
    async fn hear(&self, ost: OstId, told: Result<TargetInfo, String>) -> Result<(), Refusal> {
        let Some(remembered) = self.targets.hear(ost, told)? else {
            return Ok(());
        };
        let seq = self.stage_own(vec![(Key::target(ost), Some(remembered.encode()))]);
        self.committed(Who::own("remember a target"), seq).await
    }
}

/// What the store says of itself; None if it is empty.
fn read_format(kv: &Kv) -> Result<Option<Format>, StartError> {
    match kv.get(Key::format().as_bytes())? {
        Some(record) => match Format::decode(&record) {
            Ok(format) => Ok(Some(format)),
            Err(error) => Err(StartError::Format(error.to_string())),
        },
        None if kv.last_seq() == Seq(0) => Ok(None),
        None => Err(StartError::Format(
            "it holds records, and none that says what they are".into(),
        )),
    }
}

/// The first batch; durable before anything rests on it.
async fn write_format(
    kv: &Kv,
    world: &World,
    cluster: ClusterId,
    incarnation: Incarnation,
    shards: VirtualShards,
) -> Result<Format, StartError> {
    let now = world.clock.now();
    let batch = gupfs_names::format(cluster, incarnation, shards, now, world.dice.u64());
    let seq = kv.stage(0, to_store(batch));
    kv.durable(seq).await?;
    match read_format(kv)? {
        Some(format) => Ok(format),
        None => unreachable!("it was written just now"),
    }
}

/// Who the targets were when they were last heard.
fn remembered_targets(kv: &Kv) -> Result<BTreeMap<OstId, KnownTarget>, StartError> {
    let range = KeyRange::of_kind(VirtualShard(0), Kind::Target);
    // There are at most as many as there are numbers for them.
    let limit = usize::from(u16::MAX) + 1;
    let [from, to] = [range.from, range.to].map(|key| Bytes::copy_from_slice(key.as_bytes()));
    let records = kv.scan(from, to, limit)?;
    let mut targets = BTreeMap::new();
    for (key, value) in records {
        let key = Key::from_bytes(&key);
        let known = KnownTarget::decode(&value)
            .map_err(|error| StartError::Format(format!("record {key:?}: {error}")))?;
        if let Some(Parsed::Target(ost)) = key.parse() {
            targets.insert(ost, known);
        }
    }
    Ok(targets)
}
