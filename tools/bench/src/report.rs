//! Lines of results, for people and for programs.

use crate::machine::Machine;
use crate::timing::Figures;
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};

pub struct Report {
    machine: Machine,
    lines: Vec<Line>,
}

/// One figure, with what it is compared with and what it should reach.
#[derive(Serialize)]
pub struct Line {
    pub work: String,
    pub unit: &'static str,
    pub gupfs: Figures,
    pub beside: Option<(String, Figures)>,
    pub target: &'static str,
    pub reached: bool,
}

impl Report {
    pub fn new(machine: Machine) -> Report {
        Report {
            machine,
            lines: Vec::new(),
        }
    }

    pub fn add(&mut self, line: Line) {
        eprintln!("  {}", line.text());
        self.lines.push(line);
    }

    pub fn print(&self) {
        println!(
            "{} × {}, Linux {}, {}",
            self.machine.cpus, self.machine.cpu, self.machine.kernel, self.machine.date
        );
        for line in &self.lines {
            println!("{}", line.text());
        }
    }

    /// One JSON object a line: first the machine, then each figure.
    pub fn save(&self, dir: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let file = dir.join(format!("{}-first-slice.jsonl", self.machine.date));
        let mut text = serde_json::to_string(&self.machine)? + "\n";
        for line in &self.lines {
            text += &(serde_json::to_string(line)? + "\n");
        }
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }
}

impl Line {
    /// With the figure that it should reach.
    pub fn with_target(self, target: &'static str, reached: bool) -> Line {
        Line {
            target,
            reached,
            ..self
        }
    }

    fn text(&self) -> String {
        let mark = if self.reached { "reached" } else { "MISSED " };
        let of = |figures: &Figures| {
            format!(
                "{:.3} [{:.3} … {:.3}]",
                figures.median(),
                figures.min(),
                figures.max()
            )
        };
        let beside = match &self.beside {
            Some((name, figures)) => {
                format!(
                    " · {name} {} · ratio {:.2}",
                    of(figures),
                    self.gupfs.median() / figures.median()
                )
            }
            None => String::new(),
        };
        format!(
            "{mark} {}: {} {}{beside} (to reach: {})",
            self.work,
            of(&self.gupfs),
            self.unit,
            self.target
        )
    }
}
