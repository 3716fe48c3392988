//! What share of a ceiling was reached: of another target, which shows what the hardware can do.

use super::book::Book;
use super::charts::bars::{Group, bars};
use super::charts::{Mark, colour, legend};
use super::html::{Rows, escape, figure};
use crate::results::Series;
use crate::results::series::show;
use crate::results::spread::Spread;

/// The milestone of 2005: required, and aimed at.
const LINES: [f64; 2] = [60.0, 80.0];

/// Above it the network or disk cannot have been what was measured, by more than medians of few runs err.
const CACHE: f64 = 105.0;

pub fn section(book: &Book) -> String {
    let Some(ceiling) = &book.ceiling else {
        return String::new();
    };
    let mut out = String::new();
    for workload in &book.workloads {
        out += &of_workload(book, workload, ceiling);
    }
    format!(
        "<section><h2>Share of the ceiling</h2><p>The ceiling is {} in the same setting. The lines are those of LLNL's milestone 464: \
         60 % were required, 80 % aimed at. More than 100 % is a cache's effect.</p><div class=\"charts\">{out}</div></section>\n",
        escape(ceiling)
    )
}

fn of_workload(book: &Book, workload: &str, ceiling: &str) -> String {
    let rates = |one: &&Series| one.workload == workload && one.unit.ends_with("/s");
    let mut groups = Vec::new();
    let mut rows = Rows::new(["figure", "target", "% of the ceiling", "verdict"]);
    for top in book
        .series
        .iter()
        .filter(rates)
        .filter(|one| one.target == ceiling)
    {
        let name = format!("{} {}", top.figure, show(&top.setting))
            .trim_end()
            .to_owned();
        let mut group = Group {
            name: name.clone(),
            bars: Vec::new(),
        };
        for target in book.targets.iter().filter(|target| *target != ceiling) {
            let Some(series) = book.at(top, target) else {
                continue;
            };
            let above = top.spread().median;
            let shares: Vec<f64> = series
                .values
                .iter()
                .map(|value| 100.0 * value / above)
                .collect();
            let Some(spread) = Spread::of(&shares).filter(|_| above > 0.0) else {
                continue;
            };
            rows.add([
                name.clone(),
                target.clone(),
                format!("{:.0}", spread.median),
                verdict(spread.median).into(),
            ]);
            let colour = colour(book.number(target));
            group.bars.push((Mark { spread, colour }, false));
        }
        groups.push(group);
    }
    if rows.is_empty() {
        return String::new();
    }
    let others = book.targets.iter().filter(|target| *target != ceiling);
    let names: Vec<_> = others
        .map(|name| (name.clone(), colour(book.number(name)), false))
        .collect();
    let title = format!("{workload}, % of {ceiling}");
    figure(
        &title,
        &(bars(&title, &groups, &LINES) + &legend(&names)),
        &rows,
    )
}

fn verdict(percent: f64) -> &'static str {
    match percent {
        percent if percent > CACHE => "a cache's effect",
        percent if percent >= LINES[1] => "what was aimed at",
        percent if percent >= LINES[0] => "what was required",
        _ => "less than required",
    }
}

#[test]
fn the_milestones_lines_decide() {
    let said = [10.0, 60.0, 79.9, 80.0, 101.0, 120.0].map(verdict);
    assert_eq!(
        said,
        [
            "less than required",
            "what was required",
            "what was required",
            "what was aimed at",
            "what was aimed at",
            "a cache's effect"
        ]
    );
}
