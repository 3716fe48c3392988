//! How many times as good as the first: points on a logarithmic line, with 1 in the middle of what is seen.

use super::words::{width, wrap};
use super::{Drawing, GRID, Ink, Scale, WIDTH, dashed, label, line, text};

pub struct Row {
    pub name: String,
    pub lines: Vec<Line>,
}

/// One target's.
pub struct Line {
    pub ink: Ink,
    /// The mean over all settings.
    pub mean: f64,
    /// Of each setting, and whether it differs by more than noise.
    pub points: Vec<(f64, bool)>,
    /// Behind it.
    pub said: String,
}

const LINE_HEIGHT: f64 = 16.0;
const HEADING: f64 = 14.0;
const TOP: f64 = 32.0;
/// However near to 1 all are, so much is seen on either side.
const LEAST: f64 = 1.25;

pub fn ratios(rows: &[Row]) -> Drawing {
    let lines = || rows.iter().flat_map(|row| &row.lines);
    let all = || lines().flat_map(|line| line.points.iter().map(|point| point.0));
    let scale = Scale::log(
        all().fold(1.0 / LEAST, f64::min),
        all().fold(LEAST, f64::max),
    );
    let right = lines().map(|line| width(&line.said)).fold(0.0, f64::max) + 10.0;
    let (from, to) = (6.0, WIDTH - right - 4.0);
    let x = |value: f64| from + (to - from) * scale.at(value);
    let mut front = String::new();
    let mut y = TOP;
    for row in rows {
        for words in wrap(&row.name, WIDTH) {
            front += &label(0.0, y + 11.0, "start", &words);
            y += HEADING;
        }
        for one in &row.lines {
            let middle = y + LINE_HEIGHT / 2.0;
            let ends = one.points.iter().map(|point| point.0);
            let low = ends.clone().fold(one.mean, f64::min);
            let high = ends.fold(one.mean, f64::max);
            front += &line((x(low), middle), (x(high), middle), one.ink.colour());
            for (value, differs) in &one.points {
                front += &small(one.ink, x(*value), middle, *differs);
            }
            let mean = x(one.mean);
            front += &format!(
                "<line x1=\"{mean:.1}\" y1=\"{:.1}\" x2=\"{mean:.1}\" y2=\"{:.1}\" stroke=\"{}\" stroke-width=\"3\"/>",
                middle - 6.0,
                middle + 6.0,
                one.ink.colour()
            );
            front += &label(WIDTH - right + 8.0, middle + 4.0, "start", &one.said);
            y += LINE_HEIGHT;
        }
        y += 6.0;
    }
    let mut behind = axis(&scale, &x, y);
    behind += &text(0.0, 10.0, "start", "← worse");
    behind += &text(to + 4.0, 10.0, "end", "better →");
    Drawing {
        height: y,
        body: behind + &front,
    }
}

fn axis(scale: &Scale, x: &impl Fn(f64) -> f64, bottom: f64) -> String {
    let mut body = String::new();
    let mut free = f64::NEG_INFINITY;
    for step in &scale.steps {
        let at = x(*step);
        body += &line((at, TOP), (at, bottom), GRID);
        let said = format!("{step:.3}");
        let said = said.trim_end_matches('0').trim_end_matches('.').to_owned() + "×";
        if at - width(&said) / 2.0 > free {
            let inside = at.max(width(&said) / 2.0);
            body += &text(inside, TOP - 6.0, "middle", &said);
            free = inside + width(&said) / 2.0 + 4.0;
        }
    }
    body + &dashed(x(1.0), (TOP, bottom))
}

/// Hollow where the difference is within the noise, or too few runs can tell.
fn small(ink: Ink, x: f64, y: f64, differs: bool) -> String {
    let fill = if differs { ink.colour() } else { "#fff" };
    format!(
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{fill}\" stroke=\"{}\"/>",
        ink.colour()
    )
}
