//! Horizontal bars, in groups, with the spread of the runs on each.

use std::fmt::Write;

use super::words::{width, wrap};
use super::{Drawing, GRID, INK, Mark, Scale, WIDTH, dashed, label, line, short, text};

/// Bars under one heading.
pub struct Group {
    pub name: String,
    /// Without those for which nothing was measured.
    pub bars: Vec<Mark>,
}

/// Unit and ends of the bars.
#[derive(Default)]
pub struct Style<'a> {
    /// Behind each value.
    pub unit: &'a str,
    /// Values at which a line is drawn, with what stands there: left of the first, right of others.
    pub lines: &'a [(f64, &'a str)],
    /// Bars end here, and say that they would go on.
    pub end: Option<f64>,
}

const BAR: f64 = 12.0;
const HEADING: f64 = 14.0;
const GAP: f64 = 8.0;

pub fn bars(groups: &[Group], style: &Style) -> Drawing {
    let marks = || groups.iter().flat_map(|group| &group.bars);
    let end = style.end.unwrap_or(f64::INFINITY);
    let most = marks().map(|mark| mark.spread.max.min(end));
    let most = most.chain(style.lines.iter().map(|line| line.0));
    let scale = match style.end {
        Some(end) => Scale::linear(end),
        None => Scale::linear(most.fold(0.0, f64::max)),
    };
    let values = marks().map(|mark| value(mark, style));
    let right = values.map(|value| width(&value)).fold(0.0, f64::max) + 10.0;
    let x = |value: f64| scale.at(value) * (WIDTH - right);
    let top = if style.lines.is_empty() { 0.0 } else { 14.0 };
    let (mut behind, mut front) = (String::new(), String::new());
    let mut y = top;
    for group in groups {
        for words in wrap(&group.name, WIDTH) {
            front += &label(0.0, y + 11.0, "start", &words);
            y += HEADING;
        }
        y += 2.0;
        for mark in &group.bars {
            bar(&mut front, y, mark, style, &x);
            y += BAR + 2.0;
        }
        y += GAP;
    }
    let height = y - GAP + 2.0;
    behind += &line((0.5, top), (0.5, height), GRID);
    for (number, (value, name)) in style.lines.iter().enumerate() {
        behind += &dashed(x(*value), (top, height));
        let (aside, anchor) = if number == 0 {
            (-2.0, "end")
        } else {
            (2.0, "start")
        };
        behind += &text(x(*value) + aside, 10.0, anchor, name);
    }
    Drawing {
        height,
        body: behind + &front,
    }
}

fn value(mark: &Mark, style: &Style) -> String {
    let median = mark.spread.median;
    let mut said = match style.unit {
        " %" => format!("{median:.0} %"),
        unit => short(median) + unit,
    };
    if style.end.is_some_and(|end| mark.spread.median > end) {
        said = format!("» {said}");
    }
    if let Some(letter) = mark.ink.letter() {
        let _ = write!(said, "  {letter}");
    }
    said
}

fn bar(body: &mut String, y: f64, mark: &Mark, style: &Style, x: &impl Fn(f64) -> f64) {
    let spread = &mark.spread;
    let opacity = if mark.ink.letter().is_some() {
        0.45
    } else {
        0.85
    };
    let _ = write!(
        body,
        "<rect x=\"0\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{}\" fill-opacity=\"{opacity}\"/>",
        x(spread.median).max(1.0),
        mark.ink.colour()
    );
    if spread.runs > 1 {
        let middle = y + BAR / 2.0;
        *body += &line((x(spread.min), middle), (x(spread.max), middle), INK);
        for end in [spread.min, spread.max] {
            *body += &line((x(end), middle - 3.0), (x(end), middle + 3.0), INK);
        }
    }
    let behind = x(spread.max) + 5.0;
    *body += &label(behind, y + BAR - 2.0, "start", &value(mark, style));
}
