//! A field for each pair of values of two variables.

use std::fmt::Write;

use super::{WIDTH, short, svg, text};

const LEFT: f64 = 52.0;
const FIELD: f64 = 26.0;
const TOP: f64 = 20.0;

/// `values[row][column]`; none where nothing was measured. Colours go from 0 to `most`.
pub fn heat(
    name: &str,
    (columns, across): (&[String], &str),
    (rows, down): (&[String], &str),
    values: &[Vec<Option<f64>>],
    most: f64,
) -> String {
    let width = (WIDTH - LEFT) / columns.len() as f64;
    let mut body = text(0.0, 12.0, "start", &format!("{down} ↓  {across} →"));
    let bottom = TOP + FIELD * rows.len() as f64;
    for (row, label) in rows.iter().enumerate() {
        let y = TOP + FIELD * row as f64;
        body += &text(LEFT - 6.0, y + FIELD / 2.0 + 4.0, "end", label);
        for (column, value) in values[row].iter().enumerate() {
            field(
                &mut body,
                (LEFT + width * column as f64, y),
                width,
                *value,
                most,
            );
        }
    }
    for (column, label) in columns.iter().enumerate() {
        let middle = LEFT + width * (column as f64 + 0.5);
        body += &text(middle, bottom + 14.0, "middle", label);
    }
    svg(bottom + 18.0, name, &body)
}

fn field(body: &mut String, (x, y): (f64, f64), width: f64, value: Option<f64>, most: f64) {
    let share = value.map_or(0.0, |value| (value / most).clamp(0.0, 1.0));
    let (fill, ink) = match value {
        None => ("#f4f4f4".to_owned(), "#111"),
        Some(_) => (shade(share), if share > 0.55 { "#fff" } else { "#111" }),
    };
    let shown = value.map_or("–".into(), short);
    let _ = write!(
        body,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{fill}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" style=\"fill:{ink}\">{shown}</text>",
        width - 1.0,
        FIELD - 1.0,
        x + width / 2.0,
        y + FIELD / 2.0 + 4.0
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
