//! The results that a report shows.

use std::collections::BTreeSet;

use crate::error::{SuiteError, SuiteResult};
use crate::figure::Better;
use crate::plan::{Plan, PlannedWorkload, Target, jobs};
use crate::published::{self, Table};
use crate::results::spread::{Ratio, Verdict};
use crate::results::{Results, Series};

pub struct ReportData {
    pub results: Results,
    pub series: Vec<Series>,
    /// In the order in which plans name them; all others are compared with the first.
    pub targets: Vec<String>,
    /// Names, in the order of the plans.
    pub workloads: Vec<String>,
    pub ceiling: Option<String>,
}

/// A target beside the first, in the same setting.
pub struct Comparison<'a> {
    pub series: &'a Series,
    /// More than 1 is better, also where less is.
    pub advantage: f64,
    pub verdict: Verdict,
}

impl ReportData {
    pub fn new(results: Results, ceiling: Option<String>) -> SuiteResult<ReportData> {
        if results.runs.is_empty() {
            return Err(SuiteError::usage(
                "no run in these results ended well: there is nothing to show",
            ));
        }
        let mut targets = Vec::new();
        let mut workloads = Vec::new();
        for header in &results.headers {
            once(
                &mut targets,
                header.plan.targets.iter().map(|target| &target.name),
            );
            once(
                &mut workloads,
                header.plan.workloads.iter().map(|workload| &workload.name),
            );
        }
        once(&mut targets, results.runs.iter().map(|run| &run.target));
        once(&mut workloads, results.runs.iter().map(|run| &run.workload));
        if let Some(ceiling) = &ceiling
            && !targets.contains(ceiling)
        {
            return Err(SuiteError::usage(format!(
                "--ceiling {ceiling}: the targets in these results are {}",
                targets.join(", ")
            )));
        }
        Ok(ReportData {
            series: Series::all(&results.runs),
            results,
            targets,
            workloads,
            ceiling,
        })
    }

    pub fn plans(&self) -> impl DoubleEndedIterator<Item = &Plan> {
        self.results.headers.iter().map(|header| &header.plan)
    }

    /// As the last plan that has it says.
    pub fn workload(&self, name: &str) -> Option<&PlannedWorkload> {
        let all = self.plans().rev().flat_map(|plan| &plan.workloads);
        all.into_iter().find(|workload| workload.name == name)
    }

    pub fn target(&self, name: &str) -> Option<&Target> {
        let all = self.plans().rev().flat_map(|plan| &plan.targets);
        all.into_iter().find(|target| target.name == name)
    }

    pub fn published(&self, workload: &str) -> Vec<Table> {
        let names = self.workload(workload).map(|workload| &workload.published);
        // Of another version's plan a table may be unknown here.
        names
            .into_iter()
            .flatten()
            .filter_map(|name| published::find(std::slice::from_ref(name)).ok())
            .flatten()
            .collect()
    }

    /// Which of them, for its colour.
    pub fn number(&self, target: &str) -> usize {
        self.targets
            .iter()
            .position(|name| name == target)
            .unwrap_or(0)
    }

    pub fn at<'a>(&'a self, like: &'a Series, target: &str) -> Option<&'a Series> {
        let mut same = self.series.iter().filter(|series| series.beside(like));
        same.find(|series| series.target == target)
    }

    /// All series of a target that the first target has too.
    pub fn beside_first(&self, target: &str) -> Vec<Comparison<'_>> {
        let of_target = self.series.iter().filter(|series| series.target == target);
        of_target
            .filter_map(|series| {
                let first = self.at(series, &self.targets[0])?;
                Comparison::of(series, first)
            })
            .collect()
    }

    /// How many runs the plans want and the results do not have.
    pub fn missing(&self) -> usize {
        let mut missing = BTreeSet::new();
        for plan in self.plans() {
            for job in jobs(plan).into_iter().filter(|job| job.counts()) {
                let workload = &plan.workloads[job.workload].name;
                let target = &plan.targets[job.target].name;
                let has = self.results.runs.iter().any(|run| {
                    run.workload == *workload
                        && run.target == *target
                        && run.setting == job.setting
                        && run.repetition == job.repetition
                });
                if !has {
                    missing.insert((workload, target, job.setting, job.repetition));
                }
            }
        }
        missing.len()
    }
}

impl<'a> Comparison<'a> {
    pub fn of(series: &'a Series, first: &Series) -> Option<Comparison<'a>> {
        let ratio = Ratio::of(&series.values, &first.values)?;
        Some(Comparison {
            advantage: match series.better {
                Better::More => ratio.value,
                Better::Less => ratio.value.recip(),
            },
            verdict: ratio.verdict(),
            series,
        })
    }
}

fn once<'a>(names: &mut Vec<String>, more: impl Iterator<Item = &'a String>) {
    for name in more {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
}
