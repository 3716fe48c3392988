use super::*;
use crate::osts::{IdentityContext, OstPeer};
use gupfs_platform::fake::FakePlatform;
use gupfs_proto::cluster::{
    OpenTargetReport, OwnerMark, StoppingTarget, TargetCopy, TargetIdentity, TargetReport,
    TargetVerdict,
};
use gupfs_proto::data::{self, TargetCapacity};
use gupfs_proto::{ClusterId, DomainName, Incarnation, Seq};
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
        log_end: Seq(100),
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

fn server(address: &str) -> ReportingServer<'_> {
    ReportingServer {
        address,
        domain: None,
        stopping: false,
    }
}

fn verdict_on(targets: &Targets, address: &str, report: &TargetReport) -> TargetVerdict {
    match targets.report(server(address), report) {
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
    let leaving = ReportingServer {
        stopping: true,
        ..server("new:1")
    };
    targets.report(leaving, &stopped).unwrap();
    assert!(!targets.is_up(OstId(0)) || targets.is_waiting_for_first());
    opens(&targets, "third:1", (4, 72), 73);
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_believed_of_the_instance_that_serves_until_it_reports_again() {
    let targets = targets();
    let stop_of = |ost, open_instance| StoppingTarget {
        ost: OstId(ost),
        open_instance,
    };
    assert!(targets.note_stopping(&[stop_of(0, 70)]).is_empty());
    opens(&targets, "a:1", (0, 0), 70);
    assert!(targets.is_up(OstId(0)));
    let strangers = [stop_of(0, 71), stop_of(9, 70)];
    assert!(targets.note_stopping(&strangers).is_empty());
    assert!(targets.is_up(OstId(0)));

    assert_eq!(targets.note_stopping(&[stop_of(0, 70)]), [OstId(0)]);
    assert!(!targets.is_up(OstId(0)));
    // Sessions are told once.
    assert!(targets.note_stopping(&[stop_of(0, 70)]).is_empty());
    let goes_on = report_of_ost0(1, 70, 70);
    assert_eq!(verdict_on(&targets, "a:1", &goes_on), TargetVerdict::Serve);
    assert!(targets.is_up(OstId(0)));
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
        lost_since: None,
        draining_since: None,
        is_removed: false,
        domain: None,
        accepted: None,
        drain: DrainSettings::default(),
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

#[tokio::test(start_paused = true)]
async fn the_failure_domain_of_a_target_is_that_of_the_report_that_is_believed() {
    let targets = targets();
    let named = |address, name| ReportingServer {
        domain: DomainName::new(name),
        ..server(address)
    };
    let domain = || targets.recorded(OstId(0)).unwrap().domain;
    opens(&targets, "real:1", (0, 0), 70);
    assert_eq!(domain(), None);
    // A new name must survive a power loss before anything is placed by it.
    let report = report_of_ost0(1, 70, 70);
    let outcome = targets.report(named("real:1", "r1"), &report).unwrap();
    let ReportOutcome::Verdict(TargetVerdict::Serve, Some((known, true))) = outcome else {
        panic!("it is not recorded");
    };
    targets.mark_durable(OstId(0), &known);
    assert_eq!(domain(), DomainName::new("r1"));
    let copy = report_of_ost0(0, 0, 72);
    targets.report(named("copy:1", "r2"), &copy).unwrap();
    assert_eq!(domain(), DomainName::new("r1"));
    // Before a start has heard of it, too.
    let identity_context = targets.identity_context;
    let clock = FakePlatform::new(1).platform().clock;
    let dial: Arc<dyn DialOss> = Arc::new(UnusedOss);
    let recorded = BTreeMap::from([(OstId(0), targets.recorded(OstId(0)).unwrap())]);
    let restarted = Targets::new(
        identity_context,
        clock,
        Some(dial),
        BTreeMap::new(),
        recorded,
    );
    restarted.admit(Incarnation(6)).unwrap();
    let (domains, is_named) = restarted.failure_domains();
    assert!(is_named);
    assert_eq!(domains.len(), 1);
    assert_eq!(
        (&*domains[0].name, &*domains[0].osts),
        ("r1", &[OstId(0)][..])
    );
}

#[tokio::test(start_paused = true)]
async fn the_copy_that_an_administrator_may_accept_is_the_one_that_was_refused_last() {
    let targets = targets();
    opens(&targets, "real:1", (0, 0), 70);
    opens(&targets, "real:1", (1, 70), 71);
    // Another process has a copy, and the target serves.
    assert!(is_refused(&verdict_on(
        &targets,
        "copy:1",
        &report_of_ost0(1, 70, 72)
    )));
    targets.refused_copy(OstId(0)).unwrap_err();
    // Its own server was killed and has the copy now.
    assert!(is_refused(&verdict_on(
        &targets,
        "real:1",
        &report_of_ost0(1, 70, 73)
    )));
    let refused = targets.refused_copy(OstId(0)).unwrap();
    assert_eq!((refused.copy.stamp, refused.copy.run), (1, 70));
    assert_eq!(refused.address.as_deref(), Some("real:1"));
    let other = TargetCopy {
        run: 69,
        ..refused.copy
    };
    targets.accept_copy(OstId(0), other).unwrap_err();
    targets.accept_copy(OstId(0), refused.copy).unwrap();
    opens(&targets, "real:1", (1, 70), 74);
    assert!(targets.is_up(OstId(0)));
    targets.refused_copy(OstId(0)).unwrap_err();
    assert!(is_refused(&verdict_on(
        &targets,
        "real:1",
        &report_of_ost0(1, 70, 75)
    )));
}
