//! A field for each pair of values of two variables.

use std::fmt::Write;

use super::words::{cut, width};
use super::{Drawing, INK, WIDTH, label, short, text};

const FIELD: f64 = 26.0;
const TOP: f64 = 20.0;

/// Labels at the sides.
pub struct AxisLabels<'a> {
    pub columns: &'a [String],
    pub across: &'a str,
    pub rows: &'a [String],
    pub down: &'a str,
}

/// `values[row][column]`; none where nothing was measured. Colours go from 0 to `most`.
pub fn heat(sides: &AxisLabels, values: &[Vec<Option<f64>>], most: f64) -> Drawing {
    let left = sides.rows.iter().map(|row| width(row)).fold(0.0, f64::max);
    let left = left.min(110.0) + 8.0;
    let room = (WIDTH - left) / sides.columns.len() as f64;
    let bottom = TOP + FIELD * sides.rows.len() as f64;
    let mut body = label(0.0, 12.0, "start", &format!("{} ↓", sides.down));
    for (row, name) in sides.rows.iter().enumerate() {
        let y = TOP + FIELD * row as f64;
        let name = cut(name, left - 8.0);
        body += &text(left - 6.0, y + FIELD / 2.0 + 4.0, "end", &name);
        for (column, value) in values[row].iter().enumerate() {
            field(
                &mut body,
                (left + room * column as f64, y),
                room,
                *value,
                most,
            );
        }
    }
    let widest = sides.columns.iter().map(|name| width(name));
    let every = (widest.fold(0.0, f64::max) / room).ceil().clamp(1.0, 4.0) as usize;
    for (column, name) in sides.columns.iter().enumerate().step_by(every) {
        let middle = left + room * (column as f64 + 0.5);
        let name = cut(name, room * every as f64);
        body += &text(middle, bottom + 14.0, "middle", &name);
    }
    let across = format!("{} →", sides.across);
    body += &text(WIDTH - 1.0, bottom + 28.0, "end", &across);
    Drawing {
        height: bottom + 33.0,
        body,
    }
}

fn field(body: &mut String, (x, y): (f64, f64), room: f64, value: Option<f64>, most: f64) {
    let share = value.map_or(0.0, |value| (value / most).clamp(0.0, 1.0));
    let (fill, ink) = match value {
        None => ("#f4f4f4".to_owned(), INK),
        Some(_) => (shade(share), if share > 0.5 { "#fff" } else { INK }),
    };
    let shown = value.map_or("–".into(), short);
    // Many columns have little room each; the table below has the same figures.
    let size = (11.0 * (room - 2.0) / width(&shown)).clamp(6.0, 11.0);
    let _ = write!(
        body,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{fill}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"{size:.1}\" fill=\"{ink}\">{shown}</text>",
        room - 1.0,
        FIELD - 1.0,
        x + room / 2.0 - 0.5,
        y + FIELD / 2.0 + 3.5
    );
}

/// From nearly white to dark blue; grey prints keep the order.
fn shade(share: f64) -> String {
    let mix = |from: f64, to: f64| (from + (to - from) * share).round();
    format!(
        "rgb({},{},{})",
        mix(238.0, 8.0),
        mix(244.0, 64.0),
        mix(250.0, 129.0)
    )
}
