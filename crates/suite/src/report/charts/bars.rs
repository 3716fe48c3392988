//! Bars that lie, in groups, with the spread of the runs on each.

use std::fmt::Write;

use super::{Mark, WIDTH, line, short, steps, svg, text};

/// Bars under one heading.
pub struct Group {
    pub name: String,
    /// None where nothing was measured.
    pub bars: Vec<(Mark, bool)>,
}

const BAR: f64 = 13.0;
const HEADING: f64 = 17.0;
const GAP: f64 = 7.0;
/// What the value behind the longest bar needs.
const RIGHT: f64 = 52.0;

/// The flag of a bar is for published figures. `lines` are values to draw a line at.
pub fn bars(name: &str, groups: &[Group], lines: &[f64]) -> String {
    let all = groups.iter().flat_map(|group| &group.bars);
    let most = all.map(|(mark, _)| mark.spread.max).fold(0.0, f64::max);
    let most = lines.iter().copied().fold(most, f64::max);
    let (end, _) = steps(most);
    let x = |value: f64| value / end * (WIDTH - RIGHT);
    let mut body = String::new();
    let mut y = 2.0;
    for group in groups {
        body += &text(0.0, y + 12.0, "start", &group.name);
        y += HEADING;
        for (mark, published) in &group.bars {
            bar(&mut body, y, mark, *published, &x);
            y += BAR + 2.0;
        }
        y += GAP;
    }
    for value in lines {
        let at = x(*value);
        body += &line(
            (at, 0.0),
            (at, y),
            "stroke=\"#444\" stroke-dasharray=\"3 3\"",
        );
    }
    svg(y, name, &body)
}

fn bar(body: &mut String, y: f64, mark: &Mark, published: bool, x: &impl Fn(f64) -> f64) {
    let spread = &mark.spread;
    let opacity = if published { 0.45 } else { 0.85 };
    let _ = write!(
        body,
        "<rect x=\"0\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{}\" fill-opacity=\"{opacity}\"/>",
        x(spread.median).max(0.5),
        mark.colour
    );
    if spread.runs > 1 {
        let middle = y + BAR / 2.0;
        let stroke = "stroke=\"#111\"";
        *body += &line((x(spread.min), middle), (x(spread.max), middle), stroke);
        for end in [spread.min, spread.max] {
            *body += &line((x(end), middle - 3.0), (x(end), middle + 3.0), stroke);
        }
    }
    let behind = x(spread.max.max(spread.median)) + 4.0;
    *body += &text(behind, y + BAR - 2.5, "start", &short(spread.median));
}
