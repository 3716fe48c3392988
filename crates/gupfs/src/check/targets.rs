//! The OSTs' side: which objects they have, and whether their bytes are what they were.

use super::Fault;
use super::objects::{Expected, ObjectProblem};
use super::progress::Progress;
use crate::exit::{OrTrouble, Outcome, Trouble};
use crate::home::{Home, Marker};
use crate::node::{Share, open_target, own_and_below, peek_target};
use gupfs_platform::Platform;
use gupfs_proto::{ClusterId, ObjectId, OstId, Refusal};
use gupfs_store::object::{LostFound, Objects, Scrub, Verify, Whose};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Objects listed in one step.
const STEP: u32 = 1_024;

/// A target, or why it cannot be looked at.
pub type Opened = (OstId, Result<Objects, String>);

/// Where targets lie: the store's own, then those in the directories named, or right below them.
///
/// # Errors
/// A directory that holds no target of this cluster, or the same one twice.
pub async fn find(
    home: &Home,
    marker: &Marker,
    elsewhere: &[PathBuf],
) -> Outcome<Vec<(OstId, PathBuf)>> {
    let mut found: Vec<_> = marker.osts().map(|ost| (ost, home.ost(ost))).collect();
    for dir in elsewhere {
        let below = targets_of(marker.cluster(), dir).await?;
        if below.is_empty() {
            return Err(Trouble::new(format!("'{}' holds no OST", dir.display()))
                .todo("name the directory that `gupfs ost add` was given, or the one above it"));
        }
        for (ost, place) in below {
            if let Some((_, other)) = found.iter().find(|(known, _)| *known == ost) {
                return Err(Trouble::new(format!(
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
async fn targets_of(cluster: ClusterId, dir: &Path) -> Outcome<Vec<(OstId, PathBuf)>> {
    let places =
        own_and_below(dir).or_trouble(|| format!("cannot look into '{}'", dir.display()))?;
    let mut found = Vec::new();
    for place in places {
        if let Some(ost) = target_of(cluster, &place).await? {
            found.push((ost, place));
        }
    }
    Ok(found)
}

/// None for a directory that is no target.
async fn target_of(cluster: ClusterId, dir: &Path) -> Outcome<Option<OstId>> {
    let Some(whose) = peek_target(dir).await.map_err(Trouble::new)? else {
        return Ok(None);
    };
    if whose.cluster != cluster {
        return Err(Trouble::new(format!(
            "'{}' is ost{} of cluster {}, and the store is {cluster}'s",
            dir.display(),
            whose.ost,
            whose.cluster
        ))
        .todo("name OSTs of this cluster alone"));
    }
    Ok(Some(whose.ost))
}

pub async fn open(
    cluster: ClusterId,
    places: Vec<(OstId, PathBuf)>,
    share: Share,
    platform: &Platform,
) -> Vec<Opened> {
    let mut opened = Vec::new();
    for (ost, dir) in places {
        let whose = Whose { cluster, ost };
        let target = match open_target(&dir, whose, share, platform).await {
            Ok(objects) => match objects.go_on().await {
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
pub struct Looked {
    pub objects: u64,
    pub bytes: u64,
    pub lost_found: LostFound,
    pub faults: Vec<Fault>,
    /// Of targets that were not there to be looked at: objects that must be on them.
    pub elsewhere: BTreeMap<OstId, u64>,
}

pub async fn look(
    targets: &[Opened],
    expected: &mut Expected,
    data: bool,
    progress: &mut Progress,
) -> Looked {
    let mut looked = Looked::default();
    let mut listed = BTreeSet::new();
    for (ost, target) in targets {
        let objects = match target {
            Ok(objects) => objects,
            Err(why) => {
                looked.faults.push(Fault::Target(*ost, why.clone()));
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
            Ok::<(), Refusal>(())
        };
        match done.await {
            Ok(()) => drop(listed.insert(*ost)),
            Err(refusal) => looked.faults.push(Fault::Target(*ost, refusal.to_string())),
        }
    }
    let here: BTreeSet<OstId> = targets.iter().map(|(ost, _)| *ost).collect();
    looked.elsewhere = expected.elsewhere(&here);
    let lost = expected.lost(&listed).into_iter().map(Fault::Object);
    looked.faults.extend(lost);
    looked
}

async fn list(
    objects: &Objects,
    ost: OstId,
    expected: &mut Expected,
    progress: &mut Progress,
    looked: &mut Looked,
) -> Result<(), Refusal> {
    let mut after: Option<ObjectId> = None;
    loop {
        let page = objects.list(after, STEP).await?;
        for (object, stat) in &page {
            progress.step();
            looked.objects += 1;
            let problem = expected.judge(ost, *object, stat.size);
            looked.faults.extend(problem.map(Fault::Object));
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
    looked: &mut Looked,
) -> Result<(), Refusal> {
    progress.part(format!("bytes of ost{ost}, by object"));
    let scrub = Scrub {
        // Nobody else wants the disk.
        pause: Duration::ZERO,
        ..Scrub::new(Verify::All)
    };
    let done = objects.scrub(scrub, |_| progress.step()).await?;
    looked.bytes += done.bytes;
    let damaged = done.damaged.into_iter();
    looked
        .faults
        .extend(damaged.map(|object| Fault::Object(ObjectProblem::Damaged { ost, object })));
    Ok(())
}
