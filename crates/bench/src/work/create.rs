//! One process creates and closes 20,000 empty files: beside an empty FUSE file system, whose trips are the floor.

use super::Bench;
use crate::report::{Line, Report};
use crate::serve::Serving;
use crate::timing::{Figures, seconds};
use anyhow::Result;
use std::fs::OpenOptions;
use std::path::Path;

const FILES: u32 = 20_000;

pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let gupfs = Serving::gupfs(
        bench.gupfs,
        &bench.place.fresh("create-store")?,
        &bench.place.fresh("create-mount")?,
    )?;
    let floor = Serving::nullfs(bench.nullfs, &bench.place.fresh("create-null")?)?;
    let [mut ours, mut floors] = [const { Figures(Vec::new()) }; 2];
    for run in 0..bench.runs {
        // The empty file system has no directory but its root.
        let dir = gupfs.mount.join(format!("run-{run}"));
        std::fs::create_dir(&dir)?;
        for (dir, figures) in [(&floor.mount, &mut floors), (&dir, &mut ours)] {
            figures.push(f64::from(FILES) / 1e3 / seconds(|| create(dir, run))?);
        }
    }
    gupfs.stop()?;
    floor.stop()?;
    report.add(Line {
        work: format!("create and close {FILES} empty files, one process"),
        unit: "k/s",
        reached: ours.median() >= 0.7 * floors.median() && ours.median() >= 6.0,
        gupfs: ours,
        beside: Some(("empty FUSE file system".into(), floors)),
        target: "0.7 × floor and 6 k/s",
    });
    Ok(())
}

fn create(dir: &Path, run: usize) -> Result<()> {
    for number in 0..FILES {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(dir.join(format!("file-{run}-{number}")))?;
    }
    Ok(())
}
