//! `Mds`: one metadata server, from its start to its stop.

use crate::accept;
use crate::chores;
use crate::core::{Core, Parts};
use crate::error::StartError;
use crate::holders::Back;
use crate::limits::{STOP_CONFIRMS, STOP_WAIT, SURVEY_WAIT, SURVEYED_LOOK};
use crate::permits::Permits;
use crate::records::to_store;
use crate::recover::RecoveryReport;
use crate::survey::{self, Surveyed};
use crate::targets::{Admin, Dial, Ground, Near, Target, Targets};
use crate::waits::Who;
use bytes::Bytes;
use futures_util::future::join_all;
use gupfs_namespace::{AcceptedLoss, Format, Key, KeyRange, Kind, KnownTarget, Parsed, Record};
use gupfs_platform::{Disk, Platform, Task};
use gupfs_proto::cluster::{OwnerMark, Seals};
use gupfs_proto::limits::VIRTUAL_SHARDS_DEFAULT;
use gupfs_proto::{
    ClusterId, Incarnation, OstId, OwnerEpoch, Refusal, Seq, SessionId, Timestamp, VirtualShard,
    VirtualShards,
};
use gupfs_rpc::ClusterKey;
use gupfs_store::kv::{Kv, KvError, KvRecovery};
use gupfs_store::log::Stop;
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
    pub platform: Platform,
    pub cluster: ClusterId,
    /// What an empty store is made: its incarnation, and how many virtual shards it has.
    pub incarnation: Incarnation,
    pub shards: VirtualShards,
    pub targets: Vec<Target>,
    /// How servers of targets elsewhere are reached; None when there are none.
    pub dial: Option<Arc<dyn Dial>>,
    /// The cluster's key: half of what capabilities are sealed with, where there are servers elsewhere.
    pub key: Option<ClusterKey>,
    /// Go on with a store that is an older copy, and believe targets that are not who they were: the operator knows that what
    /// they lack is lost.
    pub accept_loss: bool,
    /// What servers elsewhere said of their targets before the start (`Survey`), if loss is accepted.
    pub surveyed: Vec<Surveyed>,
    /// Clients outlive this server: their sessions are still theirs after a start, if they say so in time. Else every start
    /// ends them all.
    pub keep_sessions: bool,
}

impl Options {
    pub fn new(
        (kv, found): (Kv, KvRecovery),
        disk: Disk,
        platform: Platform,
        cluster: ClusterId,
        incarnation: Incarnation,
    ) -> Options {
        Options {
            kv,
            found,
            disk,
            platform,
            cluster,
            incarnation,
            shards: VirtualShards(VIRTUAL_SHARDS_DEFAULT),
            targets: Vec::new(),
            dial: None,
            key: None,
            accept_loss: false,
            surveyed: Vec::new(),
            keep_sessions: false,
        }
    }
}

/// One metadata server. Dropped without `stop` it ends as if it had been killed.
pub struct Mds {
    pub(crate) core: Arc<Core>,
    pub(crate) recovery: RecoveryReport,
    /// Targets that were heard before the start.
    surveyed: Vec<OstId>,
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
        let Options { disk, platform, .. } = options;
        let kv = Arc::new(options.kv);
        let mut formatted = false;
        let format = match read_format(&kv)? {
            Some(format) => format,
            None => {
                formatted = true;
                write_format(
                    &kv,
                    &platform,
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
        let mut lost = read_accepted(&kv)?;
        let log_epoch = options.found.log.epoch;
        let found = options.found.log.last;
        let mut loss = None;
        let surveyed = options.surveyed.iter().map(|it| it.ost).collect();
        if options.accept_loss {
            let near = survey::near(&options.targets, &remembered, found).await;
            let all = options.surveyed.into_iter().chain(near).collect();
            loss = survey::what_is_lost(all, &remembered, found);
        }
        if let Some(loss) = &loss {
            tracing::warn!(%loss, "a loss is accepted");
            lost = accept::accept(&kv, &format, &lost, loss, (log_epoch, platform.clock.now()))
                .await?;
        }
        let epoch = OwnerEpoch(log_epoch.0 + lost.epochs_skipped);
        let ground = Ground {
            cluster: options.cluster,
            ours: OwnerMark {
                epoch,
                run: platform.dice.u64(),
                durable: kv.durable_seq(),
            },
            found,
            lost_before: lost.from,
            accept_loss: options.accept_loss,
        };
        let peers = options
            .targets
            .iter()
            .map(|target| (target.ost, target.peer.clone()));
        let elsewhere = options.dial.is_some();
        let mut targets = Targets::new(
            ground,
            platform.clock.clone(),
            options.dial,
            peers.collect(),
            remembered,
        );
        targets.begin_epochs(epoch);
        if elsewhere {
            targets.ask_by(Permits::new(
                &platform,
                epoch,
                options.key,
                format.incarnation,
            ));
        }
        let core = Arc::new(Core::new(Parts {
            platform,
            kv,
            disk,
            shards: format.shards,
            owner_epoch: epoch,
            lost_before: lost.from,
            loss_accepted: loss.is_some(),
            sessions_skipped: lost.sessions_skipped,
            targets,
            keeps_sessions: options.keep_sessions,
        }));
        let heard = options.targets.into_iter().map(|target| {
            let core = &core;
            async move { core.hear(target.ost, target.admin).await }
        });
        for refused in join_all(heard).await.into_iter().filter_map(Result::err) {
            tracing::warn!(refusal = %refused, "a target is not used");
        }
        if let Some(why) = core.failure() {
            return Err(StartError::Restored(why.to_owned()));
        }
        core.look_at_space().await;
        // Those of an older copy are of a time that is lost.
        let keep_sessions = options.keep_sessions && loss.is_none();
        let recovery = core
            .recover(keep_sessions, options.found.log.stopped && loss.is_none())
            .await
            .map_err(StartError::Recovery)?;
        let recovery = RecoveryReport {
            formatted,
            replayed: options.found.replayed,
            log_was_torn: options.found.log.torn.is_some(),
            loss: loss.clone(),
            ..recovery
        };
        tracing::info!(?recovery, "the metadata server serves");
        core.targets.listen();
        let chores = Mutex::new(chores::start(
            &core,
            loss.is_some() || (!options.found.log.fresh && !options.found.log.stopped),
            options.keep_sessions,
        ));
        Ok(Arc::new(Mds {
            core,
            recovery,
            surveyed,
            chores,
        }))
    }

    /// Returns when the targets that were heard before this start serve, or after a while: a later start that accepts no loss
    /// believes of those that know more than the store only the ones that have served it since.
    pub async fn surveyed_serve(&self) {
        let clock = &self.core.platform.clock;
        let begun = clock.boot();
        let not_yet = |ost: &&OstId| !self.core.targets.is_up(**ost);
        while let Some(ost) = self.surveyed.iter().find(not_yet) {
            if clock.boot().since(begun) >= SURVEY_WAIT {
                tracing::warn!(%ost, "it was heard before the start and does not serve; start with --accept-loss once more while its server runs");
                return;
            }
            clock.sleep(SURVEYED_LOOK).await;
        }
    }

    /// Which life of the server this is: every start has a higher one.
    pub fn owner_epoch(&self) -> OwnerEpoch {
        self.core.owner_epoch
    }

    /// Whether it is registered.
    pub fn has_session(&self, session: SessionId) -> bool {
        self.core.shard.lock().sessions.contains_key(&session)
    }

    /// Why nothing is served any more: the store failed. Its process is to end.
    pub fn failure(&self) -> Option<String> {
        self.core.failure().map(String::from)
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

    /// Looks at a target of this process: at its start, and now and then so that its stamp is remembered. Err in `admin` says
    /// why it has none.
    ///
    /// # Errors
    /// `TargetDown` with the reason if it is not who it was: nobody should believe its bytes.
    pub async fn hear(
        &self,
        ost: OstId,
        admin: Result<Arc<dyn Admin>, String>,
    ) -> Result<(), Refusal> {
        let heard = self.core.hear(ost, admin).await;
        self.core.tell_placement();
        heard
    }

    /// Returns when this server can serve no more, with the reason: its process should end.
    pub async fn failed(&self) -> String {
        self.core.has_failed().await
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
        if self.core.failure().is_none() {
            tokio::select! {
                biased;
                () = self.core.confirm_all() => {}
                () = self.core.platform.clock.sleep(STOP_CONFIRMS) => {}
            }
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
            () = core.platform.clock.sleep(STOP_WAIT) => {
                tracing::warn!(waits = ?core.waits.status(), "requests are cut off by the stop");
            }
        }
    }
}

impl Core {
    /// Hears a target of this process, and remembers what is to be remembered before it is told to serve.
    async fn hear(&self, ost: OstId, admin: Result<Arc<dyn Admin>, String>) -> Result<(), Refusal> {
        let admin = admin.map_err(|why| self.targets.near_is_down(ost, &why))?;
        // Told that it is who it was, it says that it has written that down.
        for _ in 0..3 {
            match self.targets.near(ost, &admin.identity())? {
                Near::Tell(remember) => {
                    self.remember(ost, remember).await?;
                    let told = admin.adopt(self.owner_mark()).await;
                    told.map_err(|why| self.targets.near_is_down(ost, &why))?;
                }
                Near::Serves(remember) => {
                    self.remember(ost, remember).await?;
                    self.targets.near_serves(ost);
                    let told = admin.adopt(self.owner_mark()).await;
                    return told.map_err(|why| self.targets.near_is_down(ost, &why));
                }
                Near::Restored(why) => return Err(self.end(why)),
            }
        }
        Err(self
            .targets
            .near_is_down(ost, "it does not do what it is told"))
    }

    /// This start, and how far its log is durable by now.
    pub fn owner_mark(&self) -> OwnerMark {
        OwnerMark {
            durable: self.kv.durable_seq(),
            ..*self.targets.owner()
        }
    }

    /// Returns when what is to be remembered of a target is, with `true` also after a power cut.
    pub async fn remember(
        &self,
        ost: OstId,
        remember: Option<(KnownTarget, bool)>,
    ) -> Result<(), Refusal> {
        let Some((known, durably)) = remember else {
            return Ok(());
        };
        let who = Who::own("remember a target");
        let seq = self.stage_own(vec![(Key::target(ost), Some(known.encode()))])?;
        if !durably {
            return self.committed(who, seq).await;
        }
        self.durable(who, seq).await?;
        self.targets.is_kept(ost, &known);
        Ok(())
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
    platform: &Platform,
    cluster: ClusterId,
    incarnation: Incarnation,
    shards: VirtualShards,
) -> Result<Format, StartError> {
    let now = platform.clock.now();
    let batch = gupfs_namespace::format(cluster, incarnation, shards, now, platform.dice.u64());
    let staged = kv.stage(0, to_store(batch));
    let seq = staged.map_err(KvError::from)?;
    kv.durable(seq).await?;
    match read_format(kv)? {
        Some(format) => Ok(format),
        None => unreachable!("it was written just now"),
    }
}

/// Which losses were accepted; all zero: none.
fn read_accepted(kv: &Kv) -> Result<AcceptedLoss, StartError> {
    match kv.get(Key::owner().as_bytes())? {
        None => Ok(AcceptedLoss {
            from: OwnerEpoch(0),
            epochs_skipped: 0,
            sessions_skipped: 0,
            when: Timestamp::default(),
        }),
        Some(record) => AcceptedLoss::decode(&record)
            .map_err(|error| StartError::Format(format!("the record of accepted losses: {error}"))),
    }
}

/// Who the targets were when they were last heard.
pub(crate) fn remembered_targets(kv: &Kv) -> Result<BTreeMap<OstId, KnownTarget>, StartError> {
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
