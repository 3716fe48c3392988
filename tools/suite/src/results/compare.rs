//! Comparisons of two medians, in words.

use super::series::{Series, show};
use super::spread::{RUNS_MIN, Ratio, Spread, Verdict};
use crate::figure::Better;

/// Whether more was better, or worse, as a person says it.
pub fn word(verdict: Verdict, better: Better) -> &'static str {
    match (verdict, better) {
        (Verdict::More, Better::More) | (Verdict::Less, Better::Less) => "better",
        (Verdict::Less, Better::More) | (Verdict::More, Better::Less) => "worse",
        (Verdict::Noise, _) => "within the noise",
        (Verdict::TooFewRuns, _) => "too few runs to tell",
    }
}

/// So many digits that a reader sees three, whole numbers with thousands apart.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1_000.0 {
        return thousands(value);
    }
    let digits = match size {
        0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `102 (98.1 to 105)`.
pub fn spread(spread: &Spread) -> String {
    let median = number(spread.median);
    match spread.runs {
        1 => median,
        _ => format!(
            "{median} ({} to {})",
            number(spread.min),
            number(spread.max)
        ),
    }
}

/// `1.21 (1.15 to 1.30): better`.
pub fn ratio(ratio: &Ratio, better: Better) -> String {
    format!(
        "{:.2} ({:.2} to {:.2}): {}",
        ratio.value,
        ratio.low,
        ratio.high,
        word(ratio.verdict(), better)
    )
}

/// Targets side by side: a line a figure, setting and target; those behind the first with their ratio to it.
pub fn targets(all: &[Series]) -> String {
    let mut rows = vec![
        [
            "workload",
            "figure",
            "target",
            "median (min to max)",
            "÷ first (95 %)",
        ]
        .map(String::from),
    ];
    let mut shown: Vec<&Series> = Vec::new();
    for first in all {
        if shown.iter().any(|other| other.beside(first)) {
            continue;
        }
        shown.push(first);
        for series in all.iter().filter(|series| series.beside(first)) {
            let ratio = match std::ptr::eq(series, first) {
                true => String::new(),
                false => Ratio::of(&series.values, &first.values)
                    .map_or(String::new(), |found| ratio(&found, first.better)),
            };
            rows.push(row(series, ratio));
        }
    }
    table(&rows)
}

/// Runs of now beside older ones of the same workload, setting, figure and target. None if they have nothing in common.
pub fn older(now: &[Series], older: &[Series]) -> Option<String> {
    let mut rows = vec![
        [
            "workload",
            "figure",
            "target",
            "median (min to max)",
            "÷ older (95 %)",
        ]
        .map(String::from),
    ];
    for series in now {
        let before = older
            .iter()
            .find(|other| other.beside(series) && other.target == series.target);
        if let Some(before) = before
            && let Some(found) = Ratio::of(&series.values, &before.values)
        {
            rows.push(row(series, ratio(&found, series.better)));
        }
    }
    (rows.len() > 1).then(|| table(&rows))
}

fn row(series: &Series, ratio: String) -> [String; 5] {
    let workload = format!("{} {}", series.workload, show(&series.setting));
    let median = format!("{} {}", spread(&series.spread()), series.unit);
    [
        workload.trim_end().into(),
        series.figure.clone(),
        series.target.clone(),
        median,
        ratio,
    ]
}

/// Columns as wide as they must be.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// The meaning of the words above, for the reader.
pub fn legend() -> String {
    format!(
        "The interval holds 95 % of the ratios that one gets when the runs are drawn again. Within the noise: it holds 1. With \
         fewer than {RUNS_MIN} runs nothing is said. Of twenty differences that are none, about one will look like one."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_thousands_apart() {
        let shown = [0.0, 0.1234, 1.234, 12.34, 123.4, 1234.4, 1234567.0].map(number);
        assert_eq!(
            shown,
            ["0", "0.123", "1.23", "12.3", "123", "1,234", "1,234,567"]
        );
    }

    #[test]
    fn less_time_is_better() {
        assert_eq!(word(Verdict::Less, Better::Less), "better");
        assert_eq!(word(Verdict::Less, Better::More), "worse");
    }
}
