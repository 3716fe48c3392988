//! One directory with a million files: creating them, listing them, what the process needs, starting again after a kill, removing.

use gupfs_kit::machine::drop_caches;

use super::Bench;
use crate::report::{Line, Report};
use crate::serve::Serving;
use crate::timing::{Figures, seconds};
use anyhow::{Result, ensure};
use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Stdio};

/// Creates at the start and at the end that are compared.
const SAMPLE: u64 = 10_000;

pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let store = bench.place.fresh("many-store")?;
    let mount = bench.place.fresh("many-mount")?;
    let serving = Serving::gupfs(bench.gupfs, &store, &mount, bench.usual())?;
    let dir = mount.join("many");
    std::fs::create_dir(&dir)?;
    // Warm up elsewhere, so that the first ten thousand are not the program's first requests.
    let warm = mount.join("warm");
    std::fs::create_dir(&warm)?;
    create(&warm, 0..SAMPLE)?;
    let sample = SAMPLE.min(bench.many / 2);
    let first = seconds(|| create(&dir, 0..sample))?;
    let middle = seconds(|| create(&dir, sample..bench.many - sample))?;
    let last = seconds(|| create(&dir, bench.many - sample..bench.many))?;
    let figure = |work: &str, unit, value: f64, target, reached| Line {
        work: format!("{work}, directory of {}", bench.many),
        unit,
        gupfs: Figures(vec![value]),
        beside: None,
        target,
        reached,
    };
    report.add(figure(
        "creates",
        "k/s",
        (bench.many - 2 * sample) as f64 / 1e3 / middle,
        "no figure set",
        true,
    ));
    report.add(figure(
        "last creates ÷ first creates",
        "×",
        first / last,
        "0.9",
        first / last >= 0.9,
    ));

    let list = |args: &[&str], dir: &Path| {
        let status = Command::new("ls")
            .args(args)
            .arg(dir)
            .stdout(Stdio::null())
            .status()?;
        ensure!(status.success(), "ls {args:?}: {status}");
        Ok(())
    };
    seconds(|| list(&["-U"], &dir))?;
    let warm = seconds(|| list(&["-U"], &dir))?;
    report.add(figure("ls -U warm", "s", warm, "4 s", warm < 4.0));
    let recursive = seconds(|| list(&["-lR"], &mount))?;
    report.add(figure("ls -lR", "s", recursive, "no figure set", true));
    let memory = serving.resident_mib()?;
    report.add(figure(
        "process memory after ls -lR",
        "MiB",
        memory,
        "400 MiB",
        memory < 400.0,
    ));

    serving.kill()?;
    drop_caches()?;
    let serving = Serving::gupfs(bench.gupfs, &store, &mount, bench.usual())?;
    let start = serving.ready_after.as_secs_f64();
    report.add(figure(
        "start after kill -9",
        "s",
        start,
        "3 s",
        start < 3.0,
    ));
    let cold = seconds(|| list(&["-U"], &dir))?;
    report.add(figure("ls -U cold", "s", cold, "6 s", cold < 6.0));

    let removal = seconds(|| {
        for number in 0..bench.many {
            std::fs::remove_file(dir.join(format!("f{number}")))?;
        }
        Ok(())
    })?;
    report.add(figure(
        "rm of all, one process",
        "k/s",
        bench.many as f64 / 1e3 / removal,
        "no figure set",
        true,
    ));
    let empty = seconds(|| list(&["-U"], &dir))?;
    report.add(figure(
        "ls after rm of all",
        "s",
        empty,
        "0.1 s",
        empty < 0.1,
    ));
    serving.stop()
}

fn create(dir: &Path, numbers: std::ops::Range<u64>) -> Result<()> {
    for number in numbers {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(dir.join(format!("f{number}")))?;
    }
    Ok(())
}
