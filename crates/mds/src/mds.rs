//! `Mds`: one metadata server, from its start to its stop.

use crate::accept_loss;
use crate::background;
use crate::callback::CallbackPeer;
use crate::capability_issuer::CapabilityIssuer;
use crate::core::{Core, CoreParts};
use crate::error::StartError;
use crate::limits::{STOP_CONFIRM_TIMEOUT, STOP_WAIT, SURVEY_POLL, SURVEY_WAIT};
use crate::osts::{IdentityContext, LocalTargetAction, TargetAdmin, TargetHandle, Targets};
use crate::records::to_store;
use crate::recover::RecoveryReport;
use crate::survey::{self, SurveyedTarget};
use crate::waits::RequestOrigin;
use bytes::Bytes;
use futures_util::future::join_all;
use gupfs_namespace::{
    AcceptedLoss, KeyRange, KnownTarget, ParsedKey, Record, RecordKey, RecordKind, StoreFormat,
};
use gupfs_platform::{Disk, Platform, Task};
use gupfs_proto::cluster::{CapabilityKeys, OwnerMark};
use gupfs_proto::limits::VIRTUAL_SHARDS_DEFAULT;
use gupfs_proto::{
    ClusterId, FsError, Incarnation, OstId, OwnerEpoch, Seq, SessionId, Timestamp, VirtualShard,
    VirtualShards,
};
use gupfs_rpc::{ClusterKey, DialOss};
use gupfs_store::kv::{Kv, KvError, KvRecovery};
use gupfs_store::log::StopMode;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// What a server is started with.
pub struct MdsOptions {
    /// The open store, used by nothing else, and what recovery found in it.
    pub kv: Kv,
    pub found: KvRecovery,
    /// The disk that holds the store; used only to ask for its free space.
    pub disk: Disk,
    pub platform: Platform,
    pub cluster: ClusterId,
    /// For formatting an empty store: its incarnation and its number of virtual shards.
    pub incarnation: Incarnation,
    pub shards: VirtualShards,
    pub targets: Vec<TargetHandle>,
    /// How to reach the servers of remote targets; None when there are none.
    pub dial: Option<Arc<dyn DialOss>>,
    /// The cluster's key: one half of the key material of capabilities, where there are remote servers.
    pub key: Option<ClusterKey>,
    /// Start although the store is an older copy, and accept targets whose identity changed: the operator knows that
    /// everything they lack is lost.
    pub accept_loss: bool,
    /// What remote servers reported of their targets before the start (`TargetSurvey`), if loss is accepted.
    pub surveyed: Vec<SurveyedTarget>,
    /// Sessions outlive this server: a client that reports in time after a start keeps its session. Otherwise every start
    /// ends all sessions.
    pub keep_sessions: bool,
}

impl MdsOptions {
    pub fn new(
        (kv, found): (Kv, KvRecovery),
        disk: Disk,
        platform: Platform,
        cluster: ClusterId,
        incarnation: Incarnation,
    ) -> MdsOptions {
        MdsOptions {
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
    /// Targets that reported before the start.
    surveyed: Vec<OstId>,
    background_tasks: Mutex<Vec<Task<()>>>,
}

impl Drop for Mds {
    fn drop(&mut self) {
        for task in self.background_tasks.lock().iter() {
            task.stop();
        }
    }
}

impl Mds {
    /// Formats an empty store, checks the targets, recovers what ended sessions left, and serves.
    pub async fn start(options: MdsOptions) -> Result<Arc<Mds>, StartError> {
        let MdsOptions { disk, platform, .. } = options;
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
        if let Some(why) = format.incompatibility() {
            return Err(StartError::Format(why));
        }
        if format.cluster != options.cluster {
            return Err(StartError::Foreign {
                found: format.cluster.to_string(),
                wanted: options.cluster.to_string(),
            });
        }
        let recorded = recorded_targets(&kv)?;
        let mut lost = read_accepted_loss(&kv)?;
        let log_epoch = options.found.log.epoch;
        let found = options.found.log.last;
        let mut loss = None;
        let surveyed = options.surveyed.iter().map(|target| target.ost).collect();
        if options.accept_loss {
            let local = survey::survey_local(&options.targets, &recorded, found).await;
            let all = options.surveyed.into_iter().chain(local).collect();
            loss = survey::compute_loss(all, &recorded, found);
        }
        if let Some(loss) = &loss {
            tracing::warn!(%loss, "accepting the loss (--accept-loss)");
            lost =
                accept_loss::accept(&kv, &format, &lost, loss, (log_epoch, platform.clock.now()))
                    .await?;
        }
        let epoch = OwnerEpoch(log_epoch.0 + lost.epochs_skipped);
        let identity_context = IdentityContext {
            cluster: options.cluster,
            ours: OwnerMark {
                epoch,
                run: platform.random.u64(),
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
        let has_remote_servers = options.dial.is_some();
        let mut targets = Targets::new(
            identity_context,
            platform.clock.clone(),
            options.dial,
            peers.collect(),
            recorded,
        );
        targets.begin_epochs(epoch);
        if has_remote_servers {
            targets.set_issuer(CapabilityIssuer::new(
                &platform,
                epoch,
                options.key,
                format.incarnation,
            ));
        }
        let core = Arc::new(Core::new(CoreParts {
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
        let checks = options.targets.into_iter().map(|target| {
            let core = &core;
            async move { core.admit_local_target(target.ost, target.admin).await }
        });
        for refused in join_all(checks).await.into_iter().filter_map(Result::err) {
            tracing::warn!(error = %refused, "a local target is refused and not used");
        }
        if let Some(why) = core.failure() {
            return Err(StartError::StoreOutdated(why.to_owned()));
        }
        core.check_space().await;
        // Sessions of an older copy belong to a state that is lost.
        let keep_sessions = options.keep_sessions && loss.is_none();
        let recovery = core
            .recover(
                keep_sessions,
                options.found.log.clean_stop && loss.is_none(),
            )
            .await
            .map_err(StartError::Recovery)?;
        let recovery = RecoveryReport {
            formatted,
            replayed: options.found.replayed,
            log_was_torn: options.found.log.torn_tail.is_some(),
            loss: loss.clone(),
            ..recovery
        };
        tracing::info!(?recovery, "the metadata server serves");
        core.targets.listen();
        let tasks = Mutex::new(background::start(
            &core,
            loss.is_some() || (!options.found.log.is_new && !options.found.log.clean_stop),
            options.keep_sessions,
        ));
        Ok(Arc::new(Mds {
            core,
            recovery,
            surveyed,
            background_tasks: tasks,
        }))
    }

    /// Returns when the targets that reported before this start serve, or after a while: of the targets that have seen a later
    /// state than the store, a later start without --accept-loss accepts only those that have served the store since.
    pub async fn wait_for_surveyed(&self) {
        let clock = &self.core.platform.clock;
        let begun = clock.boot();
        let not_yet = |ost: &&OstId| !self.core.targets.is_up(**ost);
        while let Some(ost) = self.surveyed.iter().find(not_yet) {
            if clock.boot().since(begun) >= SURVEY_WAIT {
                tracing::warn!(%ost, "ost{ost} reported before this start and does not serve yet; run `gupfs mds --accept-loss` again while its server runs");
                return;
            }
            clock.sleep(SURVEY_POLL).await;
        }
    }

    /// The owner epoch of this start: every start has a higher one.
    pub fn owner_epoch(&self) -> OwnerEpoch {
        self.core.owner_epoch
    }

    /// Whether the session is registered.
    pub fn has_session(&self, session: SessionId) -> bool {
        self.core.shard.lock().sessions.contains_key(&session)
    }

    /// Why the server serves nothing any more: the store failed. The process should end.
    pub fn failure(&self) -> Option<String> {
        self.core.failure().map(String::from)
    }

    /// The name that the session's client gave itself; None if the session is not registered.
    pub fn client_of(&self, session: SessionId) -> Option<String> {
        let shard = self.core.shard.lock();
        let found = shard.sessions.get(&session);
        found.map(|session| session.client.clone())
    }

    /// Ends a session whatever its client does: its host may not use the cluster any more.
    pub async fn end_session(&self, session: SessionId) {
        self.core.end_by_server(session).await;
    }

    /// Registers the connection for callbacks to a session. Callbacks that wait for this session are sent now.
    pub fn attach(&self, session: SessionId, peer: CallbackPeer) {
        // Not for an ended session: nothing would detach it.
        if self.core.shard.lock().sessions.contains_key(&session) {
            self.core.callbacks.attach(session, peer);
        }
    }

    /// The session's connection is gone. Callbacks without a reply are sent again over its next connection.
    pub fn detach(&self, session: SessionId) {
        self.core.callbacks.detach(session);
    }

    /// Checks a local target: at its start, and now and then so that its stamp is recorded. Err in `admin` says
    /// why the target has no admin interface.
    ///
    /// # Errors
    /// `TargetDown` with the reason if its identity does not match the recorded one: its bytes must not be used.
    pub async fn admit_local_target(
        &self,
        ost: OstId,
        admin: Result<Arc<dyn TargetAdmin>, String>,
    ) -> Result<(), FsError> {
        let admitted = self.core.admit_local_target(ost, admin).await;
        self.core.update_placement();
        admitted
    }

    /// Returns the reason as soon as this server can serve no more: its process should end.
    pub async fn wait_for_failure(&self) -> String {
        self.core.wait_for_failure().await
    }

    /// The keys with which the server of these targets verifies capabilities; None where no capabilities are issued.
    pub fn capability_keys(&self, osts: &[OstId]) -> Option<CapabilityKeys> {
        let issuer = self.core.targets.issuer()?;
        Some(issuer.capability_keys(osts))
    }

    /// Targets whose identity does not match the recorded one, with the reason.
    pub fn refused_targets(&self) -> Vec<(OstId, String)> {
        self.core.targets.refused()
    }

    pub fn recovery(&self) -> &RecoveryReport {
        &self.recovery
    }

    /// Finishes the requests in flight, refuses new ones, stops the background tasks and closes the store with everything
    /// durable.
    pub async fn stop(&self) -> Result<(), KvError> {
        self.core.stopping.store(true, SeqCst);
        self.drain_requests().await;
        let tasks = std::mem::take(&mut *self.background_tasks.lock());
        for task in tasks {
            task.stop();
            let _ = task.await; // the error says that it was stopped
        }
        // What is not confirmed in time stays recorded.
        if self.core.failure().is_none() {
            tokio::select! {
                biased;
                () = self.core.confirm_all() => {}
                () = self.core.platform.clock.sleep(STOP_CONFIRM_TIMEOUT) => {}
            }
        }
        let mode = match self.core.sweep.status().left {
            0 => StopMode::Clean,
            _ => StopMode::WorkPending,
        };
        self.core.kv.stop(mode).await
    }

    /// Waits for the requests in flight, at most `STOP_WAIT`.
    async fn drain_requests(&self) {
        let core = &self.core;
        let all_answered = async {
            loop {
                let last = core.drained.notified();
                if core.in_flight.load(SeqCst) == 0 {
                    return;
                }
                last.await;
            }
        };
        tokio::select! {
            biased;
            () = all_answered => {}
            () = core.platform.clock.sleep(STOP_WAIT) => {
                tracing::warn!(waits = ?core.waits.status(), "the server stops although these requests are not finished");
            }
        }
    }
}

impl Core {
    /// Checks a local target, and records its identity before it is told to serve.
    async fn admit_local_target(
        &self,
        ost: OstId,
        admin: Result<Arc<dyn TargetAdmin>, String>,
    ) -> Result<(), FsError> {
        let admin = admin.map_err(|why| self.targets.mark_local_down(ost, &why))?;
        // After `adopt` the target's identity shows that it has written the new owner down.
        for _ in 0..3 {
            match self.targets.check_local(ost, &admin.identity())? {
                LocalTargetAction::Adopt(record) => {
                    self.record_target(ost, record).await?;
                    let adopted = admin.adopt(self.owner_mark()).await;
                    adopted.map_err(|why| self.targets.mark_local_down(ost, &why))?;
                }
                LocalTargetAction::Serve(record) => {
                    self.record_target(ost, record).await?;
                    self.targets.mark_local_up(ost);
                    let adopted = admin.adopt(self.owner_mark()).await;
                    return adopted.map_err(|why| self.targets.mark_local_down(ost, &why));
                }
                LocalTargetAction::StoreOutdated(why) => return Err(self.fail_because(why)),
            }
        }
        Err(self.targets.mark_local_down(
            ost,
            "it did not record this server as its owner after three requests",
        ))
    }

    /// This start, and the newest durable change of its log.
    pub fn owner_mark(&self) -> OwnerMark {
        OwnerMark {
            durable: self.kv.durable_seq(),
            ..*self.targets.owner()
        }
    }

    /// Returns when the target's identity is recorded; with `true` when the record survives a power loss.
    pub async fn record_target(
        &self,
        ost: OstId,
        record: Option<(KnownTarget, bool)>,
    ) -> Result<(), FsError> {
        let Some((known, durably)) = record else {
            return Ok(());
        };
        let origin = RequestOrigin::server("record a target");
        let seq =
            self.stage_server_records(vec![(RecordKey::known_target(ost), Some(known.encode()))])?;
        if !durably {
            return self.committed(origin, seq).await;
        }
        self.durable(origin, seq).await?;
        self.targets.mark_durable(ost, &known);
        Ok(())
    }
}

/// The format record; None if the store is empty.
fn read_format(kv: &Kv) -> Result<Option<StoreFormat>, StartError> {
    match kv.get(RecordKey::format().as_bytes())? {
        Some(record) => match StoreFormat::decode(&record) {
            Ok(format) => Ok(Some(format)),
            Err(error) => Err(StartError::Format(error.to_string())),
        },
        None if kv.last_seq() == Seq(0) => Ok(None),
        None => Err(StartError::Format(
            "it has records, but no format record".into(),
        )),
    }
}

/// Writes the first batch; it is durable before any other batch depends on it.
async fn write_format(
    kv: &Kv,
    platform: &Platform,
    cluster: ClusterId,
    incarnation: Incarnation,
    shards: VirtualShards,
) -> Result<StoreFormat, StartError> {
    let now = platform.clock.now();
    let batch =
        gupfs_namespace::initial_batch(cluster, incarnation, shards, now, platform.random.u64());
    let staged = kv.stage(0, to_store(batch));
    let seq = staged.map_err(KvError::from)?;
    kv.wait_durable(seq).await?;
    match read_format(kv)? {
        Some(format) => Ok(format),
        None => unreachable!("it was written just now"),
    }
}

/// The losses that were accepted; all fields zero: none.
fn read_accepted_loss(kv: &Kv) -> Result<AcceptedLoss, StartError> {
    match kv.get(RecordKey::accepted_loss().as_bytes())? {
        None => Ok(AcceptedLoss {
            from: OwnerEpoch(0),
            epochs_skipped: 0,
            sessions_skipped: 0,
            when: Timestamp::default(),
        }),
        Some(record) => AcceptedLoss::decode(&record).map_err(|error| {
            StartError::Format(format!(
                "the record of accepted losses cannot be read: {error}"
            ))
        }),
    }
}

/// The recorded identity of each target.
pub(crate) fn recorded_targets(kv: &Kv) -> Result<BTreeMap<OstId, KnownTarget>, StartError> {
    let range = KeyRange::of_kind(VirtualShard(0), RecordKind::KnownTarget);
    // There are at most as many targets as there are numbers for them.
    let limit = usize::from(u16::MAX) + 1;
    let [from, to] = [range.from, range.to].map(|key| Bytes::copy_from_slice(key.as_bytes()));
    let records = kv.scan(from, to, limit)?;
    let mut targets = BTreeMap::new();
    for (key, value) in records {
        let key = RecordKey::from_bytes(&key);
        let known = KnownTarget::decode(&value)
            .map_err(|error| StartError::Format(format!("record {key:?}: {error}")))?;
        if let Some(ParsedKey::KnownTarget(ost)) = key.parse() {
            targets.insert(ost, known);
        }
    }
    Ok(targets)
}
