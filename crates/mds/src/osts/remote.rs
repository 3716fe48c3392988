//! Remote targets: their servers report every second that they are up, and at which address.

use super::identity::{IdentityVerdict, check_identity};
use super::{RemoteServer, ServingInstance, TargetCondition, TargetEntry, Targets, UnknownSpace};
use crate::limits::TARGET_REPORT_TIMEOUT;
use gupfs_namespace::KnownTarget;
use gupfs_proto::capability::Capability;
use gupfs_proto::cluster::{
    ClusterMap, TargetAddress, TargetIdentity, TargetReport, TargetVerdict,
};
use gupfs_proto::{FsError, Incarnation, MapEpoch, OstId, OwnerEpoch};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// The result of one target's part of a report.
pub(crate) enum ReportOutcome {
    /// What the target must do, and what to record before it is told so; with `true` the record must survive a power loss.
    Verdict(TargetVerdict, Option<(KnownTarget, bool)>),
    /// The target has served a later state of the store than this one.
    StoreOutdated(String),
}

impl Targets {
    /// Map epochs of an owner are above those of its predecessors.
    pub fn begin_epochs(&self, owner: OwnerEpoch) {
        if self.dial.is_some() {
            self.epoch.store((owner.0 << 20) + 1, Release);
        }
    }

    pub fn epoch(&self) -> MapEpoch {
        MapEpoch(self.epoch.load(Acquire))
    }

    /// Handles the report of a server at `address` on one of its targets. A report that is not believed does not change the
    /// target's recorded address.
    ///
    /// # Errors
    /// `NotSupported` if this server uses local targets only.
    pub(crate) fn report(
        &self,
        address: &str,
        report: &TargetReport,
        leaves: bool,
    ) -> Result<ReportOutcome, FsError> {
        let Some(dial) = &self.dial else {
            return Err(FsError::NotSupported);
        };
        let ost = report.ost;
        let refused = |why: String| Ok(ReportOutcome::Verdict(TargetVerdict::Refused(why), None));
        let mut list = self.list.lock();
        let Some(entry) = list.get_mut(&ost) else {
            return refused("no target with this number was ever added".into());
        };
        if entry.remote.is_none() && entry.peer.is_some() {
            return refused("the metadata server's own process serves it".into());
        }
        let open = match &report.open {
            Ok(open) => open,
            Err(why) => {
                // A copy at another address that cannot be opened says nothing about the recorded target.
                if entry.is_known_at(address) {
                    entry.condition = TargetCondition::Down(why.clone());
                    self.changed.notify_waiters();
                }
                return Ok(ReportOutcome::Verdict(
                    TargetVerdict::Wait(why.clone()),
                    None,
                ));
            }
        };
        let reported = &open.identity;
        let now = self.clock.boot();
        let accept = self.identity_context.accept_loss && !entry.condition.is_up();
        let verdict = check_identity(
            &self.identity_context,
            ost,
            entry.recorded,
            reported,
            accept,
        );
        let (known, verdict) = match verdict {
            IdentityVerdict::Adopt(known) => (known, TargetVerdict::Adopt),
            IdentityVerdict::Serve(known) => (known, TargetVerdict::Serve),
            IdentityVerdict::Refused(why) => {
                if entry.is_known_at(address) {
                    entry.condition = TargetCondition::Refused(why.clone());
                    self.changed.notify_waiters();
                }
                return refused(why);
            }
            IdentityVerdict::StoreOutdated(why) => return Ok(ReportOutcome::StoreOutdated(why)),
        };
        if let Some(why) = self.other_instance_serves(entry, address, reported) {
            tracing::warn!(%ost, address, why, "an open instance of a target must wait");
            return Ok(ReportOutcome::Verdict(TargetVerdict::Wait(why), None));
        }
        let record = entry.record(known);
        let contended = (entry.serving.as_ref()).is_some_and(|serving| serving.is_contended);
        entry.serving = (!leaves).then(|| ServingInstance {
            opening: reported.open_instance,
            address: address.to_string(),
            last_heard: now,
            is_contended: false,
        });
        self.changed.notify_waiters();
        if leaves {
            entry.condition =
                TargetCondition::Expected(format!("its server at {address} was stopped"));
            return Ok(ReportOutcome::Verdict(verdict, record));
        }
        if verdict == TargetVerdict::Adopt {
            entry.condition = TargetCondition::Expected("its server is opening it".into());
            return Ok(ReportOutcome::Verdict(verdict, record));
        }
        match &mut entry.remote {
            Some(remote) if remote.address == address => remote.last_heard = now,
            // The same target, opened again elsewhere, and the former instance is gone.
            _ => {
                entry.peer = Some(dial.dial(address));
                entry.remote = Some(RemoteServer {
                    address: address.to_string(),
                    last_heard: now,
                });
                self.epoch.fetch_add(1, AcqRel);
            }
        }
        entry.condition = TargetCondition::Up;
        entry.space = open
            .space
            .ok_or_else(|| UnknownSpace::NotYet("its disk has not reported its free space".into()));
        let verdict = match contended {
            true => TargetVerdict::RaiseStamp,
            false => verdict,
        };
        Ok(ReportOutcome::Verdict(verdict, record))
    }

    /// Why an open instance must wait: another instance of the target may still serve. None if surely none does: the other is
    /// silent for its term, or was at this very address.
    fn other_instance_serves(
        &self,
        entry: &mut TargetEntry,
        address: &str,
        reported: &TargetIdentity,
    ) -> Option<String> {
        let now = self.clock.boot();
        match &mut entry.serving {
            Some(serving) if serving.opening == reported.open_instance => None,
            Some(serving) if serving.address == address => None,
            Some(serving) if now.since(serving.last_heard) < TARGET_REPORT_TIMEOUT => {
                // Raising the stamp makes the serving instance differ from the copy, which then is an older copy for good.
                serving.is_contended = true;
                Some(format!(
                    "another opening of it is served at {}",
                    serving.address
                ))
            }
            Some(_) => None,
            // Since our start no instance reported, and the one that served before may do so any moment.
            None if !reported.is_adopted()
                && !reported.stopped
                && reported.run != 0
                && now.since(self.started) < TARGET_REPORT_TIMEOUT =>
            {
                Some("another opening of it may be served: it waits for one report timeout".into())
            }
            None => None,
        }
    }

    /// Marks targets whose servers have not reported for a while as expected; new files go elsewhere.
    pub fn expire_silent(&self) {
        let now = self.clock.boot();
        for (ost, entry) in self.list.lock().iter_mut() {
            if let Some(remote) = &entry.remote
                && entry.condition.is_up()
                && now.since(remote.last_heard) >= TARGET_REPORT_TIMEOUT
            {
                tracing::warn!(%ost, address = remote.address, "the target's server is silent; requests for the target wait");
                let why = format!("its server at {} is silent", remote.address);
                entry.condition = TargetCondition::Expected(why);
            }
        }
    }

    pub fn map(&self) -> ClusterMap {
        let list = self.list.lock();
        ClusterMap {
            epoch: self.epoch(),
            targets: list
                .iter()
                .map(|(ost, entry)| TargetAddress {
                    ost: *ost,
                    address: match (&entry.remote, &entry.peer) {
                        (Some(remote), _) => Some(remote.address.clone()),
                        (None, Some(_)) => Some(String::new()),
                        (None, None) => None,
                    },
                })
                .collect(),
        }
    }

    /// A number for a target that is about to be initialised, the same number for the same incarnation. The caller commits the
    /// returned record before it replies.
    ///
    /// # Errors
    /// `NotSupported` if this server uses local targets only, `NoSpace` when all numbers are in use.
    pub fn admit(&self, incarnation: Incarnation) -> Result<(OstId, Option<KnownTarget>), FsError> {
        if self.dial.is_none() {
            return Err(FsError::NotSupported);
        }
        let mut list = self.list.lock();
        let known =
            |entry: &TargetEntry| entry.recorded.is_some_and(|r| r.incarnation == incarnation);
        if let Some((ost, _)) = list.iter().find(|(_, entry)| known(entry)) {
            return Ok((*ost, None));
        }
        let next = list
            .keys()
            .next_back()
            .map_or(0, |last| u32::from(last.0) + 1);
        let ost = OstId(u16::try_from(next).map_err(|_| FsError::NoSpace)?);
        if ost == Capability::MDS_PSEUDO_OST {
            return Err(FsError::NoSpace);
        }
        let recorded = KnownTarget {
            incarnation,
            stamp: 0,
            run: 0,
            adopting: 0,
            owner: OwnerEpoch(0),
            owner_run: 0,
        };
        list.insert(
            ost,
            TargetEntry {
                peer: None,
                remote: None,
                recorded: Some(recorded),
                is_durable: false,
                serving: None,
                condition: TargetCondition::Expected("its server has not reported yet".into()),
                space: Err(UnknownSpace::not_reported()),
            },
        );
        Ok((ost, Some(recorded)))
    }

    /// Whether no target can be used, and some may become usable soon: their servers have not reported or are silent, or their
    /// disks have not reported their free space.
    pub fn is_waiting_for_first(&self) -> bool {
        let list = self.list.lock();
        list.values().all(|entry| entry.why_not().is_some())
            && list.values().any(TargetEntry::may_become_usable)
    }

    /// Returns when a target can be used, or none is expected any more.
    pub async fn wait_for_usable(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if !self.is_waiting_for_first() {
                return;
            }
            changed.await;
        }
    }
}

impl TargetCondition {
    pub(super) fn is_up(&self) -> bool {
        matches!(self, TargetCondition::Up)
    }
}

impl TargetEntry {
    /// Whether a server at this address may report that the target is down or refused.
    fn is_known_at(&self, address: &str) -> bool {
        self.remote
            .as_ref()
            .is_none_or(|remote| remote.address == address)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{IdentityContext, OstPeer};
    use super::*;
    use gupfs_platform::fake::FakePlatform;
    use gupfs_proto::cluster::{OpenTargetReport, OwnerMark};
    use gupfs_proto::data::{self, TargetCapacity};
    use gupfs_proto::{ClusterId, Incarnation, Seq};
    use gupfs_rpc::{DialOss, Peer, Service};
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    const OURS: OwnerMark = OwnerMark {
        epoch: OwnerEpoch(4),
        run: 40,
        durable: Seq(0),
    };

    struct UnusedOss;
    impl Service<data::DataRequest, data::DataReply> for UnusedOss {
        async fn handle(self: Arc<Self>, _: data::DataRequest) -> data::DataReply {
            Err(FsError::NotSupported)
        }
    }
    impl DialOss for UnusedOss {
        fn dial(&self, _: &str) -> OstPeer {
            Peer::local(Arc::new(UnusedOss))
        }
    }

    fn targets() -> Targets {
        let clock = FakePlatform::new(1).platform().clock;
        let dial: Arc<dyn DialOss> = Arc::new(UnusedOss);
        let identity_context = IdentityContext {
            cluster: ClusterId(7),
            ours: OURS,
            found: Seq(100),
            lost_before: OwnerEpoch(0),
            accept_loss: false,
        };
        let targets = Targets::new(
            identity_context,
            clock,
            Some(dial),
            BTreeMap::new(),
            BTreeMap::new(),
        );
        targets.admit(Incarnation(5)).unwrap();
        targets
    }

    /// A report of ost0: its superblock has (stamp, run), and its open instance is `opening`.
    fn report_of_ost0(stamp: u64, run: u64, opening: u64) -> TargetReport {
        let identity = TargetIdentity {
            cluster: ClusterId(7),
            incarnation: Incarnation(5),
            stamp,
            run,
            open_instance: opening,
            stopped: false,
            owner: OwnerMark::default(),
        };
        let space = TargetCapacity {
            available: 100,
            ..TargetCapacity::default()
        };
        TargetReport {
            ost: OstId(0),
            open: Ok(OpenTargetReport {
                identity,
                space: Some(space),
                inventory: None,
            }),
        }
    }

    fn verdict_on(targets: &Targets, address: &str, report: &TargetReport) -> TargetVerdict {
        match targets.report(address, report, false) {
            Ok(ReportOutcome::Verdict(verdict, _)) => verdict,
            Ok(ReportOutcome::StoreOutdated(why)) => panic!("{why}"),
            Err(error) => panic!("{error}"),
        }
    }

    /// Opens the target at an address, from (stamp, run) to the next stamp and this run.
    fn opens(targets: &Targets, address: &str, found: (u64, u64), run: u64) {
        let verdict = verdict_on(targets, address, &report_of_ost0(found.0, found.1, run));
        assert_eq!(verdict, TargetVerdict::Adopt);
        let verdict = verdict_on(targets, address, &report_of_ost0(found.0 + 1, run, run));
        assert_eq!(verdict, TargetVerdict::Serve);
    }

    fn address(targets: &Targets) -> Option<String> {
        targets.map().targets[0].address.clone()
    }

    fn is_refused(verdict: &TargetVerdict) -> bool {
        matches!(verdict, TargetVerdict::Refused(_))
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_that_is_not_believed_changes_nothing() {
        let targets = targets();
        assert_eq!(targets.admit(Incarnation(5)).unwrap(), (OstId(0), None));
        assert!(targets.is_waiting_for_first());
        opens(&targets, "real:1", (0, 0), 70);
        let epoch = targets.epoch();
        // An older copy, one that cannot be opened, another cluster's.
        let mut foreign = report_of_ost0(1, 70, 71);
        foreign.open.as_mut().unwrap().identity.cluster = ClusterId(8);
        for copy in [report_of_ost0(0, 0, 72), foreign] {
            assert!(is_refused(&verdict_on(&targets, "copy:1", &copy)));
        }
        let broken = TargetReport {
            ost: OstId(0),
            open: Err("no such disk".into()),
        };
        let verdict = verdict_on(&targets, "copy:1", &broken);
        assert_eq!(verdict, TargetVerdict::Wait("no such disk".into()));
        assert_eq!(
            (address(&targets).as_deref(), targets.epoch()),
            (Some("real:1"), epoch)
        );
        assert!(targets.is_up(OstId(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_twin_waits_while_the_original_lives_and_then_is_an_older_copy() {
        let targets = targets();
        opens(&targets, "real:1", (0, 0), 70);
        // A copy of the serving target, at the same stamp.
        let twin = report_of_ost0(1, 70, 80);
        let waits = verdict_on(&targets, "twin:1", &twin);
        assert!(
            matches!(&waits, TargetVerdict::Wait(why) if why.contains("real:1")),
            "{waits:?}"
        );
        let verdict = verdict_on(&targets, "real:1", &report_of_ost0(1, 70, 70));
        assert_eq!(verdict, TargetVerdict::RaiseStamp);
        assert_eq!(
            verdict_on(&targets, "real:1", &report_of_ost0(2, 70, 70)),
            TargetVerdict::Serve
        );
        assert!(is_refused(&verdict_on(&targets, "twin:1", &twin)));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(is_refused(&verdict_on(&targets, "twin:1", &twin)));
        assert_eq!(
            verdict_on(&targets, "real:1", &report_of_ost0(2, 70, 70)),
            TargetVerdict::Serve
        );
        assert_eq!(address(&targets).as_deref(), Some("real:1"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_that_moves_is_believed_when_its_former_server_has_left_or_is_silent() {
        let targets = targets();
        opens(&targets, "old:1", (0, 0), 70);
        let moved = report_of_ost0(1, 70, 71);
        assert!(matches!(
            verdict_on(&targets, "new:1", &moved),
            TargetVerdict::Wait(_)
        ));
        tokio::time::sleep(TARGET_REPORT_TIMEOUT).await;
        let epoch = targets.epoch();
        opens(&targets, "new:1", (1, 70), 71);
        assert_eq!(address(&targets).as_deref(), Some("new:1"));
        assert!(targets.epoch() > epoch);
        // At the target's former address, the former server is surely gone.
        opens(&targets, "new:1", (2, 71), 72);
        // And at an address whose server has reported that it ends.
        let stopped = report_of_ost0(4, 72, 72);
        targets.report("new:1", &stopped, true).unwrap();
        assert!(!targets.is_up(OstId(0)) || targets.is_waiting_for_first());
        opens(&targets, "third:1", (4, 72), 73);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_start_a_live_original_reports_before_its_copy_is_believed() {
        let clock = FakePlatform::new(1).platform().clock;
        let dial: Arc<dyn DialOss> = Arc::new(UnusedOss);
        let known = KnownTarget {
            incarnation: Incarnation(5),
            stamp: 6,
            run: 70,
            adopting: 0,
            owner: OwnerEpoch(3),
            owner_run: 30,
        };
        let identity_context = targets().identity_context;
        let recorded = BTreeMap::from([(OstId(0), known)]);
        let targets = Targets::new(
            identity_context,
            clock,
            Some(dial),
            BTreeMap::new(),
            recorded,
        );
        assert!(matches!(
            verdict_on(&targets, "twin:1", &report_of_ost0(6, 70, 80)),
            TargetVerdict::Wait(_)
        ));
        assert_eq!(
            verdict_on(&targets, "real:1", &report_of_ost0(6, 70, 70)),
            TargetVerdict::Serve
        );
        assert!(matches!(
            verdict_on(&targets, "twin:1", &report_of_ost0(6, 70, 80)),
            TargetVerdict::Wait(_)
        ));
        assert_eq!(
            verdict_on(&targets, "real:1", &report_of_ost0(6, 70, 70)),
            TargetVerdict::RaiseStamp
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_that_was_never_added_is_not_taken() {
        let targets = targets();
        let unknown = TargetReport {
            ost: OstId(9),
            ..report_of_ost0(1, 1, 2)
        };
        assert!(is_refused(&verdict_on(&targets, "real:1", &unknown)));
    }
}
