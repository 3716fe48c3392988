//! One process creates and closes 20,000 empty files: beside an empty FUSE file system, whose trips are the floor.

use super::Bench;
use crate::report::{Line, Report};
use crate::serve::Serving;
use crate::timing::{Figures, seconds};
use crate::transport::Transport;
use anyhow::Result;
use std::fs::OpenOptions;
use std::path::Path;

const FILES: u32 = 20_000;

pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let mut sides = Vec::new();
    for transport in &bench.transports {
        let null = format!("create-null-{}", transport.flag());
        sides.push(MeasuredSide {
            transport: *transport,
            gupfs: bench.serve("create", *transport)?,
            floor: Serving::nullfs(bench.nullfs, &bench.place.fresh(&null)?, *transport)?,
            ours: Figures::default(),
            floors: Figures::default(),
        });
    }
    for run in 0..bench.runs {
        for side in &mut sides {
            // The empty file system has no directory but its root.
            let dir = side.gupfs.mount.join(format!("run-{run}"));
            std::fs::create_dir(&dir)?;
            let rate = |dir: &Path| -> Result<f64> {
                Ok(f64::from(FILES) / 1e3 / seconds(|| create(dir, run))?)
            };
            side.floors.push(rate(&side.floor.mount)?);
            side.ours.push(rate(&dir)?);
        }
    }
    for side in sides {
        side.gupfs.stop()?;
        side.floor.stop()?;
        let (ours, floor) = (side.ours.median(), side.floors.median());
        report.add(Line {
            work: format!(
                "create and close {FILES} empty files, one process, {}",
                side.transport
            ),
            unit: "k/s",
            reached: ours >= 0.7 * floor && ours >= 6.0,
            gupfs: side.ours,
            beside: Some(("empty FUSE file system".into(), side.floors)),
            target: "0.7 × floor and 6 k/s",
        });
    }
    Ok(())
}

/// gupfs and the empty file system, requests coming the same way.
struct MeasuredSide {
    transport: Transport,
    gupfs: Serving,
    floor: Serving,
    ours: Figures,
    floors: Figures,
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
