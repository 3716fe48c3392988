//! Fairness: the rates of a run's processes beside each other.

use std::fmt::Write;

use super::charts::words::wrap;
use super::charts::{Drawing, GRID, Ink, Scale, WIDTH, dashed, label, line, text};
use super::data::ReportData;
use super::html::{HtmlTable, paragraph};
use super::plot::{Legend, PageItem, Plot};
use super::section::section;
use crate::results::Series;
use crate::results::series::show;
use crate::results::spread::median;

/// Of runs with several processes: their rates as shares of the mean.
struct ProcessShares<'a> {
    series: &'a Series,
    /// All runs' shares.
    shares: Vec<f64>,
    /// Medians over the runs: the slowest process's share, and Jain's index.
    slowest: f64,
    jain: f64,
}

pub fn parts(data: &ReportData) -> Vec<PageItem> {
    let mut plots = Vec::new();
    for workload in &data.workloads {
        let all: Vec<ProcessShares> = widest(data, workload)
            .into_iter()
            .filter_map(ProcessShares::of)
            .collect();
        if !all.is_empty() {
            plots.push(plot(data, workload, &all));
        }
    }
    if plots.is_empty() {
        return Vec::new();
    }
    let intro = paragraph(
        "Each point is a process of a run: its rate as a share of the mean of its run, in the setting with the most processes. Jain's \
         index is 1 if all are served alike, and 1 ÷ the number of processes if one gets all.",
    );
    section("Fairness between processes", intro, plots, String::new())
}

/// Of each figure and target, the series with the most processes.
fn widest<'a>(data: &'a ReportData, workload: &str) -> Vec<&'a Series> {
    let mut found: Vec<&Series> = Vec::new();
    for series in data.series.iter().filter(|one| one.workload == workload) {
        let same = |other: &&Series| other.figure == series.figure && other.target == series.target;
        match found.iter().position(same) {
            Some(at) if processes(found[at]) < processes(series) => found[at] = series,
            Some(_) => {}
            None => found.push(series),
        }
    }
    found.sort_by_key(|series| {
        data.series
            .iter()
            .position(|one| one.figure == series.figure)
    });
    found
}

fn processes(series: &Series) -> usize {
    series.each.iter().map(Vec::len).max().unwrap_or(0)
}

impl ProcessShares<'_> {
    fn of(series: &Series) -> Option<ProcessShares<'_>> {
        let runs: Vec<Vec<f64>> = series
            .each
            .iter()
            .filter(|each| each.len() > 1)
            .map(|each| shares(each))
            .collect();
        let slowest: Vec<f64> = runs
            .iter()
            .map(|run| run.iter().copied().fold(f64::INFINITY, f64::min))
            .collect();
        let jain: Vec<f64> = runs.iter().map(|run| jain(run)).collect();
        Some(ProcessShares {
            series,
            slowest: median(&slowest)?,
            jain: median(&jain)?,
            shares: runs.concat(),
        })
    }
}

fn shares(each: &[f64]) -> Vec<f64> {
    let mean = each.iter().sum::<f64>() / each.len() as f64;
    each.iter().map(|rate| rate / mean).collect()
}

/// Of shares, whose mean is 1.
fn jain(shares: &[f64]) -> f64 {
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    shares.len() as f64 / squares
}

const ROW: f64 = 14.0;
const TOP: f64 = 18.0;

fn plot(data: &ReportData, workload: &str, all: &[ProcessShares]) -> Plot {
    let shares = all.iter().flat_map(|one| &one.shares).copied();
    let scale = Scale::linear(shares.fold(1.5, f64::max));
    let x = |share: f64| 4.0 + (WIDTH - 12.0) * scale.at(share);
    let mut rows = HtmlTable::new([
        "figure",
        "setting",
        "target",
        "slowest ÷ mean",
        "Jain's index",
    ]);
    let (mut body, mut y) = (String::new(), TOP);
    let mut before = "";
    for one in all {
        if one.series.figure != before {
            before = &one.series.figure;
            for words in wrap(before, WIDTH) {
                body += &label(0.0, y + 12.0, "start", &words);
                y += 15.0;
            }
        }
        let middle = y + ROW / 2.0;
        body += &line((x(0.0), middle), (WIDTH - 8.0, middle), GRID);
        let colour = Ink::Target(data.number(&one.series.target)).colour();
        for share in &one.shares {
            let _ = write!(
                body,
                "<circle cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"3.5\" fill=\"{colour}\" fill-opacity=\"0.55\"/>",
                x(*share),
            );
        }
        y += ROW;
        rows.add([
            one.series.figure.clone(),
            show(&one.series.setting),
            one.series.target.clone(),
            format!("{:.2}", one.slowest),
            format!("{:.3}", one.jain),
        ]);
    }
    let mut behind = dashed(x(1.0), (TOP, y));
    behind += &text(x(1.0), 11.0, "middle", "mean of the run");
    behind += &text(0.0, 11.0, "start", "0");
    Plot {
        title: format!("{workload}: rate of each process ÷ mean"),
        drawing: Drawing {
            height: y + 2.0,
            body: behind + &body,
        },
        keys: Legend::targets(data),
        table: rows,
    }
}

#[test]
fn jains_index_is_one_if_all_are_served_alike() {
    assert_eq!(jain(&shares(&[5.0, 5.0, 5.0])), 1.0);
    assert!((jain(&shares(&[9.0, 0.0, 0.0])) - 1.0 / 3.0).abs() < 1e-9);
}
