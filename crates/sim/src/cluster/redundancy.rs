//! # redundancy: whether the members of mirrored stripes have the same bytes
//!
//! Owns   the comparison of all members with each other; the search for stale members.
//! Never  asks a client: it compares what is on the disks of the object servers, by the metadata server's records.
//! Enter  at `check_at_rest` after a simulation, at `is_whole` and `unequal_members` between two faults; at `count_changes_of_members` for
//!        counts of rare events.

use super::simulated_cluster::SimulatedCluster;
use gupfs_namespace::FileBody;
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest, ScrubAction, ScrubSummary};
use gupfs_proto::data::{ChecksumCheck, ObjectExistence};
use gupfs_proto::{FsError, InodeId, ObjectId, ObjectOffset, OstId, Presence};
use gupfs_rpc::Service;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// More than the size of any object of a simulated cluster.
const OBJECT_MAX: u64 = 1 << 20;

const POLL_INTERVAL: Duration = Duration::from_millis(500);

const COUNT_INTERVAL: Duration = Duration::from_millis(250);

/// What an object is: its bytes, or None if it does not exist.
type Found = Result<Option<Vec<u8>>, FsError>;

/// Called when all faults are over and no client has a session: stale members become full, a scrub finds nothing that it cannot repair, and
/// all members are equal then.
///
/// # Panics
/// When one of that is not so before it is `late`.
pub(super) async fn check_at_rest(cluster: &SimulatedCluster, late: impl Fn() -> bool) {
    loop {
        wait_until_full(cluster, &late).await;
        let found = scrub(cluster, &late).await;
        let found = found.expect("the metadata server runs");
        cluster.record(format_args!("a scrub at rest: {found:?}"));
        assert_eq!((found.damaged, found.files_left), (0, 0), "{found:?}");
        // Members that it could not repair in place are stale now.
        if stale_files(cluster).is_empty() {
            break;
        }
    }
    check_full_members(cluster).await;
}

/// Members that count as full are equal.
///
/// # Panics
/// If they are not.
async fn check_full_members(cluster: &SimulatedCluster) {
    let unequal = unequal_members(cluster).await;
    assert!(unequal.is_empty(), "at rest: {unequal:#?}");
}

async fn wait_until_full(cluster: &SimulatedCluster, late: &impl Fn() -> bool) {
    loop {
        let stale = stale_files(cluster);
        if stale.is_empty() {
            return;
        }
        assert!(!late(), "members stay stale: {stale:?}");
        cluster.sleep(POLL_INTERVAL).await;
    }
}

/// The inodes with stale members, and the number of sessions with write leases of each.
pub(super) fn stale_files(cluster: &SimulatedCluster) -> Vec<(InodeId, u32)> {
    let files = cluster.metadata.files().unwrap_or_default();
    let stale = files
        .iter()
        .filter(|(_, file)| file.layout.has_stale_member());
    stale.map(|(ino, file)| (*ino, file.write_leases)).collect()
}

/// What the metadata server says of its resyncs, and what its operations wait for; None while it does not run.
pub(super) async fn resync_status(cluster: &SimulatedCluster) -> Option<String> {
    let mds = cluster.metadata.mds()?;
    let status = mds.status().await;
    let expected = cluster.metadata.expected_resyncs();
    Some(format!(
        "{:?}, expected: {expected:?}, waits: {:?}",
        status.resync, status.waits
    ))
}

/// Scrubs everything. None if the metadata server does not run.
pub(super) async fn scrub(
    cluster: &SimulatedCluster,
    late: impl Fn() -> bool,
) -> Option<ScrubSummary> {
    let ask = async |action| {
        let mds = cluster.metadata.mds()?;
        match mds.handle(ClusterRequest::Scrub { action }).await {
            Ok(ClusterReplyBody::Scrubbing(summary)) => Some(summary),
            other => panic!("a scrub: {other:?}"),
        }
    };
    let before = ask(ScrubAction::Ask).await?.passes;
    ask(ScrubAction::Start { rate: None }).await?;
    loop {
        cluster.sleep(POLL_INTERVAL).await;
        let found = ask(ScrubAction::Ask).await?;
        if !found.is_scrubbing && found.passes > before {
            return Some(found);
        }
        assert!(!late(), "a scrub does not end: {found:?}");
    }
}

/// Whether all servers serve, and no member is stale.
pub(super) async fn is_whole(cluster: &SimulatedCluster) -> bool {
    let Some(mds) = cluster.metadata.mds() else {
        return false;
    };
    let status = mds.status().await;
    status.missing.is_empty()
        && status.targets.iter().all(|target| target.is_up)
        && cluster.osses.iter().all(|oss| oss.is_serving())
        && stale_files(cluster).is_empty()
}

/// Members of stripes whose bytes differ.
pub(super) async fn unequal_members(cluster: &SimulatedCluster) -> Vec<String> {
    let mut unequal = Vec::new();
    for (ino, file) in cluster.metadata.files().unwrap_or_default() {
        unequal.extend(unequal_in_file(cluster, ino, &file).await);
    }
    unequal
}

async fn unequal_in_file(cluster: &SimulatedCluster, ino: InodeId, file: &FileBody) -> Vec<String> {
    let mut unequal = Vec::new();
    for component in file.layout.components.iter().filter(|it| it.is_mirrored()) {
        for stripe in 0..component.stripes() {
            let mut first: Option<(OstId, ObjectId, Found)> = None;
            for index in component.full_members(stripe) {
                let (ost, object) = (component.targets[index], component.object(ino, index));
                let found = object_bytes(cluster, ost, object).await;
                match &first {
                    None => first = Some((ost, object, found)),
                    Some((first_ost, first_object, right)) if *right != found => {
                        let presence = component.presence.get(index);
                        unequal.push(format!(
                            "{first_object} on ost{first_ost} and {object} on ost{ost} ({presence:?}): {}",
                            difference(right, &found)
                        ));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    unequal
}

/// Counts members that become stale and full again, until the simulation ends.
pub(super) async fn count_changes_of_members(cluster: Arc<SimulatedCluster>) {
    let mut stale: BTreeSet<ObjectId> = BTreeSet::new();
    // By the first copy of the stripe's bytes: the member that became full last.
    let mut full_again: BTreeMap<ObjectId, ObjectId> = BTreeMap::new();
    while !cluster.is_over() {
        cluster.sleep(COUNT_INTERVAL).await;
        for (ino, file) in cluster.metadata.files().unwrap_or_default() {
            for (.., object, presence) in file.layout.objects(ino) {
                let is_stale = presence == Presence::Stale;
                let stripe = object.first_copy();
                if is_stale && stale.insert(object) {
                    cluster.monitor.count("member became stale");
                    let other_was = full_again.get(&stripe).is_some_and(|last| *last != object);
                    if other_was {
                        cluster
                            .monitor
                            .count("both members of a stripe stale in turn");
                    }
                } else if !is_stale && stale.remove(&object) {
                    cluster.monitor.count("member full again");
                    full_again.insert(stripe, object);
                }
            }
        }
    }
}

async fn object_bytes(cluster: &SimulatedCluster, ost: OstId, object: ObjectId) -> Found {
    let oss = cluster.osses.iter().find(|oss| oss.has_target(ost));
    let objects = oss.and_then(|oss| oss.objects(ost));
    let objects = objects.ok_or(FsError::TimedOut(format!("ost{ost} is down")))?;
    if objects.stat(object).await?.is_none() {
        return Ok(None);
    }
    let (at, existence) = (ObjectOffset(0), ObjectExistence::MustExist);
    let read = objects.read(object, at, OBJECT_MAX, existence, ChecksumCheck::ByBoth);
    read.await.map(|read| Some(read.data.to_vec()))
}

fn difference(one: &Found, other: &Found) -> String {
    match (one, other) {
        (Ok(Some(one)), Ok(Some(other))) => {
            let mut both = one.iter().zip(other);
            let at = both.position(|(one, other)| one != other);
            format!(
                "{} and {} bytes, they differ at {at:?}",
                one.len(),
                other.len()
            )
        }
        _ => {
            let text = |found: &Found| match found {
                Ok(Some(bytes)) => format!("{} bytes", bytes.len()),
                Ok(None) => "no object".to_string(),
                Err(error) => error.to_string(),
            };
            format!("{}, and {}", text(one), text(other))
        }
    }
}
