//! Bits that rot on the disks of one object server, silently: readers and scrubs repair them from the other members.

use super::millis;
use crate::cluster::object_host::ObjectHost;
use crate::cluster::redundancy::scrub;
use crate::cluster::simulated_cluster::SimulatedCluster;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::data::{ChecksumCheck, ObjectExistence};
use gupfs_proto::limits::CHECKSUM_BLOCK;
use gupfs_proto::{ObjectId, ObjectOffset, OstId};

/// Most bits that rot at once.
const BITS_MAX: u64 = 30;

/// Longest time in which only readers meet the damage, in milliseconds; the metadata server asks for it every 10 s.
const READERS_ONLY: u64 = 15_000;

/// A scrub of all files ends within this time, in milliseconds.
const SCRUBBED_WITHIN: u64 = 120_000;

/// When this returns all bits are right again, or overwritten.
pub(super) async fn rot_and_repair(cluster: &SimulatedCluster, random: &FakeRandom, number: usize) {
    let mut rotten = 0;
    for _ in 0..1 + random.below(BITS_MAX) {
        rotten += u64::from(rot_one_bit(cluster, random, number).await);
    }
    cluster.record(format_args!("{rotten} bits rot on disks of oss{number}"));
    if random.one_in(2) {
        cluster.sleep(millis(random, READERS_ONLY)).await;
    }
    let until = cluster.millis() + SCRUBBED_WITHIN;
    let late = || cluster.millis() > until;
    loop {
        let found = scrub(cluster, late).await;
        let found = found.expect("no fault concerns the metadata server");
        if found.damaged == 0 && found.files_left == 0 {
            cluster.record(format_args!("a scrub has verified all files: {found:?}"));
            return;
        }
        assert!(!late(), "damage stays: {found:?}");
    }
}

/// A bit of a member of a mirrored stripe, in a block whose checksum is known: nothing can detect the damage of others. Returns whether one rotted.
async fn rot_one_bit(cluster: &SimulatedCluster, random: &FakeRandom, number: usize) -> bool {
    let oss = &cluster.osses[number];
    let files = cluster.metadata.files().unwrap_or_default();
    let mut members = Vec::new();
    for (ino, file) in &files {
        for component in file.layout.components.iter().filter(|it| it.is_mirrored()) {
            let all = (0..component.stripes()).flat_map(|stripe| component.full_members(stripe));
            let here = all.filter(|index| oss.has_target(component.targets[*index]));
            members.extend(
                here.map(|index| (component.targets[index], component.object(*ino, index))),
            );
        }
    }
    if members.is_empty() {
        return false;
    }
    let (ost, object) = members[random.below(members.len() as u64) as usize];
    let Some(at) = verified_byte(oss, random, (ost, object)).await else {
        return false;
    };
    let target = oss.targets.iter().find(|target| target.ost == ost);
    let disk = &target.expect("just found").store.disk;
    let name = format!("/{object}");
    let Some(path) = disk.files().into_iter().find(|path| path.ends_with(&name)) else {
        return false;
    };
    let is_rotten = disk.rot(&path, at, random.below(8) as u8);
    if is_rotten {
        cluster.record(format_args!("byte {at} of {object} on ost{ost} rots"));
        cluster.monitor.count("rotten bit");
    }
    is_rotten
}

/// A random byte of the object in a block whose checksum the target knows.
async fn verified_byte(
    oss: &ObjectHost,
    random: &FakeRandom,
    (ost, object): (OstId, ObjectId),
) -> Option<u64> {
    let objects = oss.objects(ost)?;
    let size = objects.stat(object).await.ok()??.size;
    let at = random.below(size.max(1));
    let block = ObjectOffset(at / CHECKSUM_BLOCK * CHECKSUM_BLOCK);
    let (existence, check) = (ObjectExistence::MustExist, ChecksumCheck::ByRequester);
    let read = objects.read(object, block, CHECKSUM_BLOCK, existence, check);
    let known = read.await.ok()?.sums.checksums;
    known.first().copied().flatten().map(|_| at)
}
