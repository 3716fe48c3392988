//! Is a target who it was? Plain comparison; what follows from it is the callers' affair.

use gupfs_names::KnownTarget;
use gupfs_proto::{ClusterId, Incarnation, OstId};

/// What a target's admin side says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetInfo {
    pub ost: OstId,
    pub cluster: ClusterId,
    pub incarnation: Incarnation,
    /// Rises at each opening of the target and while it serves. What is told lies durable at the target already, so it
    /// never tells less later unless its directory is an older copy.
    pub stamp: u64,
    /// Made at random at each opening of the target: an older copy that was opened once more reaches the stamp that was
    /// heard last, but not by the same run.
    pub run: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Believed; what to remember instead of what was, if it differs.
    Good(Option<KnownTarget>),
    Refused(String),
}

pub(super) fn judge(
    cluster: ClusterId,
    remembered: Option<KnownTarget>,
    told: &TargetInfo,
    accept_loss: bool,
) -> Verdict {
    // Not even with accept_loss: another cluster's objects carry this one's numbers.
    if told.cluster != cluster {
        return Verdict::Refused(format!(
            "it belongs to cluster {}, not to {cluster}: give it an empty directory",
            told.cluster
        ));
    }
    let now = KnownTarget {
        incarnation: told.incarnation,
        stamp: told.stamp,
        run: told.run,
    };
    let Some(before) = remembered else {
        return Verdict::Good(Some(now));
    };
    if before == now {
        return Verdict::Good(None);
    }
    let risen = before.incarnation == now.incarnation && before.stamp < now.stamp;
    if risen || accept_loss {
        return Verdict::Good(Some(now));
    }
    let what = if before.incarnation != now.incarnation {
        format!(
            "it was initialised anew (incarnation {:016x}, known as {:016x}): what it held is not there",
            now.incarnation.0, before.incarnation.0
        )
    } else {
        format!(
            "its directory is an older copy (opened at stamp {}, it had served at {}): later writes are not there",
            now.stamp, before.stamp
        )
    };
    Verdict::Refused(format!(
        "{what}. Bring back the directory it had, or start with --accept-loss"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    const OURS: ClusterId = ClusterId(7);

    /// Each as (incarnation, stamp, run).
    fn check(
        before: Option<(u64, u64, u64)>,
        told: (u64, u64, u64),
        accept_loss: bool,
        expected: Expect,
    ) {
        let remembered = before.map(|(incarnation, stamp, run)| KnownTarget {
            incarnation: Incarnation(incarnation),
            stamp,
            run,
        });
        let told = TargetInfo {
            ost: OstId(1),
            cluster: OURS,
            incarnation: Incarnation(told.0),
            stamp: told.1,
            run: told.2,
        };
        let text = match judge(OURS, remembered, &told, accept_loss) {
            Verdict::Good(None) => "good".into(),
            Verdict::Good(Some(r)) => {
                format!("good, remember {} {} {}", r.incarnation, r.stamp, r.run)
            }
            Verdict::Refused(why) => why,
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn a_target_that_is_new_the_same_or_further_is_good() {
        check(None, (1, 5, 70), false, expect!["good, remember 1 5 70"]);
        check(Some((1, 5, 70)), (1, 5, 70), false, expect!["good"]);
        check(
            Some((1, 5, 70)),
            (1, 6, 70),
            false,
            expect!["good, remember 1 6 70"],
        );
        check(
            Some((1, 5, 70)),
            (1, 6, 71),
            false,
            expect!["good, remember 1 6 71"],
        );
    }

    #[test]
    fn an_older_copy_is_refused_until_its_loss_is_accepted() {
        check(
            Some((1, 5, 70)),
            (1, 4, 71),
            false,
            expect![
                "its directory is an older copy (opened at stamp 4, it had served at 5): later writes are not there. Bring back the directory it had, or start with --accept-loss"
            ],
        );
        check(
            Some((1, 5, 70)),
            (1, 4, 71),
            true,
            expect!["good, remember 1 4 71"],
        );
    }

    #[test]
    fn a_copy_one_opening_older_reaches_the_same_stamp_in_another_run() {
        check(
            Some((1, 5, 70)),
            (1, 5, 71),
            false,
            expect![
                "its directory is an older copy (opened at stamp 5, it had served at 5): later writes are not there. Bring back the directory it had, or start with --accept-loss"
            ],
        );
    }

    #[test]
    fn a_target_initialised_anew_is_refused_until_its_loss_is_accepted() {
        check(
            Some((1, 5, 70)),
            (2, 9, 71),
            false,
            expect![
                "it was initialised anew (incarnation 0000000000000002, known as 0000000000000001): what it held is not there. Bring back the directory it had, or start with --accept-loss"
            ],
        );
        check(
            Some((1, 5, 70)),
            (2, 1, 71),
            true,
            expect!["good, remember 2 1 71"],
        );
    }

    #[test]
    fn another_clusters_target_is_refused_whatever_is_accepted() {
        let told = TargetInfo {
            ost: OstId(1),
            cluster: ClusterId(8),
            incarnation: Incarnation(1),
            stamp: 1,
            run: 1,
        };
        assert!(matches!(
            judge(OURS, None, &told, true),
            Verdict::Refused(_)
        ));
    }
}
