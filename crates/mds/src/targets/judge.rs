//! Is a target who it was, and does it know more of this store than the store itself? Plain comparison; what follows from it is
//! the callers' affair.
//!
//! A target's opening says what (stamp, run) it found in its superblock. Believed, it is told to write itself down there; it
//! serves after it has said that it did, and both steps are durable here before they are answered:
//!
//! | crash | the superblock | remembered | the next opening finds |
//! |---|---|---|---|
//! | before the first answer | old | old, adopting | old |
//! | before the target wrote | old | old, adopting | old |
//! | after it wrote | new | old, adopting | the one adopting |
//! | after it said so | new | new | new |
//!
//! A copy made before an opening so is an older one as soon as that opening serves.

use gupfs_namespace::KnownTarget;
use gupfs_proto::cluster::{OwnerMark, TargetIdentity};
use gupfs_proto::{ClusterId, OstId, OwnerEpoch, Seq};

/// What targets are compared with, besides what is remembered of each.
#[derive(Clone, Copy, Debug)]
pub struct Ground {
    pub cluster: ClusterId,
    /// This start.
    pub ours: OwnerMark,
    /// The newest batch that this start found.
    pub found: Seq,
    /// The first owner after a loss was accepted; 0: none was.
    pub lost_before: OwnerEpoch,
    /// The operator knows that something is lost: a target's first report is believed, whatever was remembered.
    pub accept_loss: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// An opening of the target that was: it is to write itself down. What to remember before it is told so.
    Adopt(KnownTarget),
    /// It is written down. What to remember before it is told to serve.
    Serve(KnownTarget),
    Refused(String),
    /// It is who it was, and this store is not: it has served a later state of it.
    Restored(String),
}

/// Whether a target has served a later state of the store.
pub(crate) fn knows_more(seen: &OwnerMark, known: &KnownTarget, found: Seq) -> bool {
    seen.epoch > known.owner
        || (seen.epoch == known.owner && seen.run != known.owner_run)
        || seen.durable > found
}

pub(super) fn judge(
    ground: &Ground,
    ost: OstId,
    remembered: Option<KnownTarget>,
    told: &TargetIdentity,
    accept_loss: bool,
) -> Verdict {
    // Not even with accept_loss: another cluster's objects carry this one's numbers.
    if told.cluster != ground.cluster {
        return Verdict::Refused(format!(
            "it belongs to cluster {}, not to {}: give it an empty directory",
            told.cluster, ground.cluster
        ));
    }
    let known = remembered.unwrap_or(KnownTarget {
        incarnation: told.incarnation,
        stamp: told.stamp,
        run: told.run,
        adopting: 0,
        owner: OwnerEpoch(0),
        owner_run: 0,
    });
    let is_new = remembered.is_none();
    let is_same = known.incarnation == told.incarnation;
    if !is_same && !accept_loss {
        return Verdict::Refused(format!(
            "it was initialised anew (incarnation {:016x}, known as {:016x}): what it held is not there. {TODO}",
            told.incarnation.0, known.incarnation.0
        ));
    }
    let by_us = told.owner.is_same_start(&ground.ours);
    if !by_us && knows_more(&told.owner, &known, ground.found) {
        let is_below = told.owner.epoch < ground.ours.epoch;
        if !(accept_loss && is_below) {
            // Only the target that is remembered can say that the store is not.
            return if is_new || !is_same || (is_below && told.owner.epoch < ground.lost_before) {
                Verdict::Refused(lost_with_it(told))
            } else {
                Verdict::Restored(restored(ost, told, &known, ground))
            };
        }
    }
    let next = KnownTarget {
        incarnation: told.incarnation,
        owner: ground.ours.epoch,
        owner_run: ground.ours.run,
        ..known
    };
    let continues = is_same && told.run == known.run && told.stamp >= known.stamp;
    let was_adopting = is_same && known.adopting != 0 && told.run == known.adopting;
    // Its superblock is of a time before runs were written down.
    let is_of_old =
        is_same && told.run == 0 && known.owner == OwnerEpoch(0) && told.stamp >= known.stamp;
    let believed = continues || was_adopting || is_of_old || accept_loss;
    if told.is_adopted() {
        return match believed {
            true => Verdict::Serve(KnownTarget {
                stamp: told.stamp,
                run: told.run,
                adopting: 0,
                ..next
            }),
            false => Verdict::Refused(other_opening(told, &known)),
        };
    }
    if !believed {
        return Verdict::Refused(older_copy(told, &known));
    }
    // What it found is what it is: an opening that was told to write itself down and did not is over, one that did is this.
    Verdict::Adopt(KnownTarget {
        stamp: told.stamp,
        run: told.run,
        adopting: told.opening,
        ..next
    })
}

const TODO: &str = "Bring back the directory it had, or start with --accept-loss";

fn older_copy(told: &TargetIdentity, known: &KnownTarget) -> String {
    format!(
        "its directory is an older copy (it is at stamp {}, and had served at {}): later writes are not there. {TODO}",
        told.stamp, known.stamp
    )
}

fn other_opening(told: &TargetIdentity, known: &KnownTarget) -> String {
    format!(
        "its directory is a copy: another one of it was opened since (this one is at stamp {}, that one at {}). {TODO}",
        told.stamp, known.stamp
    )
}

fn lost_with_it(told: &TargetIdentity) -> String {
    format!(
        "it has served a later state of the metadata (owner {}) that is lost: start the metadata server with --accept-loss while \
         its server runs; objects that no file has then go to its lost+found",
        told.owner.epoch
    )
}

fn restored(ost: OstId, told: &TargetIdentity, known: &KnownTarget, ground: &Ground) -> String {
    let seen = told.owner;
    let what = if seen.epoch > known.owner {
        format!(
            "it has heard of owner {}, and the newest that the store remembers to have told it of is {}",
            seen.epoch, known.owner
        )
    } else if seen.run != known.owner_run {
        format!(
            "it has heard of another owner {} than the store remembers",
            seen.epoch
        )
    } else {
        format!(
            "owner {} told it of change {}, and the store ends at {}",
            seen.epoch, seen.durable, ground.found
        )
    };
    format!(
        "the metadata store is an older copy: ost{ost} has served a later state of it ({what}; this start is owner {}). Nothing \
         is served. Bring back the newest metadata; or, if there is none, start with --accept-loss: what was made since is lost, \
         and objects that no file has then go to lost+found of their OSTs",
        ground.ours.epoch
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use gupfs_proto::Incarnation;

    const OURS: ClusterId = ClusterId(7);

    fn ground() -> Ground {
        Ground {
            cluster: OURS,
            ours: OwnerMark {
                epoch: OwnerEpoch(9),
                run: 900,
                durable: Seq(100),
            },
            found: Seq(100),
            lost_before: OwnerEpoch(0),
            accept_loss: false,
        }
    }

    /// As (stamp, run).
    fn known(stamp: u64, run: u64) -> KnownTarget {
        KnownTarget {
            incarnation: Incarnation(1),
            stamp,
            run,
            adopting: 0,
            owner: OwnerEpoch(8),
            owner_run: 800,
        }
    }

    /// An opening that found (stamp, run).
    fn opening(stamp: u64, run: u64) -> TargetIdentity {
        TargetIdentity {
            cluster: OURS,
            incarnation: Incarnation(1),
            stamp,
            run,
            opening: 1_000,
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
            opening: run,
            ..opening(stamp, run)
        }
    }

    fn heard(owner: (u64, u64, u64), told: TargetIdentity) -> TargetIdentity {
        let owner = OwnerMark {
            epoch: OwnerEpoch(owner.0),
            run: owner.1,
            durable: Seq(owner.2),
        };
        TargetIdentity { owner, ..told }
    }

    fn show(verdict: Verdict) -> String {
        let known = |r: &KnownTarget| {
            assert_eq!((r.owner, r.owner_run), (OwnerEpoch(9), 900));
            format!("{} {} {}", r.stamp, r.run, r.adopting)
        };
        match verdict {
            Verdict::Adopt(r) => format!("adopt, remember {}", known(&r)),
            Verdict::Serve(r) => format!("serve, remember {}", known(&r)),
            Verdict::Refused(why) => format!("refused: {why}"),
            Verdict::Restored(why) => format!("restored: {why}"),
        }
    }

    fn check(before: KnownTarget, told: TargetIdentity, expected: Expect) {
        expected.assert_eq(&show(judge(
            &ground(),
            OstId(1),
            Some(before),
            &told,
            false,
        )));
    }

    fn accepted(before: KnownTarget, told: TargetIdentity, expected: Expect) {
        expected.assert_eq(&show(judge(&ground(), OstId(1), Some(before), &told, true)));
    }

    #[test]
    fn an_opening_that_found_what_is_remembered_is_adopted_and_then_serves() {
        check(
            known(5, 70),
            opening(5, 70),
            expect!["adopt, remember 5 70 1000"],
        );
        // It had raised its stamp, and could not say so.
        check(
            known(5, 70),
            opening(7, 70),
            expect!["adopt, remember 7 70 1000"],
        );
        let told = KnownTarget {
            adopting: 1_000,
            ..known(5, 70)
        };
        check(told, serving(6, 1_000), expect!["serve, remember 6 1000 0"]);
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
    fn an_adoption_that_broke_off_is_taken_up_on_either_side_of_its_writing() {
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
            "refused: its directory is an older copy (it is at stamp 4, and had served at 5): later writes are not there. Bring back the directory it had, or start with --accept-loss"
        ]];
        check(known(5, 70), opening(4, 70), refused);
        // Of another run it may have any stamp.
        let refused = expect![[
            "refused: its directory is an older copy (it is at stamp 50, and had served at 5): later writes are not there. Bring back the directory it had, or start with --accept-loss"
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
            "refused: its directory is a copy: another one of it was opened since (this one is at stamp 50, that one at 5). Bring back the directory it had, or start with --accept-loss"
        ]];
        check(known(5, 70), serving(50, 69), refused);
    }

    #[test]
    fn a_superblock_from_before_runs_is_believed_until_an_owner_was_told() {
        let old = KnownTarget {
            owner: OwnerEpoch(0),
            owner_run: 0,
            ..known(5, 70)
        };
        let found = heard((0, 0, 0), opening(5, 0));
        check(old, found, expect!["adopt, remember 5 0 1000"]);
        // The server ended before it wrote: its superblock is as old as it was.
        let adopting = KnownTarget {
            adopting: 1_000,
            ..known(5, 0)
        };
        check(adopting, found, expect!["adopt, remember 5 0 1000"]);
        let refused = expect![[
            "refused: its directory is an older copy (it is at stamp 5, and had served at 5): later writes are not there. Bring back the directory it had, or start with --accept-loss"
        ]];
        check(known(5, 70), found, refused);
    }

    #[test]
    fn a_target_initialised_anew_is_refused_until_its_loss_is_accepted() {
        let anew = TargetIdentity {
            incarnation: Incarnation(2),
            ..heard((0, 0, 0), opening(0, 0))
        };
        let refused = expect![[
            "refused: it was initialised anew (incarnation 0000000000000002, known as 0000000000000001): what it held is not there. Bring back the directory it had, or start with --accept-loss"
        ]];
        check(known(5, 70), anew, refused);
        accepted(known(5, 70), anew, expect!["adopt, remember 0 0 1000"]);
    }

    #[test]
    fn another_clusters_target_is_refused_whatever_is_accepted() {
        let told = TargetIdentity {
            cluster: ClusterId(8),
            ..opening(5, 70)
        };
        let verdict = judge(&ground(), OstId(1), None, &told, true);
        assert!(matches!(verdict, Verdict::Refused(_)));
    }

    #[test]
    fn a_store_that_does_not_know_what_a_target_has_heard_is_an_older_copy() {
        let later = expect![[
            "restored: the metadata store is an older copy: ost1 has served a later state of it (it has heard of owner 12, and the newest that the store remembers to have told it of is 8; this start is owner 9). Nothing is served. Bring back the newest metadata; or, if there is none, start with --accept-loss: what was made since is lost, and objects that no file has then go to lost+found of their OSTs"
        ]];
        check(known(5, 70), heard((12, 1, 90), opening(9, 75)), later);
        // Starts in vain have raised the store's own epoch beyond it.
        let between = Ground {
            ours: OwnerMark {
                epoch: OwnerEpoch(20),
                ..ground().ours
            },
            ..ground()
        };
        for owner in [(12, 1, 90), (8, 801, 90), (8, 800, 101)] {
            let told = heard(owner, opening(5, 70));
            let verdict = judge(&between, OstId(1), Some(known(5, 70)), &told, false);
            assert!(
                matches!(verdict, Verdict::Restored(_)),
                "{owner:?}: {verdict:?}"
            );
        }
        // At an epoch that is the same by chance.
        let equal = heard((9, 901, 90), serving(5, 70));
        let verdict = judge(&ground(), OstId(1), Some(known(5, 70)), &equal, false);
        assert!(matches!(verdict, Verdict::Restored(_)), "{verdict:?}");
    }

    #[test]
    fn what_this_start_told_it_is_nothing_new() {
        let told = heard((9, 900, 5_000), serving(5, 70));
        check(known(5, 70), told, expect!["serve, remember 5 70 0"]);
        // It missed what it was told last: it knows less than it could.
        let told = heard((7, 700, 80), opening(5, 70));
        check(known(5, 70), told, expect!["adopt, remember 5 70 1000"]);
    }

    #[test]
    fn a_loss_is_accepted_only_above_everything_that_was_heard() {
        let below = heard((8, 801, 5_000), opening(5, 70));
        accepted(known(5, 70), below, expect!["adopt, remember 5 70 1000"]);
        for above in [(9, 901, 0), (12, 1, 0)] {
            let told = heard(above, opening(5, 70));
            let verdict = judge(&ground(), OstId(1), Some(known(5, 70)), &told, true);
            assert!(matches!(verdict, Verdict::Restored(_)), "{verdict:?}");
        }
    }

    #[test]
    fn a_target_that_comes_after_its_loss_was_accepted_is_refused_alone() {
        let after = Ground {
            lost_before: OwnerEpoch(9),
            ..ground()
        };
        let told = heard((8, 801, 90), opening(5, 70));
        let verdict = judge(&after, OstId(1), Some(known(5, 70)), &told, false);
        let Verdict::Refused(why) = verdict else {
            panic!("{verdict:?}");
        };
        assert!(why.contains("--accept-loss"), "{why}");
    }

    #[test]
    fn a_target_that_nobody_remembers_ends_nothing_by_what_it_claims() {
        let claim = heard((u64::MAX, 1, u64::MAX), opening(5, 70));
        let verdict = judge(&ground(), OstId(1), None, &claim, false);
        assert!(matches!(verdict, Verdict::Refused(_)), "{verdict:?}");
        let other = TargetIdentity {
            incarnation: Incarnation(3),
            ..claim
        };
        for accept in [false, true] {
            let verdict = judge(&ground(), OstId(1), Some(known(5, 70)), &other, accept);
            assert!(matches!(verdict, Verdict::Refused(_)), "{verdict:?}");
        }
    }
}
