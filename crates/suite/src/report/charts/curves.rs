//! Lines over the values of a variable, with the spread of the runs at each.

use std::fmt::Write;

use super::{Mark, WIDTH, line, short, steps, svg, text};

pub struct Curve {
    pub colour: &'static str,
    pub published: bool,
    /// The place of the value on the axis, in their order.
    pub points: Vec<(usize, Mark)>,
}

const LEFT: f64 = 44.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 8.0;
const PLOT: f64 = 170.0;
const HEIGHT: f64 = TOP + PLOT + 34.0;

/// Values are as far apart as their order says: processes that double are evenly spaced.
pub fn curves(name: &str, variable: &str, values: &[String], curves: &[Curve]) -> String {
    let marks = curves.iter().flat_map(|curve| &curve.points);
    let most = marks.map(|(_, mark)| mark.spread.max).fold(0.0, f64::max);
    let (end, at) = steps(most);
    let x = |place: usize| {
        let room = WIDTH - LEFT - RIGHT;
        LEFT + room * (place as f64 + 0.5) / values.len() as f64
    };
    let y = |value: f64| TOP + PLOT * (1.0 - value / end);
    let mut body = String::new();
    for step in at {
        let (from, to) = ((LEFT, y(step)), (WIDTH - RIGHT, y(step)));
        body += &line(from, to, "stroke=\"#ddd\"");
        body += &text(LEFT - 5.0, y(step) + 4.0, "end", &short(step));
    }
    for (place, value) in values.iter().enumerate() {
        body += &text(x(place), TOP + PLOT + 15.0, "middle", value);
    }
    body += &text(
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 3.0,
        "middle",
        variable,
    );
    for curve in curves {
        draw(&mut body, curve, &x, &y);
    }
    svg(HEIGHT, name, &body)
}

fn draw(body: &mut String, curve: &Curve, x: &impl Fn(usize) -> f64, y: &impl Fn(f64) -> f64) {
    let points: Vec<String> = curve
        .points
        .iter()
        .map(|(place, mark)| format!("{:.1},{:.1}", x(*place), y(mark.spread.median)))
        .collect();
    let dash = if curve.published {
        " stroke-dasharray=\"5 3\""
    } else {
        ""
    };
    let _ = write!(
        body,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{dash}/>",
        points.join(" "),
        curve.colour
    );
    for (place, mark) in &curve.points {
        let at = x(*place);
        let stroke = format!("stroke=\"{}\"", mark.colour);
        *body += &line((at, y(mark.spread.min)), (at, y(mark.spread.max)), &stroke);
        let _ = write!(
            body,
            "<circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{}\"/>",
            y(mark.spread.median),
            mark.colour
        );
    }
}
