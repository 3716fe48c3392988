//! Series: one figure of one workload, setting and target over all runs.

use super::{FinishedRun, spread::Spread};
use crate::figure::Better;
use crate::plan::SweepValues;

/// One figure of one workload in one setting on one target.
#[derive(Clone, Debug)]
pub struct Series {
    pub workload: String,
    pub setting: SweepValues,
    pub figure: String,
    pub target: String,
    pub unit: String,
    pub better: Better,
    /// Of each run.
    pub values: Vec<f64>,
    /// Of each run, that of each process.
    pub each: Vec<Vec<f64>>,
}

impl Series {
    /// All of them, in the order in which they were first measured.
    pub fn all(runs: &[FinishedRun]) -> Vec<Series> {
        let mut all: Vec<Series> = Vec::new();
        for run in runs {
            for figure in &run.figures {
                let mut setting = run.setting.clone();
                setting.extend(figure.at.clone());
                let at = all.iter().position(|series| {
                    series.workload == run.workload
                        && series.setting == setting
                        && series.figure == figure.name
                        && series.target == run.target
                });
                let at = at.unwrap_or_else(|| {
                    all.push(Series {
                        workload: run.workload.clone(),
                        setting,
                        figure: figure.name.clone(),
                        target: run.target.clone(),
                        unit: figure.unit.clone(),
                        better: figure.better,
                        values: Vec::new(),
                        each: Vec::new(),
                    });
                    all.len() - 1
                });
                all[at].values.push(figure.value);
                if !figure.each.is_empty() {
                    all[at].each.push(figure.each.clone());
                }
            }
        }
        all
    }

    pub fn spread(&self) -> Spread {
        Spread::of(&self.values).expect("a series has a run")
    }

    /// Whether both are about the same, apart from the target.
    pub fn beside(&self, other: &Series) -> bool {
        self.workload == other.workload
            && self.setting == other.setting
            && self.figure == other.figure
    }
}

/// `np=4 record=64K`.
pub fn show(setting: &SweepValues) -> String {
    let pairs: Vec<String> = setting
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join(" ")
}

#[test]
fn what_a_program_varies_is_part_of_the_setting() {
    use super::lines::Cache;
    use crate::figure::Figure;
    let figures =
        ["64K", "1M"].map(|record| Figure::rate("Write", "MB/s", 1.0, []).at("record", record));
    let run = FinishedRun {
        workload: "w".into(),
        target: "t".into(),
        setting: [("np".into(), "4".into())].into(),
        repetition: 1,
        program: "streams".into(),
        program_version: String::new(),
        command: Vec::new(),
        date: String::new(),
        seconds: 1.0,
        cache: Cache::Kept,
        touched_mb: 0,
        figures: figures.to_vec(),
    };
    let all = Series::all(&[run.clone(), run]);
    let shown: Vec<_> = all.iter().map(|one| show(&one.setting)).collect();
    assert_eq!(shown, ["np=4 record=64K", "np=4 record=1M"]);
    assert!(all.iter().all(|one| one.values.len() == 2));
}
