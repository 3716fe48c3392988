//! The verdict: a sentence or two for each target.

use std::fmt::Write;

use super::data::{Comparison, ReportData};
use super::html::prose;
use crate::figure::Better;
use crate::results::milestone::way_of;
use crate::results::series::show;
use crate::results::spread::Verdict;
use crate::results::{Direction, Series};

pub fn html(data: &ReportData) -> String {
    let mut out = String::from("<ul class=\"verdict\">");
    let said = data.targets[1..]
        .iter()
        .map(|target| compared(data, target));
    let alone = (data.targets.len() == 1).then(|| {
        let only = format!("Only {} was measured", data.targets[0]);
        (only, "; there is nothing to compare it with.".to_owned())
    });
    let shares = data
        .targets
        .iter()
        .filter_map(|target| shares(data, target));
    for (first, rest) in said.chain(alone).chain(shares) {
        let _ = write!(
            out,
            "<li><strong>{}</strong>{}</li>",
            prose(&first),
            prose(&rest)
        );
    }
    out + "</ul>"
}

/// The most important sentence, and the rest.
fn compared(data: &ReportData, target: &str) -> (String, String) {
    let first = &data.targets[0];
    let all = data.beside_first(target);
    let Some(mean) = mean(&all) else {
        let nothing = format!("{target} and {first} have no figure in common");
        return (nothing, ".".into());
    };
    if all.iter().all(|one| one.verdict == Verdict::TooFewRuns) {
        let open = format!("{target} and {first} had too few runs to tell them apart");
        return (open, format!(": medians say {}.", times(mean, first)));
    }
    let count = |wanted: Option<bool>| all.iter().filter(|one| says(one) == wanted).count();
    let (better, worse) = (count(Some(true)), count(Some(false)));
    if better + worse == 0 {
        let same = format!("{target} and {first} do not differ by more than noise");
        return (same, format!(" in any of {} comparisons.", all.len()));
    }
    let mut rest = format!(" over all {} comparisons", all.len());
    let parts = [("MB/s", "moving data"), ("op/s", "names and attributes")];
    let parts = parts.into_iter().filter_map(|(unit, what)| {
        let some: Vec<&Comparison> = all.iter().filter(|one| one.series.unit == unit).collect();
        let mean = mean_of(&some).filter(|_| some.len() < all.len())?;
        Some(format!("{what} {}", factor(mean)))
    });
    let parts: Vec<String> = parts.collect();
    if !parts.is_empty() {
        let _ = write!(rest, " ({})", parts.join(", "));
    }
    let _ = write!(rest, ": better in {better}, worse in {worse}");
    let open = all.iter().filter(|one| one.verdict == Verdict::TooFewRuns);
    let open = open.count();
    match all.len() - better - worse - open {
        0 => {}
        noise => {
            let _ = write!(rest, ", within the noise in {noise}");
        }
    }
    if open > 0 {
        let _ = write!(rest, ", too few runs to tell in {open}");
    }
    rest.push('.');
    rest += &extremes(&all);
    (format!("{target} is {}", times(mean, first)), rest)
}

/// Whether it is better, where that can be said.
pub fn says(one: &Comparison) -> Option<bool> {
    match (one.verdict, one.series.better) {
        (Verdict::More, Better::More) | (Verdict::Less, Better::Less) => Some(true),
        (Verdict::Less, Better::More) | (Verdict::More, Better::Less) => Some(false),
        (Verdict::Noise | Verdict::TooFewRuns, _) => None,
    }
}

pub fn mean(all: &[Comparison]) -> Option<f64> {
    mean_of(&all.iter().collect::<Vec<_>>())
}

/// The geometric mean: twice and half as fast are as far from equal.
fn mean_of(all: &[&Comparison]) -> Option<f64> {
    let sum: f64 = all.iter().map(|one| one.advantage.ln()).sum();
    (!all.is_empty()).then(|| (sum / all.len() as f64).exp())
}

fn times(mean: f64, first: &str) -> String {
    match mean {
        mean if (0.95..1.05).contains(&mean) => format!("about as fast as {first}"),
        mean => format!("{} as fast as {first}", factor(mean)),
    }
}

fn factor(mean: f64) -> String {
    match mean {
        mean if mean >= 9.95 => format!("{mean:.0} times"),
        mean if mean >= 1.0 => format!("{mean:.2} times"),
        mean if mean >= 0.1 => format!("{:.0} %", 100.0 * mean),
        mean => format!("{:.1} %", 100.0 * mean),
    }
}

pub fn name(series: &Series) -> String {
    let setting = show(&series.setting);
    let parts = [series.workload.as_str(), &series.figure, &setting];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

fn extremes(all: &[Comparison]) -> String {
    let told = |better: bool| all.iter().filter(move |one| says(one) == Some(better));
    let mut text = String::new();
    if let Some(best) = told(true).max_by(|a, b| a.advantage.total_cmp(&b.advantage)) {
        let _ = write!(
            text,
            " Furthest ahead: {}, {}.",
            name(best.series),
            factor(best.advantage)
        );
    }
    if let Some(worst) = told(false).min_by(|a, b| a.advantage.total_cmp(&b.advantage)) {
        let _ = write!(
            text,
            " Furthest behind: {}, {}.",
            name(worst.series),
            factor(worst.advantage)
        );
    }
    text
}

/// None where no ceiling is known.
fn shares(data: &ReportData, target: &str) -> Option<(String, String)> {
    let best = data.best_shares();
    let of = best.iter().filter(|share| share.series.target == *target);
    let said = of.map(|share| {
        let way = match way_of(&share.series.figure) {
            Some(Direction::Write) => "writing",
            _ => "reading",
        };
        format!("{way} {} ({})", share.said(), name(share.series))
    });
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| {
        let first = format!("{target}, share of the ceiling at best");
        (first, format!(": {}.", said.join("; ")))
    })
}

#[test]
fn factors_are_said_as_a_person_would() {
    assert_eq!(
        [0.004, 0.6, 1.0, 1.234, 12.3].map(factor),
        ["0.4 %", "60 %", "1.00 times", "1.23 times", "12 times"]
    );
    assert_eq!(times(1.02, "local"), "about as fast as local");
    assert_eq!(times(0.6, "local"), "60 % as fast as local");
}
