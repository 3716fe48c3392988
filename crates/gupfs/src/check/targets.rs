//! The OSTs' side: which objects they have, and whether their bytes are what they were.

use super::Fault;
use super::objects::{Expected, ObjectProblem};
use super::progress::Progress;
use crate::home::{Home, Marker};
use crate::node::{Share, open_target};
use gupfs_proto::{ObjectId, OstId, Refusal};
use gupfs_store::object::{Objects, Scrub, Verify, Whose};
use gupfs_world::World;
use std::collections::BTreeSet;
use std::time::Duration;

/// Objects listed in one step.
const STEP: u32 = 1_024;

pub async fn open(
    home: &Home,
    marker: &Marker,
    share: Share,
    world: &World,
) -> Vec<(OstId, Result<Objects, String>)> {
    let cluster = marker.cluster();
    let mut opened = Vec::new();
    for ost in marker.osts() {
        opened.push((
            ost,
            open_target(&home.ost(ost), Whose { cluster, ost }, share, world).await,
        ));
    }
    opened
}

#[derive(Default)]
pub struct Looked {
    pub objects: u64,
    pub bytes: u64,
    pub faults: Vec<Fault>,
}

pub async fn look(
    targets: &[(OstId, Result<Objects, String>)],
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
