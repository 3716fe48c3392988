//! Lines over the values of a variable, with the spread of the runs at each.

use std::fmt::Write;

use super::words::width;
use super::{Drawing, GRID, Ink, Mark, Scale, WIDTH, label, line, short, text};

pub struct Curve {
    pub ink: Ink,
    /// Not of a line that only says how high something was.
    pub points_seen: bool,
    /// The place of the value on the axis, in their order.
    pub points: Vec<(usize, Mark)>,
}

/// Labels of the axes.
pub struct Axes<'a> {
    pub values: &'a [String],
    pub across: &'a str,
    pub unit: &'a str,
}

const LEFT: f64 = 44.0;
const TOP: f64 = 22.0;
const PLOT: f64 = 170.0;
const HEIGHT: f64 = TOP + PLOT + 36.0;
/// Between letters beside curves that end near each other.
const LETTER: f64 = 12.0;

/// Values are as far apart as their order says: processes that double are evenly spaced.
pub fn curves(axes: &Axes, curves: &[Curve]) -> Drawing {
    let marks = curves.iter().flat_map(|curve| &curve.points);
    let scale = Scale::over(marks.flat_map(|(_, mark)| [mark.spread.min, mark.spread.max]));
    let right = match curves.iter().any(|curve| curve.ink.letter().is_some()) {
        true => 18.0,
        false => 6.0,
    };
    let room = WIDTH - LEFT - right;
    let slot = room / axes.values.len() as f64;
    let x = |place: usize| LEFT + slot * (place as f64 + 0.5);
    let y = |value: f64| TOP + PLOT * (1.0 - scale.at(value));
    let kind = if scale.log { ", log scale" } else { "" };
    let mut body = text(0.0, 10.0, "start", &format!("{}{kind}", axes.unit));
    for step in &scale.steps {
        body += &line((LEFT, y(*step)), (WIDTH - right, y(*step)), GRID);
        body += &text(LEFT - 5.0, y(*step) + 4.0, "end", &short(*step));
    }
    let widest = axes.values.iter().map(|value| width(value));
    let every = (widest.fold(0.0, f64::max) / slot).ceil().max(1.0) as usize;
    for (place, value) in axes.values.iter().enumerate().step_by(every) {
        body += &text(x(place), TOP + PLOT + 16.0, "middle", value);
    }
    body += &text(LEFT + room / 2.0, HEIGHT - 4.0, "middle", axes.across);
    for curve in curves {
        draw(&mut body, curve, &x, &y);
    }
    let ends = curves.iter().filter_map(|curve| {
        let (place, mark) = curve.points.last()?;
        Some((curve.ink.letter()?, *place, y(mark.spread.median)))
    });
    for (letter, place, at) in apart(ends.collect()) {
        body += &label(x(place) + 7.0, at + 4.0, "start", &letter.to_string());
    }
    Drawing {
        height: HEIGHT,
        body,
    }
}

fn draw(body: &mut String, curve: &Curve, x: &impl Fn(usize) -> f64, y: &impl Fn(f64) -> f64) {
    let points: Vec<String> = curve
        .points
        .iter()
        .map(|(place, mark)| format!("{:.1},{:.1}", x(*place), y(mark.spread.median)))
        .collect();
    let dash = match curve.ink {
        Ink::Target(_) => "stroke-width=\"2\"",
        Ink::Published(_) => "stroke-width=\"1.5\" stroke-dasharray=\"5 3\"",
    };
    let _ = write!(
        body,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" {dash}/>",
        points.join(" "),
        curve.ink.colour()
    );
    for (place, mark) in &curve.points {
        let at = x(*place);
        let (low, high) = (y(mark.spread.min), y(mark.spread.max));
        if mark.spread.runs > 1 {
            let colour = mark.ink.colour();
            *body += &line((at, low), (at, high), colour);
            for end in [low, high] {
                *body += &line((at - 3.0, end), (at + 3.0, end), colour);
            }
        }
        if curve.points_seen {
            *body += &mark.ink.point(at, y(mark.spread.median));
        }
    }
}

/// Letters of curves that end at the same place are moved until none lies over another, around where they belong.
fn apart(mut ends: Vec<(char, usize, f64)>) -> Vec<(char, usize, f64)> {
    ends.sort_by(|a, b| a.1.cmp(&b.1).then(a.2.total_cmp(&b.2)));
    for group in ends.chunk_by_mut(|a, b| a.1 == b.1) {
        // Heaps of letters: how many, and the sum of where they belong.
        let mut heaps: Vec<(usize, f64)> = Vec::new();
        let top = |(count, sum): (usize, f64)| {
            let height = LETTER * (count - 1) as f64;
            let bottom = TOP + PLOT - height;
            (sum / count as f64 - height / 2.0).min(bottom).max(0.0)
        };
        for end in group.iter() {
            let mut heap = (1, end.2);
            while let Some(above) = heaps.last().copied()
                && top(above) + LETTER * above.0 as f64 > top(heap)
            {
                heap = (heap.0 + above.0, heap.1 + above.1);
                heaps.pop();
            }
            heaps.push(heap);
        }
        let places = heaps
            .into_iter()
            .flat_map(|heap| (0..heap.0).map(move |number| top(heap) + LETTER * number as f64));
        for (end, place) in group.iter_mut().zip(places) {
            end.2 = place;
        }
    }
    ends
}

#[test]
fn letters_do_not_lie_over_each_other() {
    let ends = apart(vec![
        ('a', 1, 190.0),
        ('b', 1, 188.0),
        ('c', 1, 50.0),
        ('d', 2, 50.0),
        ('e', 2, 52.0),
    ]);
    assert_eq!(
        ends,
        [
            ('c', 1, 50.0),
            ('b', 1, 180.0),
            ('a', 1, 192.0),
            ('d', 2, 45.0),
            ('e', 2, 57.0)
        ]
    );
}
