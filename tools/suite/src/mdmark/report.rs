//! Operations a second of each test, the counts of mixed operations, and the tree as the statistics test found it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::args::Mdmark;
use super::density::{Density, bounds};
use super::mix::Counts;
use super::profile::Profile;
use super::tree::Tree;
use crate::figure::{Figure, HasFigures};
use crate::latency;
use crate::size::MB;
use crate::step::{Step, WorkerResult};

#[derive(Clone, Serialize, Deserialize)]
pub struct Report {
    pub processes: usize,
    pub seed: u64,
    pub entries: u64,
    pub directories: u64,
    pub bytes: u64,
    pub tests: Vec<TestResult>,
    pub mixed: Counts,
    /// The counts of the statistics test.
    pub found: Profile,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct TestResult {
    pub name: String,
    pub rate: f64,
    #[serde(flatten)]
    pub step: Step,
}

impl TestResult {
    pub fn new(name: &str, step: Step) -> TestResult {
        TestResult {
            name: name.into(),
            rate: step.operations_rate(),
            step,
        }
    }
}

impl Report {
    pub fn new(args: &Mdmark, processes: usize, tree: &Tree) -> Report {
        Report {
            processes,
            seed: args.seed,
            entries: tree.entries(),
            directories: tree.directories.len() as u64,
            bytes: tree.bytes(),
            tests: Vec::new(),
            mixed: Counts::default(),
            found: Profile::default(),
        }
    }
}

impl HasFigures for Report {
    const PROGRAM: &'static str = "mdmark";

    fn figures(&self) -> Vec<Figure> {
        let tests = self.tests.iter();
        tests
            .map(|test| {
                let each = test.step.parts.iter().map(WorkerResult::operations_rate);
                Figure::rate(&test.name, "op/s", test.rate, each)
            })
            .collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(
            f,
            "{} entries, of these {} directories, {:.1} MB in files, seed {}",
            self.entries,
            self.directories,
            self.bytes as f64 / MB,
            self.seed
        )?;
        writeln!(f, "\nTest Name  Procs Operations    Time (s)     Rate/s")?;
        writeln!(f, "---------- ----- ---------- ----------- ----------")?;
        for test in &self.tests {
            writeln!(
                f,
                "{:<10} {:>5} {:>10} {:>11.4} {:>10.0}",
                test.name,
                test.step.parts.len(),
                test.step.operations(),
                test.step.seconds(),
                test.rate
            )?;
        }
        self.show_mixed(f)?;
        self.show_found(f)?;
        let rows = self
            .tests
            .iter()
            .map(|test| (&test.name, test.step.latencies));
        latency::table(f, 12, rows)
    }
}

impl Report {
    fn show_mixed(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Some(test) = self.tests.iter().find(|test| test.name == "Mix") else {
            return Ok(());
        };
        writeln!(f, "\nMixed operations    Number     Rate/s")?;
        for (name, count) in self.mixed.named() {
            let rate = count as f64 / test.step.seconds();
            writeln!(f, "{name:<15} {count:>10} {rate:>10.0}")?;
        }
        Ok(())
    }

    fn show_found(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (level, found) in self.found.levels.iter().enumerate() {
            let directories = found.files.total();
            writeln!(f, "\nLevel {level}: {directories} directories")?;
            show_density(f, "files in one", &found.files)?;
            show_density(f, "subdirectories in one", &found.directories)?;
        }
        if self.found.sizes.total() > 0 {
            writeln!(f, "\nAll levels: {} files", self.found.sizes.total())?;
            show_density(f, "bytes in one", &self.found.sizes)?;
        }
        Ok(())
    }
}

fn show_density(f: &mut fmt::Formatter, what: &str, density: &Density) -> fmt::Result {
    let most = density.steps().iter().max().copied().unwrap_or(0).max(1);
    for (step, count) in density.steps().iter().enumerate() {
        let (least, most_of_step) = bounds(step);
        let range = match least == most_of_step {
            true => format!("{least}"),
            false => format!("{least} to {most_of_step}"),
        };
        let bar = "#".repeat((count * 30).div_ceil(most) as usize);
        let line = format!("  {what:<21} {range:>20} {count:>9} {bar}");
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}
