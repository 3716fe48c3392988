//! tar unpacks a source tree of 9,188 files in 459 directories, 75.8 MB.

use super::Bench;
use crate::report::{Line, Report};
use crate::timing::{Figures, seconds};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

const FILES: usize = 9_188;
const DIRECTORIES: usize = 459;
const BYTES: usize = 75_800_000;

pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let tree = bench.place.fresh("unpack-tree")?;
    grow(&tree)?;
    let tar = tree.with_extension("tar");
    shell(
        Command::new("tar")
            .arg("cf")
            .arg(&tar)
            .arg("-C")
            .arg(&tree)
            .arg("."),
    )?;
    let local = bench.place.fresh("unpack-local")?;
    let mut sides = Vec::new();
    for transport in &bench.transports {
        let serving = bench.serve("unpack", *transport)?;
        sides.push((*transport, serving, Figures::default()));
    }
    let mut locals = Figures::default();
    let unpack = |under: &Path, run: usize| {
        let dir = under.join(format!("run-{run}"));
        std::fs::create_dir(&dir)?;
        seconds(|| shell(Command::new("tar").arg("xf").arg(&tar).arg("-C").arg(&dir)))
    };
    for run in 0..bench.runs {
        locals.push(unpack(&local, run)?);
        for (_, serving, figures) in &mut sides {
            figures.push(unpack(&serving.mount, run)?);
        }
    }
    // Not in between: ext4 does not give the numbers of inodes that were just removed again for minutes, and looks at each
    // of them when it makes a file. Both sides of the next run would pay for the removals of this one.
    for (transport, serving, ours) in sides {
        let mut removals = Figures::default();
        for run in 0..bench.runs {
            let dir = serving.mount.join(format!("run-{run}"));
            removals.push(seconds(|| Ok(std::fs::remove_dir_all(&dir)?))?);
        }
        serving.stop()?;
        report.add(Line {
            work: format!(
                "unpack {FILES} files, {:.1} MB, {transport}",
                BYTES as f64 / 1e6
            ),
            unit: "s",
            reached: ours.median() <= 5.0,
            gupfs: ours,
            beside: Some(("local".into(), locals.clone())),
            target: "5 s",
        });
        report.add(Line {
            work: format!("remove them, {transport}"),
            unit: "s",
            reached: true,
            gupfs: removals,
            beside: None,
            target: "no figure set",
        });
    }
    Ok(())
}

/// The tree: sizes spread around 8 KiB as in a source tree, most small, some large.
fn grow(tree: &Path) -> Result<()> {
    let mut left = BYTES;
    let mut state = 1u64;
    for number in 0..FILES {
        let dir = tree.join(format!("dir-{:03}", number % DIRECTORIES));
        if number < DIRECTORIES {
            std::fs::create_dir(&dir)?;
        }
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mean = left / (FILES - number);
        // Skewed: three of four below the mean, one well above it.
        let draw = (state >> 33) as usize % 1000;
        let size = if number + 1 == FILES {
            left
        } else if draw < 750 {
            mean * draw / 1000
        } else {
            mean * (draw - 250) * 3 / 1000
        };
        let size = size.min(left);
        left -= size;
        let body: Vec<u8> = (0..size).map(|at| (at as u64 * 31 + state) as u8).collect();
        std::fs::write(dir.join(format!("file-{number}.c")), body)?;
    }
    Ok(())
}

fn shell(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}
