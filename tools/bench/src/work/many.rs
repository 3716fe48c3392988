//! One directory with a million files: creating and listing them, memory of the process, a restart after a kill, removing.

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
    let dir = mount.join("many");
    let serving = Serving::gupfs(bench.gupfs, &store, &mount, bench.usual())?;
    measure_creates(bench, report, &mount, &dir)?;
    measure_lists(bench, report, &serving, &dir)?;
    serving.kill()?;
    drop_caches()?;
    let serving = Serving::gupfs(bench.gupfs, &store, &mount, bench.usual())?;
    measure_restart(bench, report, &serving, &dir)?;
    measure_removal(bench, report, &dir)?;
    serving.stop()
}

fn line(bench: &Bench, work: &str, unit: &'static str, value: f64) -> Line {
    Line {
        work: format!("{work}, directory of {}", bench.many),
        unit,
        gupfs: Figures(vec![value]),
        beside: None,
        target: "no figure set",
        reached: true,
    }
}

fn measure_creates(bench: &Bench, report: &mut Report, mount: &Path, dir: &Path) -> Result<()> {
    std::fs::create_dir(dir)?;
    // Warm up elsewhere, so that the first ten thousand are not the program's first requests.
    let warm = mount.join("warm");
    std::fs::create_dir(&warm)?;
    create(&warm, 0..SAMPLE)?;
    let sample = SAMPLE.min(bench.many / 2);
    let first = seconds(|| create(dir, 0..sample))?;
    let middle = seconds(|| create(dir, sample..bench.many - sample))?;
    let last = seconds(|| create(dir, bench.many - sample..bench.many))?;
    let rate = (bench.many - 2 * sample) as f64 / 1e3 / middle;
    report.add(line(bench, "creates", "k/s", rate));
    let ratio = first / last;
    let ratio_line = line(bench, "last creates ÷ first creates", "×", ratio);
    report.add(ratio_line.with_target("0.9", ratio >= 0.9));
    Ok(())
}

fn measure_lists(bench: &Bench, report: &mut Report, serving: &Serving, dir: &Path) -> Result<()> {
    seconds(|| list(&["-U"], dir))?;
    let warm = seconds(|| list(&["-U"], dir))?;
    report.add(line(bench, "ls -U warm", "s", warm).with_target("4 s", warm < 4.0));
    let recursive = seconds(|| list(&["-lR"], &serving.mount))?;
    report.add(line(bench, "ls -lR", "s", recursive));
    let memory = serving.resident_mib()?;
    let memory_line = line(bench, "process memory after ls -lR", "MiB", memory);
    report.add(memory_line.with_target("400 MiB", memory < 400.0));
    Ok(())
}

fn measure_restart(
    bench: &Bench,
    report: &mut Report,
    serving: &Serving,
    dir: &Path,
) -> Result<()> {
    let start = serving.ready_after.as_secs_f64();
    report.add(line(bench, "start after kill -9", "s", start).with_target("3 s", start < 3.0));
    let cold = seconds(|| list(&["-U"], dir))?;
    report.add(line(bench, "ls -U cold", "s", cold).with_target("6 s", cold < 6.0));
    Ok(())
}

fn measure_removal(bench: &Bench, report: &mut Report, dir: &Path) -> Result<()> {
    let removal = seconds(|| {
        for number in 0..bench.many {
            std::fs::remove_file(dir.join(format!("f{number}")))?;
        }
        Ok(())
    })?;
    let rate = bench.many as f64 / 1e3 / removal;
    report.add(line(bench, "rm of all, one process", "k/s", rate));
    let empty = seconds(|| list(&["-U"], dir))?;
    report.add(line(bench, "ls after rm of all", "s", empty).with_target("0.1 s", empty < 0.1));
    Ok(())
}

fn list(args: &[&str], dir: &Path) -> Result<()> {
    let status = Command::new("ls")
        .args(args)
        .arg(dir)
        .stdout(Stdio::null())
        .status()?;
    ensure!(status.success(), "ls {args:?}: {status}");
    Ok(())
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
