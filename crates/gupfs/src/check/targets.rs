//! The OSTs' side: which objects they have, and whether their bytes are what they were.

use super::CheckFault;
use super::objects::{Expected, ObjectProblem};
use super::progress::Progress;
use crate::exit::{CliError, CliResult, OrCliError};
use crate::store_dir::{Marker, StoreDir};
use crate::stores::{DescriptorBudget, dir_and_subdirs, open_target, read_target_id};
use gupfs_platform::Platform;
use gupfs_proto::{ClusterId, FsError, ObjectId, OstId};
use gupfs_store::object::{LostFoundUsage, Objects, ScrubOptions, ScrubScope, TargetId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Objects listed in one step.
const STEP: u32 = 1_024;

/// A target, or why it cannot be looked at.
pub type OpenedTarget = (OstId, Result<Objects, String>);

/// Where targets lie: the store's own, then those in the directories named, or right below them.
///
/// # Errors
/// A directory that holds no target of this cluster, or the same one twice.
pub async fn find(
    store_dir: &StoreDir,
    marker: &Marker,
    elsewhere: &[PathBuf],
) -> CliResult<Vec<(OstId, PathBuf)>> {
    let mut found: Vec<_> = marker.osts().map(|ost| (ost, store_dir.ost(ost))).collect();
    for dir in elsewhere {
        let below = targets_of(marker.cluster(), dir).await?;
        if below.is_empty() {
            return Err(CliError::new(format!("'{}' holds no OST", dir.display()))
                .todo("name the directory that `gupfs ost add` was given, or the one above it"));
        }
        for (ost, place) in below {
            if let Some((_, other)) = found.iter().find(|(known, _)| *known == ost) {
                return Err(CliError::new(format!(
                    "'{}' is ost{ost}, and so is '{}'",
                    place.display(),
                    other.display()
                ))
                .todo("name each OST's directory once"));
            }
            found.push((ost, place));
        }
    }
    Ok(found)
}

/// The targets in a directory, or right below it.
async fn targets_of(cluster: ClusterId, dir: &Path) -> CliResult<Vec<(OstId, PathBuf)>> {
    let places =
        dir_and_subdirs(dir).or_cli_error(|| format!("cannot look into '{}'", dir.display()))?;
    let mut found = Vec::new();
    for place in places {
        if let Some(ost) = target_of(cluster, &place).await? {
            found.push((ost, place));
        }
    }
    Ok(found)
}

/// None for a directory that is no target.
async fn target_of(cluster: ClusterId, dir: &Path) -> CliResult<Option<OstId>> {
    let Some(target_id) = read_target_id(dir).await.map_err(CliError::new)? else {
        return Ok(None);
    };
    if target_id.cluster != cluster {
        return Err(CliError::new(format!(
            "'{}' is ost{} of cluster {}, and the store is {cluster}'s",
            dir.display(),
            target_id.ost,
            target_id.cluster
        ))
        .todo("name OSTs of this cluster alone"));
    }
    Ok(Some(target_id.ost))
}

pub async fn open(
    cluster: ClusterId,
    places: Vec<(OstId, PathBuf)>,
    share: DescriptorBudget,
    platform: &Platform,
) -> Vec<OpenedTarget> {
    let mut opened = Vec::new();
    for (ost, dir) in places {
        let target_id = TargetId { cluster, ost };
        let target = match open_target(&dir, target_id, share, platform).await {
            Ok(objects) => match objects.serve_unadopted().await {
                Ok(()) => Ok(objects),
                Err(refusal) => Err(refusal.to_string()),
            },
            Err(why) => Err(why),
        };
        opened.push((ost, target));
    }
    opened
}

#[derive(Default)]
pub struct TargetFindings {
    pub objects: u64,
    pub bytes: u64,
    pub lost_found: LostFoundUsage,
    pub faults: Vec<CheckFault>,
    /// Of targets that were not there to be looked at: objects that must be on them.
    pub elsewhere: BTreeMap<OstId, u64>,
}

pub async fn look(
    targets: &[OpenedTarget],
    expected: &mut Expected,
    data: bool,
    progress: &mut Progress,
) -> TargetFindings {
    let mut looked = TargetFindings::default();
    let mut listed = BTreeSet::new();
    for (ost, target) in targets {
        let objects = match target {
            Ok(objects) => objects,
            Err(why) => {
                looked.faults.push(CheckFault::Target(*ost, why.clone()));
                continue;
            }
        };
        progress.part(format!("objects of ost{ost}"));
        let done = async {
            list(objects, *ost, expected, progress, &mut looked).await?;
            let aside = objects.count_lost_found().await?;
            looked.lost_found.objects += aside.objects;
            looked.lost_found.bytes += aside.bytes;
            if data {
                scrub(objects, *ost, progress, &mut looked).await?;
            }
            Ok::<(), FsError>(())
        };
        match done.await {
            Ok(()) => drop(listed.insert(*ost)),
            Err(refusal) => looked
                .faults
                .push(CheckFault::Target(*ost, refusal.to_string())),
        }
    }
    let here: BTreeSet<OstId> = targets.iter().map(|(ost, _)| *ost).collect();
    looked.elsewhere = expected.elsewhere(&here);
    let lost = expected.lost(&listed).into_iter().map(CheckFault::Object);
    looked.faults.extend(lost);
    looked
}

async fn list(
    objects: &Objects,
    ost: OstId,
    expected: &mut Expected,
    progress: &mut Progress,
    looked: &mut TargetFindings,
) -> Result<(), FsError> {
    let mut after: Option<ObjectId> = None;
    loop {
        let page = objects.list(after, STEP).await?;
        for (object, stat) in &page {
            progress.step();
            looked.objects += 1;
            let problem = expected.judge(ost, *object, stat.size);
            looked.faults.extend(problem.map(CheckFault::Object));
        }
        match page.last() {
            Some((last, _)) if page.len() == STEP as usize => after = Some(*last),
            _ => return Ok(()),
        }
    }
}

async fn scrub(
    objects: &Objects,
    ost: OstId,
    progress: &mut Progress,
    looked: &mut TargetFindings,
) -> Result<(), FsError> {
    progress.part(format!("bytes of ost{ost}, by object"));
    let scrub = ScrubOptions {
        // Nobody else wants the disk.
        pause: Duration::ZERO,
        ..ScrubOptions::new(ScrubScope::All)
    };
    let done = objects.scrub(scrub, |_| progress.step()).await?;
    looked.bytes += done.bytes;
    let damaged = done.damaged.into_iter();
    looked
        .faults
        .extend(damaged.map(|object| CheckFault::Object(ObjectProblem::Damaged { ost, object })));
    Ok(())
}
