use super::*;
use expect_test::{Expect, expect};
use gupfs_proto::Incarnation;

const OURS: ClusterId = ClusterId(7);

fn identity_context() -> IdentityContext {
    IdentityContext {
        cluster: OURS,
        ours: OwnerMark {
            epoch: OwnerEpoch(9),
            run: 900,
            durable: Seq(100),
        },
        log_end: Seq(100),
        lost_before: OwnerEpoch(0),
        accept_loss: false,
    }
}

/// A recorded target at (stamp, run).
fn known(stamp: u64, run: u64) -> KnownTarget {
    KnownTarget {
        incarnation: Incarnation(1),
        stamp,
        run,
        adopting: 0,
        owner: OwnerEpoch(8),
        owner_run: 800,
        lost_since: None,
        draining_since: None,
        is_removed: false,
        domain: None,
        accepted: None,
        drain: DrainSettings::default(),
    }
}

/// An open instance that found (stamp, run).
fn opening(stamp: u64, run: u64) -> TargetIdentity {
    TargetIdentity {
        cluster: OURS,
        incarnation: Incarnation(1),
        stamp,
        run,
        open_instance: 1_000,
        stopped: false,
        owner: OwnerMark {
            epoch: OwnerEpoch(8),
            run: 800,
            durable: Seq(90),
        },
    }
}

fn serving(stamp: u64, run: u64) -> TargetIdentity {
    TargetIdentity {
        open_instance: run,
        ..opening(stamp, run)
    }
}

fn with_owner(owner: (u64, u64, u64), reported: TargetIdentity) -> TargetIdentity {
    let owner = OwnerMark {
        epoch: OwnerEpoch(owner.0),
        run: owner.1,
        durable: Seq(owner.2),
    };
    TargetIdentity { owner, ..reported }
}

fn show(verdict: IdentityVerdict) -> String {
    let known = |r: &KnownTarget| {
        assert_eq!((r.owner, r.owner_run), (OwnerEpoch(9), 900));
        format!("{} {} {}", r.stamp, r.run, r.adopting)
    };
    match verdict {
        IdentityVerdict::Adopt(r) => format!("adopt, remember {}", known(&r)),
        IdentityVerdict::Serve(r) => format!("serve, remember {}", known(&r)),
        IdentityVerdict::Refused(why) => format!("refused: {why}"),
        IdentityVerdict::OlderCopy(why) => format!("refused: {why}"),
        IdentityVerdict::StoreOutdated(why) => format!("restored: {why}"),
    }
}

fn check(before: KnownTarget, reported: TargetIdentity, expected: Expect) {
    expected.assert_eq(&show(check_identity(
        &identity_context(),
        OstId(1),
        Some(before),
        &reported,
        Acceptance::None,
    )));
}

fn accepted(before: KnownTarget, reported: TargetIdentity, expected: Expect) {
    expected.assert_eq(&show(check_identity(
        &identity_context(),
        OstId(1),
        Some(before),
        &reported,
        Acceptance::Copies,
    )));
}

#[test]
fn an_instance_that_found_the_recorded_stamp_is_adopted_and_then_serves() {
    check(
        known(5, 70),
        opening(5, 70),
        expect!["adopt, remember 5 70 1000"],
    );
    // It had raised its stamp, and could not report so.
    check(
        known(5, 70),
        opening(7, 70),
        expect!["adopt, remember 7 70 1000"],
    );
    let reported = KnownTarget {
        adopting: 1_000,
        ..known(5, 70)
    };
    check(
        reported,
        serving(6, 1_000),
        expect!["serve, remember 6 1000 0"],
    );
    check(
        known(6, 70),
        serving(6, 70),
        expect!["serve, remember 6 70 0"],
    );
    check(
        known(6, 70),
        serving(8, 70),
        expect!["serve, remember 8 70 0"],
    );
}

#[test]
fn an_interrupted_adoption_continues_before_and_after_the_superblock_write() {
    let adopting = KnownTarget {
        adopting: 71,
        ..known(5, 70)
    };
    check(
        adopting,
        opening(5, 70),
        expect!["adopt, remember 5 70 1000"],
    );
    check(
        adopting,
        opening(6, 71),
        expect!["adopt, remember 6 71 1000"],
    );
}

#[test]
fn an_older_copy_is_refused_however_often_it_was_opened() {
    let refused = expect![[
        "refused: its directory is an older copy (stamp 4, but it has served at stamp 5): later writes are missing. Bring back the directory it had, or accept the loss (`gupfs ost accept-loss`, or `gupfs up --accept-loss`)"
    ]];
    check(known(5, 70), opening(4, 70), refused);
    // A copy of another run may have any stamp.
    let refused = expect![[
        "refused: its directory is an older copy (stamp 50, but it has served at stamp 5): later writes are missing. Bring back the directory it had, or accept the loss (`gupfs ost accept-loss`, or `gupfs up --accept-loss`)"
    ]];
    check(known(5, 70), opening(50, 69), refused);
    accepted(
        known(5, 70),
        opening(4, 69),
        expect!["adopt, remember 4 69 1000"],
    );
}

#[test]
fn an_original_is_refused_after_its_copy_was_believed() {
    let refused = expect![[
        "refused: its directory is a copy: another copy was opened since (this one at stamp 50, that one at stamp 5). Bring back the directory it had, or accept the loss (`gupfs ost accept-loss`, or `gupfs up --accept-loss`)"
    ]];
    check(known(5, 70), serving(50, 69), refused);
}

#[test]
fn a_superblock_without_a_run_is_believed_until_it_adopted_an_owner() {
    let old = KnownTarget {
        owner: OwnerEpoch(0),
        owner_run: 0,
        ..known(5, 70)
    };
    let found = with_owner((0, 0, 0), opening(5, 0));
    check(old, found, expect!["adopt, remember 5 0 1000"]);
    // The server ended before it wrote: its superblock is as old as it was.
    let adopting = KnownTarget {
        adopting: 1_000,
        ..known(5, 0)
    };
    check(adopting, found, expect!["adopt, remember 5 0 1000"]);
    let refused = expect![[
        "refused: its directory is an older copy (stamp 5, but it has served at stamp 5): later writes are missing. Bring back the directory it had, or accept the loss (`gupfs ost accept-loss`, or `gupfs up --accept-loss`)"
    ]];
    check(known(5, 70), found, refused);
}

#[test]
fn a_target_initialised_anew_is_refused_until_its_loss_is_accepted() {
    let reinitialised = TargetIdentity {
        incarnation: Incarnation(2),
        ..with_owner((0, 0, 0), opening(0, 0))
    };
    let refused = expect![[
        "refused: it was initialised anew (incarnation 0000000000000002, recorded as 0000000000000001): its former objects are missing. Bring back the directory it had, or accept the loss (`gupfs ost accept-loss`, or `gupfs up --accept-loss`)"
    ]];
    check(known(5, 70), reinitialised, refused);
    accepted(
        known(5, 70),
        reinitialised,
        expect!["adopt, remember 0 0 1000"],
    );
}

#[test]
fn another_clusters_target_is_refused_whatever_is_accepted() {
    let reported = TargetIdentity {
        cluster: ClusterId(8),
        ..opening(5, 70)
    };
    let verdict = check_identity(
        &identity_context(),
        OstId(1),
        None,
        &reported,
        Acceptance::Copies,
    );
    assert!(matches!(verdict, IdentityVerdict::Refused(_)));
}

#[test]
fn a_store_older_than_a_targets_owner_mark_is_an_older_copy() {
    let later = expect![[
        "restored: the metadata store is an older copy: ost1 has served a later state of it (it has seen owner 12, but the newest owner that the store recorded for it is 8; this start is owner 9). The server serves nothing. Bring back the newest metadata; or, if there is none, start with --accept-loss: all later changes are lost, and objects without a file go to lost+found of their OSTs"
    ]];
    check(known(5, 70), with_owner((12, 1, 90), opening(9, 75)), later);
    // Failed starts have raised the store's own epoch beyond it.
    let between = IdentityContext {
        ours: OwnerMark {
            epoch: OwnerEpoch(20),
            ..identity_context().ours
        },
        ..identity_context()
    };
    for owner in [(12, 1, 90), (8, 801, 90), (8, 800, 101)] {
        let reported = with_owner(owner, opening(5, 70));
        let verdict = check_identity(
            &between,
            OstId(1),
            Some(known(5, 70)),
            &reported,
            Acceptance::None,
        );
        assert!(
            matches!(verdict, IdentityVerdict::StoreOutdated(_)),
            "{owner:?}: {verdict:?}"
        );
    }
    // At an epoch that is the same by chance.
    let equal = with_owner((9, 901, 90), serving(5, 70));
    let verdict = check_identity(
        &identity_context(),
        OstId(1),
        Some(known(5, 70)),
        &equal,
        Acceptance::None,
    );
    assert!(
        matches!(verdict, IdentityVerdict::StoreOutdated(_)),
        "{verdict:?}"
    );
}

#[test]
fn an_owner_mark_of_this_start_is_no_later_state() {
    let reported = with_owner((9, 900, 5_000), serving(5, 70));
    check(known(5, 70), reported, expect!["serve, remember 5 70 0"]);
    // It missed the newest owner mark: it knows less than it could.
    let reported = with_owner((7, 700, 80), opening(5, 70));
    check(known(5, 70), reported, expect!["adopt, remember 5 70 1000"]);
}

#[test]
fn a_loss_is_accepted_only_above_all_reported_owners() {
    let below = with_owner((8, 801, 5_000), opening(5, 70));
    accepted(known(5, 70), below, expect!["adopt, remember 5 70 1000"]);
    for above in [(9, 901, 0), (12, 1, 0)] {
        let reported = with_owner(above, opening(5, 70));
        let verdict = check_identity(
            &identity_context(),
            OstId(1),
            Some(known(5, 70)),
            &reported,
            Acceptance::Copies,
        );
        assert!(
            matches!(verdict, IdentityVerdict::StoreOutdated(_)),
            "{verdict:?}"
        );
    }
}

#[test]
fn a_target_that_comes_after_its_loss_was_accepted_is_refused_alone() {
    let after = IdentityContext {
        lost_before: OwnerEpoch(9),
        ..identity_context()
    };
    let reported = with_owner((8, 801, 90), opening(5, 70));
    let verdict = check_identity(
        &after,
        OstId(1),
        Some(known(5, 70)),
        &reported,
        Acceptance::None,
    );
    let IdentityVerdict::Refused(why) = verdict else {
        panic!("{verdict:?}");
    };
    assert!(why.contains("--accept-loss"), "{why}");
}

#[test]
fn an_unrecorded_target_cannot_stop_the_server_by_its_claims() {
    let claim = with_owner((u64::MAX, 1, u64::MAX), opening(5, 70));
    let verdict = check_identity(
        &identity_context(),
        OstId(1),
        None,
        &claim,
        Acceptance::None,
    );
    assert!(
        matches!(verdict, IdentityVerdict::Refused(_)),
        "{verdict:?}"
    );
    let other = TargetIdentity {
        incarnation: Incarnation(3),
        ..claim
    };
    for accept in [Acceptance::None, Acceptance::Copies] {
        let verdict = check_identity(
            &identity_context(),
            OstId(1),
            Some(known(5, 70)),
            &other,
            accept,
        );
        assert!(
            matches!(
                verdict,
                IdentityVerdict::Refused(_) | IdentityVerdict::OlderCopy(_)
            ),
            "{verdict:?}"
        );
    }
}

#[test]
fn an_accepted_copy_is_adopted_once_and_no_other_one() {
    let accepting = |stamp, run| KnownTarget {
        accepted: Some(AcceptedCopy {
            incarnation: Incarnation(1),
            stamp,
            run,
        }),
        ..known(9, 70)
    };
    let context = identity_context();
    let verdict = |known, reported: &TargetIdentity| {
        check_identity(&context, OstId(1), Some(known), reported, Acceptance::None)
    };
    for other in [opening(3, 69), opening(4, 68), opening(8, 70)] {
        let refused = verdict(accepting(4, 69), &other);
        assert!(
            matches!(refused, IdentityVerdict::OlderCopy(_)),
            "{refused:?}"
        );
    }
    let anew = TargetIdentity {
        incarnation: Incarnation(2),
        ..opening(4, 69)
    };
    let refused = verdict(accepting(4, 69), &anew);
    assert!(
        matches!(refused, IdentityVerdict::OlderCopy(_)),
        "{refused:?}"
    );
    // The decision stays recorded until the copy serves, however often it is opened, and is used up then.
    let IdentityVerdict::Adopt(adopting) = verdict(accepting(4, 69), &opening(4, 69)) else {
        panic!("refused");
    };
    assert_eq!(adopting.accepted, accepting(4, 69).accepted);
    let opened_again = TargetIdentity {
        open_instance: 1_001,
        ..opening(5, 1_000)
    };
    let IdentityVerdict::Adopt(again) = verdict(adopting, &opened_again) else {
        panic!("refused");
    };
    assert_eq!(again.accepted, accepting(4, 69).accepted);
    let IdentityVerdict::Serve(serves) = verdict(again, &serving(6, 1_001)) else {
        panic!("refused");
    };
    assert_eq!(serves.accepted, None);
    let refused = verdict(serves, &opening(4, 69));
    assert!(
        matches!(refused, IdentityVerdict::OlderCopy(_)),
        "{refused:?}"
    );
    // So it is when the target itself returns.
    let IdentityVerdict::Adopt(returned) = verdict(accepting(4, 69), &opening(9, 70)) else {
        panic!("refused");
    };
    assert_eq!(returned.accepted, None);
}

#[test]
fn a_start_that_accepts_the_loss_of_metadata_believes_no_older_copy_of_a_target() {
    let check = |reported: &TargetIdentity| {
        let before = Some(known(9, 70));
        let accepts = Acceptance::Metadata;
        check_identity(&identity_context(), OstId(1), before, reported, accepts)
    };
    let refused = check(&opening(4, 69));
    assert!(
        matches!(refused, IdentityVerdict::OlderCopy(_)),
        "{refused:?}"
    );
    // Opened again since the backup of the metadata.
    for later in [opening(12, 75), with_owner((8, 801, 5_000), opening(4, 75))] {
        let IdentityVerdict::Adopt(known) = check(&later) else {
            panic!("refused");
        };
        assert_eq!(known.accepted, None);
    }
}
