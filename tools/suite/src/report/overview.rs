//! All figures on one page: as ratios to the first target, and a table of the best medians.

use super::charts::Ink;
use super::charts::ratios::{self, ratios};
use super::data::{Comparison, ReportData};
use super::html::HtmlTable;
use super::panel::Panel;
use super::plot::{Legend, Plot};
use super::verdict::{mean, says};
use crate::figure::Better;
use crate::results::Series;
use crate::results::compare::number;
use crate::results::spread::Verdict;

/// Workloads and figures, with all their series.
fn figures(data: &ReportData) -> Vec<(&str, Vec<&Series>)> {
    let mut all = Vec::new();
    for workload in &data.workloads {
        let of = data.series.iter().filter(|one| one.workload == *workload);
        let series: Vec<&Series> = of.collect();
        let mut seen: Vec<&str> = Vec::new();
        for panel in Panel::all(&series) {
            if !seen.contains(&panel.figure) {
                seen.push(panel.figure);
                let of = series.iter().filter(|one| one.figure == panel.figure);
                all.push((workload.as_str(), of.copied().collect()));
            }
        }
    }
    all
}

/// All that was measured, as ratios to the first target. None if they have no figure in common.
pub fn plot(data: &ReportData) -> Option<Plot> {
    let mut rows = Vec::new();
    for (workload, series) in figures(data) {
        let mut row = ratios::Row {
            name: format!("{workload}: {}", series[0].figure),
            lines: Vec::new(),
        };
        for target in &data.targets[1..] {
            let beside = beside(data, &series, target);
            let Some(mean) = mean(&beside) else { continue };
            let sure = beside.iter().any(|one| says(one).is_some());
            row.lines.push(ratios::Line {
                ink: Ink::Target(data.number(target)),
                mean,
                points: beside
                    .iter()
                    .map(|one| (one.advantage, says(one).is_some()))
                    .collect(),
                said: match (sure, beside.iter().all(|one| one.verdict == Verdict::Noise)) {
                    (true, _) => format!("{}×", number(mean)),
                    (false, true) => "noise".into(),
                    (false, false) => format!("{}× ?", number(mean)),
                },
            });
        }
        if !row.lines.is_empty() {
            rows.push(row);
        }
    }
    (!rows.is_empty()).then(|| Plot {
        title: format!("How many times as good as {}", data.targets[0]),
        drawing: ratios(&rows),
        keys: Legend::some(data, data.targets[1..].iter()),
        table: overview(data),
    })
}

fn beside<'a>(data: &'a ReportData, series: &[&'a Series], target: &str) -> Vec<Comparison<'a>> {
    let of = series.iter().filter(|one| one.target == target);
    of.filter_map(|one| Comparison::of(one, data.at(one, &data.targets[0])?))
        .collect()
}

/// A row a figure: the best median of each target, and how the others do in all settings.
pub fn overview(data: &ReportData) -> HtmlTable {
    let others = &data.targets[1..];
    let mut head = vec!["best median of all settings".to_owned()];
    head.extend(data.targets.iter().cloned());
    let against = |target: &String| format!("{target} ÷ {}", data.targets[0]);
    head.extend(others.iter().map(against));
    let mut rows = HtmlTable::new(head);
    for (workload, series) in figures(data) {
        rows.add(overview_row(data, workload, &series));
    }
    rows
}

fn overview_row(data: &ReportData, workload: &str, of: &[&Series]) -> Vec<String> {
    let mut row = vec![format!("{workload}: {}, {}", of[0].figure, of[0].unit)];
    for target in &data.targets {
        let best = best(of.iter().filter(|one| one.target == *target).copied());
        row.push(best.map_or("–".into(), |series| number(series.spread().median)));
    }
    for target in &data.targets[1..] {
        let beside = beside(data, of, target);
        let Some(mean) = mean(&beside) else {
            row.push("–".into());
            continue;
        };
        let count = |better: bool| {
            beside
                .iter()
                .filter(|one| says(one) == Some(better))
                .count()
        };
        let verdict = match (count(true), count(false), beside.len()) {
            _ if beside.iter().all(|one| one.verdict == Verdict::TooFewRuns) => {
                "too few runs".into()
            }
            (0, 0, _) => "within the noise".into(),
            (better, 0, all) if better == all => "better".into(),
            (0, worse, all) if worse == all => "worse".into(),
            (0, worse, all) => format!("{worse} worse of {all}"),
            (better, 0, all) => format!("{better} better of {all}"),
            (better, worse, all) => format!("{better} better, {worse} worse of {all}"),
        };
        let ratio = match of[0].better {
            Better::More => mean,
            Better::Less => mean.recip(),
        };
        row.push(format!("{}, {verdict}", number(ratio)));
    }
    row
}

/// Of several settings, the one with the best median.
pub fn best<'a>(all: impl Iterator<Item = &'a Series>) -> Option<&'a Series> {
    all.max_by(|a, b| {
        let order = a.spread().median.total_cmp(&b.spread().median);
        match a.better {
            Better::More => order,
            Better::Less => order.reverse(),
        }
    })
}
