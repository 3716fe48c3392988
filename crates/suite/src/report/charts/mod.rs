//! # charts: pictures as inline SVG
//!
//! Owns   scales, bars, curves, heat maps. All are 360 units wide, so that their text is readable on a phone.
//! Never  knows what is measured.
//! Enter  at [`bars::bars`], [`curves::curves`], [`heat::heat`].

pub mod bars;
pub mod curves;
pub mod heat;

use super::html::escape;
use crate::results::spread::Spread;

pub const WIDTH: f64 = 360.0;

/// Colours that people with any sight tell apart (Okabe and Ito), by target.
pub fn colour(number: usize) -> &'static str {
    const COLOURS: [&str; 7] = [
        "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
    ];
    COLOURS[number % COLOURS.len()]
}

/// What a chart shows of several runs, and how.
#[derive(Clone, Debug)]
pub struct Mark {
    pub spread: Spread,
    pub colour: &'static str,
}

pub fn svg(height: f64, name: &str, body: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">{body}</svg>",
        escape(name)
    )
}

pub fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
        escape(text)
    )
}

pub fn line((x1, y1): (f64, f64), (x2, y2): (f64, f64), stroke: &str) -> String {
    format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {stroke}/>")
}

/// Coloured names below a chart; the flag is for those that were published.
pub fn legend(names: &[(String, &str, bool)]) -> String {
    let entry = |(name, colour, published): &(String, &str, bool)| {
        let border = if *published { "dashed" } else { "solid" };
        format!(
            "<span class=\"key\"><i style=\"border-top:3px {border} {colour}\"></i>{}</span> ",
            escape(name)
        )
    };
    let entries: String = names.iter().map(entry).collect();
    format!("<p class=\"legend\">{entries}</p>")
}

/// The end of an axis that starts at 0 and reaches `most`, and the steps on it: 1, 2 or 5 times a power of ten.
pub fn steps(most: f64) -> (f64, Vec<f64>) {
    if !(most > 0.0 && most.is_finite()) {
        return (1.0, vec![0.0, 1.0]);
    }
    let rough = most / 4.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = step
        .into_iter()
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(power * 10.0);
    let count = (most / step).ceil().max(1.0);
    (
        count * step,
        (0..=count as usize).map(|at| at as f64 * step).collect(),
    )
}

/// Few characters: `12k`, `3.5M`.
pub fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => 0,
        size if size >= 1.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{unit}")
}

#[test]
fn axes_end_on_a_round_step() {
    assert_eq!(steps(93.0), (100.0, vec![0.0, 50.0, 100.0]));
    assert_eq!(steps(8.0).0, 8.0);
    assert_eq!(steps(0.0).0, 1.0);
    assert_eq!(
        [0.25, 7.0, 7.5, 1234.0, 12_345.0, 3.5e6].map(short),
        ["0.25", "7", "7.5", "1234", "12.3k", "3.5M"]
    );
}
