//! # start: from an open store to a metadata server that serves
//!
//! Owns   the order of a start: format or check the store, accept a loss, admit the local targets, recover, start the
//!        background tasks.
//! Never  serves a request.
//! Enter  at `Mds::start`.

mod accept_loss;
mod store_format;

use crate::Mds;
use crate::capabilities::CapabilityIssuer;
use crate::error::StartError;
use crate::options::MdsOptions;
use crate::osts::{IdentityContext, OstPeer, TargetHandle, Targets, recorded_targets};
use crate::parts::{MdsParts, MdsPartsInput};
use crate::recover::{FormerOwner, RecoveryReport};
use crate::survey::{self, MetadataLoss};
use accept_loss::read_accepted_loss;
use futures_util::future::join_all;
use gupfs_namespace::{AcceptedLoss, KnownTarget, StoreFormat};
use gupfs_proto::OstId;
use gupfs_proto::cluster::OwnerMark;
use gupfs_store::kv::Kv;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use store_format::{read_format, write_format};

/// What a start read from the store before it serves.
struct StoreContents {
    formatted: bool,
    format: StoreFormat,
    recorded: BTreeMap<OstId, KnownTarget>,
    /// The losses that were accepted, this start's among them.
    lost: AcceptedLoss,
    /// The loss that this start accepted.
    loss: Option<MetadataLoss>,
}

impl Mds {
    /// Formats an empty store, checks the targets, recovers what ended sessions left, and serves.
    ///
    /// # Errors
    /// As `StartError` says: the store is not this cluster's or cannot be read, it is an older copy than the targets have
    /// served, or recovery could not finish.
    pub async fn start(options: MdsOptions) -> Result<Arc<Mds>, StartError> {
        let mut options = options;
        let surveyed = options.surveyed.iter().map(|target| target.ost).collect();
        let contents = read_store(&mut options).await?;
        let (found, keeps_sessions) = (options.found.clone(), options.keep_sessions);
        let (hands_over, kept_memory) = (options.hands_over, options.kept_memory);
        let (tasks, local_targets) = (options.platform.tasks.clone(), options.targets.clone());
        let parts = compose(options, &contents);
        admit_local_targets(&parts, local_targets).await;
        if let Some(why) = parts.store.failure() {
            return Err(StartError::StoreOutdated(why.to_owned()));
        }
        parts.space.check_space().await;
        let StoreContents {
            formatted, loss, ..
        } = contents;
        // Sessions of an older copy belong to a state that is lost.
        let keep_sessions = keeps_sessions && loss.is_none();
        let former = match (found.log.clean_stop, kept_memory) {
            _ if loss.is_some() => FormerOwner::LostMemory,
            (true, _) => FormerOwner::StoppedInOrder,
            (false, true) => FormerOwner::KeptMemory,
            (false, false) => FormerOwner::LostMemory,
        };
        let recovered = parts.start_recovery().recover(keep_sessions, former).await;
        let with_sweep = loss.is_some() || (!found.log.is_new && !found.log.clean_stop);
        let recovery = RecoveryReport {
            formatted,
            replayed: found.replayed,
            log_was_torn: found.log.torn_tail.is_some(),
            loss,
            ..recovered.map_err(StartError::Recovery)?
        };
        tracing::info!(?recovery, "the metadata server serves");
        parts.targets.listen();
        if with_sweep {
            parts.sweep.expect(parts.targets.all().len() as u64);
        }
        let started = parts.background_tasks(with_sweep).start(&tasks);
        Ok(Arc::new(Mds {
            parts,
            recovery,
            surveyed,
            background_tasks: Mutex::new(started),
            hands_over,
        }))
    }
}

/// Formats an empty store, checks that it is this cluster's, and accepts a loss if the operator does.
async fn read_store(options: &mut MdsOptions) -> Result<StoreContents, StartError> {
    let kv: &Kv = &options.kv;
    let mut formatted = false;
    let format = match read_format(kv)? {
        Some(format) => format,
        None => {
            formatted = true;
            write_format(
                kv,
                &options.platform,
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
    let recorded = recorded_targets(kv)?;
    let mut lost = read_accepted_loss(kv)?;
    let (log_epoch, last) = (options.found.log.epoch, options.found.log.last);
    let mut loss = None;
    if options.accept_loss {
        let local = survey::survey_local(&options.targets, &recorded, last).await;
        let reported = std::mem::take(&mut options.surveyed);
        let all = reported.into_iter().chain(local).collect();
        loss = survey::compute_loss(all, &recorded, last);
    }
    if let Some(loss) = &loss {
        tracing::warn!(%loss, "accepting the loss (--accept-loss)");
        let now = options.platform.clock.now();
        lost = accept_loss::accept(kv, &format, &lost, loss, (log_epoch, now)).await?;
    }
    Ok(StoreContents {
        formatted,
        format,
        recorded,
        lost,
        loss,
    })
}

/// The parts of the server; nothing runs yet.
fn compose(options: MdsOptions, contents: &StoreContents) -> MdsParts {
    let kv = options.kv;
    let StoreContents { format, lost, .. } = contents;
    let owner_epoch = options.found.log.epoch.after(lost.epochs_skipped);
    let identity_context = IdentityContext {
        cluster: options.cluster,
        ours: OwnerMark {
            epoch: owner_epoch,
            run: options.platform.random.u64(),
            durable: kv.durable_seq(),
        },
        log_end: options.found.log.last,
        lost_before: lost.from,
        accept_loss: options.accept_loss,
    };
    let peers: BTreeMap<OstId, OstPeer> = options
        .targets
        .iter()
        .map(|target| (target.ost, target.peer.clone()))
        .collect();
    let has_remote_servers = options.dial.is_some();
    let mut targets = Targets::new(
        identity_context,
        options.platform.clock.clone(),
        options.dial,
        peers,
        contents.recorded.clone(),
    );
    targets.set_local_domain(options.domain);
    targets.begin_epochs(owner_epoch);
    let issuer = has_remote_servers.then(|| {
        Arc::new(CapabilityIssuer::new(
            &options.platform,
            owner_epoch,
            options.key,
            format.incarnation,
        ))
    });
    if let Some(issuer) = &issuer {
        targets.set_issuer(issuer.clone());
    }
    MdsParts::new(MdsPartsInput {
        platform: options.platform,
        kv,
        disk: options.disk,
        shards: format.shards,
        owner_epoch,
        sessions_skipped: lost.sessions_skipped,
        lost_before: lost.from,
        loss_accepted: contents.loss.is_some(),
        targets: Arc::new(targets),
        issuer,
        keeps_sessions: options.keep_sessions,
        records_interests: options.hands_over && options.keep_sessions,
        successor: options.successor,
        rebuild_after: options.rebuild_after,
        resync_rate: options.resync_rate,
        scrub_period: options.scrub_period,
    })
}

async fn admit_local_targets(parts: &MdsParts, targets: Vec<TargetHandle>) {
    let (former, targets): (Vec<_>, Vec<_>) =
        (targets.into_iter()).partition(|target| parts.targets.is_lost(target.ost));
    for target in former {
        tracing::info!(ost = %target.ost, "a local target is not part of the cluster any more; it is not used");
    }
    let checks = targets.into_iter().map(|target| {
        let records = &parts.target_records;
        async move { records.admit_local_target(target.ost, target.admin).await }
    });
    for refused in join_all(checks).await.into_iter().filter_map(Result::err) {
        tracing::warn!(error = %refused, "a local target is refused and not used");
    }
}
