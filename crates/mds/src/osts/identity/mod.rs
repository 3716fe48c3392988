//! Checks a target's identity: is it the recorded target, and has it seen a later state of this store than the store itself? This
//! module only compares; its callers act on the result.
//!
//! An open instance of a target reports the (stamp, run) that it found in its superblock. If the metadata server believes it, the
//! target is told to write its instance into the superblock (it adopts); it serves after it has reported that it did, and both
//! steps are durable here before their replies:
//!
//! | crash | the superblock | recorded | the next open instance finds |
//! |---|---|---|---|
//! | before the first reply | old | old, adopting | old |
//! | before the target wrote | old | old, adopting | old |
//! | after it wrote | new | old, adopting | the one adopting |
//! | after it reported so | new | new | new |
//!
//! So a copy made before an instance was opened is an older copy as soon as that instance serves.

use gupfs_namespace::{AcceptedCopy, DrainSettings, KnownTarget};
use gupfs_proto::cluster::{OwnerMark, TargetIdentity};
use gupfs_proto::{ClusterId, OstId, OwnerEpoch, Seq};

/// The facts against which targets are checked, besides the recorded identity of each.
#[derive(Clone, Copy, Debug)]
pub struct IdentityContext {
    pub cluster: ClusterId,
    /// This start.
    pub ours: OwnerMark,
    /// The newest batch that this start found.
    pub log_end: Seq,
    /// The first owner after a loss was accepted; 0: none was.
    pub lost_before: OwnerEpoch,
    /// The operator accepts the loss of metadata: targets that have served a later state are believed, and of this process also older
    /// copies.
    pub accept_loss: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum IdentityVerdict {
    /// An open instance of the recorded target: it must adopt this start. Record this before telling it so.
    Adopt(KnownTarget),
    /// It has adopted this start. Record this before telling it to serve.
    Serve(KnownTarget),
    Refused(String),
    /// Its bytes may be older than those that the target has served. It is refused, too, unless an administrator accepts it.
    OlderCopy(String),
    /// The target is the recorded one, and this store is outdated: the target has served a later state of it.
    StoreOutdated(String),
}

/// Whether a target has seen a later state of the store.
pub(crate) fn has_later_state(seen: &OwnerMark, known: &KnownTarget, log_end: Seq) -> bool {
    seen.epoch > known.owner
        || (seen.epoch == known.owner && seen.run != known.owner_run)
        || seen.durable > log_end
}

/// What the operator of this start accepts besides the recorded `KnownTarget::accepted`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Acceptance {
    None,
    /// The metadata store is older than targets.
    Metadata,
    /// And targets may be older copies, or initialised anew.
    Copies,
}

/// What identifies a copy of a target.
pub(super) fn copy_of(reported: &TargetIdentity) -> AcceptedCopy {
    AcceptedCopy {
        incarnation: reported.incarnation,
        stamp: reported.stamp,
        run: reported.run,
    }
}

pub(super) fn check_identity(
    identity_context: &IdentityContext,
    ost: OstId,
    recorded: Option<KnownTarget>,
    reported: &TargetIdentity,
    accepts: Acceptance,
) -> IdentityVerdict {
    // Whatever is accepted: another cluster's objects have the same numbers as this one's.
    if reported.cluster != identity_context.cluster {
        return IdentityVerdict::Refused(format!(
            "it belongs to cluster {}, not to {}: give the OST an empty directory",
            reported.cluster, identity_context.cluster
        ));
    }
    let known = recorded.unwrap_or_else(|| first_seen(reported));
    let is_same = known.incarnation == reported.incarnation;
    let copy = copy_of(reported);
    let is_accepted = known.accepted == Some(copy);
    let accepts_copies = accepts == Acceptance::Copies || is_accepted;
    if !is_same && !accepts_copies {
        return IdentityVerdict::OlderCopy(format!(
            "it was initialised anew (incarnation {:016x}, recorded as {:016x}): its former objects are missing. {OPERATOR_ACTION}",
            reported.incarnation.0, known.incarnation.0
        ));
    }
    if let Some(verdict) = later_state_verdict(identity_context, ost, recorded, reported, accepts) {
        return verdict;
    }
    let next = KnownTarget {
        incarnation: reported.incarnation,
        owner: identity_context.ours.epoch,
        owner_run: identity_context.ours.run,
        accepted: None,
        ..known
    };
    let is_adopting = known.adopting != 0 && reported.run == known.adopting;
    let continues = is_same && continues(&known, reported);
    // The store is restored, and not the target.
    let is_later = has_later_state(&reported.owner, &known, identity_context.log_end)
        || reported.stamp >= known.stamp;
    let is_restored = accepts != Acceptance::None && is_same && is_later;
    let believed = continues || is_restored || accepts_copies;
    if reported.is_adopted() {
        return match believed {
            true => IdentityVerdict::Serve(KnownTarget {
                stamp: reported.stamp,
                run: reported.run,
                adopting: 0,
                ..next
            }),
            false => IdentityVerdict::OlderCopy(other_opening(reported, &known)),
        };
    }
    if !believed {
        return IdentityVerdict::OlderCopy(older_copy(reported, &known));
    }
    // What it found is its identity: an instance that was told to adopt and did not is gone, one that did is this one.
    IdentityVerdict::Adopt(KnownTarget {
        stamp: reported.stamp,
        run: reported.run,
        adopting: reported.open_instance,
        // Until it serves: what it lacks is not forgotten if it is opened again meanwhile.
        accepted: match is_accepted || (!continues && !is_restored) {
            true => Some(copy),
            false => known.accepted.filter(|_| is_adopting),
        },
        ..next
    })
}

/// The record of a target that was never recorded.
fn first_seen(reported: &TargetIdentity) -> KnownTarget {
    KnownTarget {
        incarnation: reported.incarnation,
        stamp: reported.stamp,
        run: reported.run,
        adopting: 0,
        owner: OwnerEpoch(0),
        owner_run: 0,
        lost_since: None,
        draining_since: None,
        is_removed: false,
        domain: None,
        accepted: None,
        drain: DrainSettings::default(),
    }
}

/// The verdict on a target that has seen a later state of the store than the store itself; None if it has not, or if the
/// operator accepts that loss.
fn later_state_verdict(
    identity_context: &IdentityContext,
    ost: OstId,
    recorded: Option<KnownTarget>,
    reported: &TargetIdentity,
    accepts: Acceptance,
) -> Option<IdentityVerdict> {
    let known = recorded.unwrap_or_else(|| first_seen(reported));
    let by_us = reported.owner.is_same_instance(&identity_context.ours);
    if by_us || !has_later_state(&reported.owner, &known, identity_context.log_end) {
        return None;
    }
    let is_below = reported.owner.epoch < identity_context.ours.epoch;
    if accepts != Acceptance::None && is_below {
        return None;
    }
    // Only the recorded target can show that the store is outdated.
    let is_recorded = recorded.is_some_and(|known| known.incarnation == reported.incarnation);
    let is_lost_state = is_below && reported.owner.epoch < identity_context.lost_before;
    Some(match is_recorded && !is_lost_state {
        true => {
            IdentityVerdict::StoreOutdated(store_outdated(ost, reported, &known, identity_context))
        }
        false => IdentityVerdict::Refused(lost_state_served(reported)),
    })
}

/// Whether what the target reports continues what is recorded of it.
fn continues(known: &KnownTarget, reported: &TargetIdentity) -> bool {
    let is_same_run = reported.run == known.run && reported.stamp >= known.stamp;
    let was_adopting = known.adopting != 0 && reported.run == known.adopting;
    // Its superblock is from a version that did not record runs.
    let is_of_old =
        reported.run == 0 && known.owner == OwnerEpoch(0) && reported.stamp >= known.stamp;
    is_same_run || was_adopting || is_of_old
}

const OPERATOR_ACTION: &str = "Bring back the directory it had, or accept the loss (`gupfs ost accept-loss`, or `gupfs up --accept-loss`)";

fn older_copy(reported: &TargetIdentity, known: &KnownTarget) -> String {
    format!(
        "its directory is an older copy (stamp {}, but it has served at stamp {}): later writes are missing. {OPERATOR_ACTION}",
        reported.stamp, known.stamp
    )
}

fn other_opening(reported: &TargetIdentity, known: &KnownTarget) -> String {
    format!(
        "its directory is a copy: another copy was opened since (this one at stamp {}, that one at stamp {}). {OPERATOR_ACTION}",
        reported.stamp, known.stamp
    )
}

fn lost_state_served(reported: &TargetIdentity) -> String {
    format!(
        "it has served a later state of the metadata (owner {}) that is lost: start the metadata server with --accept-loss while \
          its server runs; objects without a file then go to the OST's lost+found",
        reported.owner.epoch
    )
}

fn store_outdated(
    ost: OstId,
    reported: &TargetIdentity,
    known: &KnownTarget,
    identity_context: &IdentityContext,
) -> String {
    let seen = reported.owner;
    let what = if seen.epoch > known.owner {
        format!(
            "it has seen owner {}, but the newest owner that the store recorded for it is {}",
            seen.epoch, known.owner
        )
    } else if seen.run != known.owner_run {
        format!(
            "it has seen another start with owner epoch {} than the store recorded",
            seen.epoch
        )
    } else {
        format!(
            "owner {} reported change {} to it as durable, but the store ends at {}",
            seen.epoch, seen.durable, identity_context.log_end
        )
    };
    format!(
        "the metadata store is an older copy: ost{ost} has served a later state of it ({what}; this start is owner {}). The server \
         serves nothing. Bring back the newest metadata; or, if there is none, start with --accept-loss: all later changes are lost, \
         and objects without a file go to lost+found of their OSTs",
        identity_context.ours.epoch
    )
}

#[cfg(test)]
mod tests;
