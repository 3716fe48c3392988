//! Finding, opening and scanning the OSTs: their objects, and whether their bytes match the checksums.

use super::CheckFault;
use super::objects::{Expected, FormerTarget, ObjectProblem};
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

/// Objects that are listed at a time.
const STEP: u32 = 1_024;

/// A target, or why it cannot be checked.
pub type OpenedTarget = (OstId, Result<Objects, String>);

/// The directories of the targets: those in the store's directory, then those in `others` and in its subdirectories.
///
/// # Errors
/// If one of `others` contains no target of this cluster, or a target that was found before.
pub async fn find(
    store_dir: &StoreDir,
    marker: &Marker,
    others: &[PathBuf],
) -> CliResult<Vec<(OstId, PathBuf)>> {
    let mut found: Vec<_> = marker.osts().map(|ost| (ost, store_dir.ost(ost))).collect();
    for dir in others {
        let in_dir = targets_in(marker.cluster(), dir).await?;
        if in_dir.is_empty() {
            return Err(
                CliError::new(format!("'{}' contains no OST", dir.display())).todo(
                    "name the directory that `gupfs ost add` created, or its parent directory",
                ),
            );
        }
        for (ost, dir) in in_dir {
            if let Some((_, other)) = found.iter().find(|(known, _)| *known == ost) {
                return Err(CliError::new(format!(
                    "'{}' is ost{ost}, and so is '{}'",
                    dir.display(),
                    other.display()
                ))
                .todo("name each OST's directory once"));
            }
            found.push((ost, dir));
        }
    }
    Ok(found)
}

/// The targets in a directory and its subdirectories.
async fn targets_in(cluster: ClusterId, dir: &Path) -> CliResult<Vec<(OstId, PathBuf)>> {
    let dirs = dir_and_subdirs(dir).or_cli_error(|| format!("cannot read '{}'", dir.display()))?;
    let mut found = Vec::new();
    for dir in dirs {
        if let Some(ost) = read_ost_id(cluster, &dir).await? {
            found.push((ost, dir));
        }
    }
    Ok(found)
}

/// The number of the target in a directory; None if it contains no target.
async fn read_ost_id(cluster: ClusterId, dir: &Path) -> CliResult<Option<OstId>> {
    let Some(target_id) = read_target_id(dir).await.map_err(CliError::new)? else {
        return Ok(None);
    };
    if target_id.cluster != cluster {
        return Err(CliError::new(format!(
            "'{}' is ost{} of cluster {}, and the store belongs to cluster {cluster}",
            dir.display(),
            target_id.ost,
            target_id.cluster
        ))
        .todo("name only OSTs of this cluster"));
    }
    Ok(Some(target_id.ost))
}

/// Opens the targets. They serve without the metadata server's verdict, because no server runs.
pub async fn open(
    cluster: ClusterId,
    dirs: Vec<(OstId, PathBuf)>,
    budget: DescriptorBudget,
    platform: &Platform,
) -> Vec<OpenedTarget> {
    let mut opened = Vec::new();
    for (ost, dir) in dirs {
        let target_id = TargetId { cluster, ost };
        let target = match open_target(&dir, target_id, budget, platform).await {
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

/// The result of scanning the targets.
#[derive(Default)]
pub struct TargetFindings {
    pub objects: u64,
    pub bytes: u64,
    pub lost_found: LostFoundUsage,
    pub faults: Vec<CheckFault>,
    /// OSTs that were not scanned, with the number of objects that must be on them.
    pub elsewhere: BTreeMap<OstId, u64>,
    pub former: BTreeMap<OstId, FormerTarget>,
}

/// Scans the targets and compares their objects with the expected ones; with `data`, also reads all bytes.
pub async fn scan(
    targets: &[OpenedTarget],
    expected: &mut Expected,
    data: bool,
    progress: &mut Progress,
) -> TargetFindings {
    let mut findings = TargetFindings::default();
    let mut listed = BTreeSet::new();
    for (ost, target) in targets {
        if expected.is_former(*ost) {
            continue;
        }
        let objects = match target {
            Ok(objects) => objects,
            Err(why) => {
                findings.faults.push(CheckFault::Target(*ost, why.clone()));
                continue;
            }
        };
        progress.part(format!("objects of ost{ost}"));
        let done = async {
            list(objects, *ost, expected, progress, &mut findings).await?;
            let quarantined = objects.count_lost_found().await?;
            findings.lost_found.objects += quarantined.objects;
            findings.lost_found.bytes += quarantined.bytes;
            if data {
                scrub(objects, *ost, expected, progress, &mut findings).await?;
            }
            Ok::<(), FsError>(())
        };
        match done.await {
            Ok(()) => drop(listed.insert(*ost)),
            Err(refusal) => findings
                .faults
                .push(CheckFault::Target(*ost, refusal.to_string())),
        }
    }
    let opened: BTreeSet<OstId> = targets.iter().map(|(ost, _)| *ost).collect();
    findings.former = expected.former_targets();
    findings.elsewhere = expected.elsewhere(&opened);
    findings
        .elsewhere
        .retain(|ost, _| !expected.is_former(*ost));
    let lost = expected.lost(&listed).into_iter().map(CheckFault::Object);
    findings.faults.extend(lost);
    let problems = findings.faults.iter_mut().filter_map(|fault| match fault {
        CheckFault::Object(problem) => Some(problem),
        _ => None,
    });
    let mut problems = problems.collect::<Vec<_>>();
    ObjectProblem::forget_bad_partners(&mut problems);
    for problem in problems {
        note_superseded(problem, targets).await;
    }
    findings
}

/// Notes whether the OST on which an object should be has it.
async fn note_superseded(problem: &mut ObjectProblem, targets: &[OpenedTarget]) {
    let ObjectProblem::WrongOst {
        object,
        right,
        superseded,
        ..
    } = problem
    else {
        return;
    };
    let target = targets.iter().find(|(ost, _)| ost == right);
    if let Some((_, Ok(objects))) = target {
        *superseded = matches!(objects.stat(*object).await, Ok(Some(_)));
    }
}

async fn list(
    objects: &Objects,
    ost: OstId,
    expected: &mut Expected,
    progress: &mut Progress,
    findings: &mut TargetFindings,
) -> Result<(), FsError> {
    let mut after: Option<ObjectId> = None;
    loop {
        let page = objects.list(after, STEP).await?;
        for (object, stat) in &page {
            progress.step();
            findings.objects += 1;
            let problem = expected.check(ost, *object, stat.size);
            findings.faults.extend(problem.map(CheckFault::Object));
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
    expected: &Expected,
    progress: &mut Progress,
    findings: &mut TargetFindings,
) -> Result<(), FsError> {
    progress.part(format!("bytes of ost{ost}, by object"));
    let scrub = ScrubOptions {
        // No server uses the disk.
        pause: Duration::ZERO,
        ..ScrubOptions::new(ScrubScope::All)
    };
    let done = objects.scrub(scrub, |_| progress.step()).await?;
    findings.bytes += done.bytes;
    let damaged = done.damaged.into_iter();
    findings
        .faults
        .extend(damaged.map(|object| CheckFault::Object(expected.damaged(ost, object))));
    Ok(())
}
