//! The cost of a MB/s, where prices are given.

use super::charts::bars::{Group, Style, bars};
use super::charts::{Ink, Mark};
use super::data::ReportData;
use super::html::{HtmlTable, paragraph};
use super::overview::best;
use super::plot::{Legend, PageItem, Plot};
use super::section::section;
use crate::results::Series;
use crate::results::compare::number;
use crate::results::spread::Spread;

pub fn parts(data: &ReportData) -> Vec<PageItem> {
    let priced: Vec<(&String, f64)> = data
        .targets
        .iter()
        .filter_map(|name| Some((name, data.target(name)?.price?)))
        .collect();
    if priced.is_empty() {
        return Vec::new();
    }
    let currency = data.plans().rev().find_map(|plan| plan.currency.clone());
    let currency = currency.unwrap_or_else(|| "price".into());
    let mut rows = HtmlTable::new([
        "figure",
        "target",
        "price",
        "best median, MB/s",
        "price per MB/s",
    ]);
    let mut groups = Vec::new();
    for (workload, name) in figures(data) {
        let mut group = Group {
            name: format!("{workload}: {name}"),
            bars: Vec::new(),
        };
        for (target, price) in &priced {
            let of = |one: &&Series| {
                one.workload == workload && one.figure == name && one.target == **target
            };
            let Some(series) = best(data.series.iter().filter(of)) else {
                continue;
            };
            let rate = series.spread().median;
            let Some(spread) = Spread::of(&[price / rate]).filter(|_| rate > 0.0) else {
                continue;
            };
            let ink = Ink::Target(data.number(target));
            group.bars.push(Mark { spread, ink });
            rows.add([
                group.name.clone(),
                (*target).clone(),
                number(*price),
                number(rate),
                number(price / rate),
            ]);
        }
        groups.push(group);
    }
    if rows.is_empty() {
        return Vec::new();
    }
    let intro = paragraph(&format!(
        "Prices are those of the plan, in {currency}; rates are the best medians of all settings."
    ));
    let plot = Plot {
        title: format!("{currency} per MB/s, less is better"),
        drawing: bars(&groups, &Style::default()),
        keys: Legend::some(data, priced.iter().map(|(name, _)| *name)),
        table: rows,
    };
    section("What it costs", intro, vec![plot], String::new())
}

/// Workload and name of all that is in MB/s.
fn figures(data: &ReportData) -> Vec<(&str, &str)> {
    let mut all = Vec::new();
    for series in data.series.iter().filter(|series| series.unit == "MB/s") {
        let name = (series.workload.as_str(), series.figure.as_str());
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}
