//! What a MB/s costs, where prices are given.

use super::book::Book;
use super::charts::bars::{Group, bars};
use super::charts::{Mark, colour, legend};
use super::first::best;
use super::html::{Rows, escape, figure};
use crate::results::Series;
use crate::results::compare::number;
use crate::results::spread::Spread;

pub fn section(book: &Book) -> String {
    let priced: Vec<(&String, f64)> = book
        .targets
        .iter()
        .filter_map(|name| Some((name, book.target(name)?.price?)))
        .collect();
    if priced.is_empty() {
        return String::new();
    }
    let currency = book.plans().rev().find_map(|plan| plan.currency.clone());
    let currency = currency.unwrap_or_else(|| "price".into());
    let mut rows = Rows::new([
        "figure",
        "target",
        "price",
        "best median, MB/s",
        "price per MB/s",
    ]);
    let mut groups = Vec::new();
    for (workload, name) in figures(book) {
        let mut group = Group {
            name: format!("{workload}: {name}"),
            bars: Vec::new(),
        };
        for (target, price) in &priced {
            let of = |one: &&Series| {
                one.workload == workload && one.figure == name && one.target == **target
            };
            let Some(series) = best(book.series.iter().filter(of)) else {
                continue;
            };
            let rate = series.spread().median;
            let Some(spread) = Spread::of(&[price / rate]).filter(|_| rate > 0.0) else {
                continue;
            };
            group.bars.push((
                Mark {
                    spread,
                    colour: colour(book.number(target)),
                },
                false,
            ));
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
        return String::new();
    }
    let title = format!("{currency} per MB/s, less is better");
    let names: Vec<_> = priced
        .iter()
        .map(|(name, _)| ((*name).clone(), colour(book.number(name)), false))
        .collect();
    let picture = bars(&title, &groups, &[]) + &legend(&names);
    format!(
        "<section><h2>What it costs</h2><p>Prices are those of the plan, in {}; rates the best medians.</p><div class=\"charts\">{}</div></section>\n",
        escape(&currency),
        figure(&title, &picture, &rows)
    )
}

/// Workload and name of all that is in MB/s.
fn figures(book: &Book) -> Vec<(&str, &str)> {
    let mut all = Vec::new();
    for series in book.series.iter().filter(|series| series.unit == "MB/s") {
        let name = (series.workload.as_str(), series.figure.as_str());
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}
