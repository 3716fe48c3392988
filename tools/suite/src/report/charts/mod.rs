//! # charts: pictures as SVG
//!
//! Owns   scales, bars, curves, heat maps, ratios. All are 360 units wide, so that their text is readable on a phone.
//! Never  knows what is measured.
//! Enter  at [`bars::bars`], [`curves::curves`], [`heat::heat`], [`ratios::ratios`].

pub mod bars;
pub mod curves;
pub mod heat;
pub mod ratios;
mod scale;
pub mod words;

pub use scale::{Scale, short};

use gupfs_kit::html::escape;

use crate::results::spread::Spread;

pub const WIDTH: f64 = 360.0;

pub const INK: &str = "#222";
pub const GRID: &str = "#dcdcdc";
pub const LINE: &str = "#555";

/// A picture without its frame.
pub struct Drawing {
    pub height: f64,
    pub body: String,
}

/// Whose a mark is, and so how it looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ink {
    /// By number.
    Target(usize),
    /// Of a publication: grey, dashed, and with a letter.
    Published(usize),
}

/// The mark of several runs, and the target that they are of.
#[derive(Clone, Debug)]
pub struct Mark {
    pub spread: Spread,
    pub ink: Ink,
}

impl Mark {
    pub fn published(value: f64, ink: Ink) -> Mark {
        let spread = Spread::of(&[value]).expect("one value");
        Mark { spread, ink }
    }
}

impl Ink {
    /// Of targets, those that people with any sight tell apart (after Okabe and Ito).
    pub fn colour(self) -> &'static str {
        const TARGETS: [&str; 7] = [
            "#0072b2", "#d55e00", "#009e73", "#b0528a", "#b58900", "#3d9fd6", "#000000",
        ];
        match self {
            Ink::Target(number) => TARGETS[number % TARGETS.len()],
            Ink::Published(_) => "#8a8a8a",
        }
    }

    pub fn letter(self) -> Option<char> {
        match self {
            Ink::Target(_) => None,
            Ink::Published(number) => char::from_u32(u32::from('a') + number as u32 % 26),
        }
    }

    /// A point; its shape differs too, for prints without colour.
    pub fn point(self, x: f64, y: f64) -> String {
        let fill = format!("fill=\"{}\"", self.colour());
        let Ink::Target(number) = self else {
            return format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"#fff\" stroke=\"{}\" stroke-width=\"1.5\"/>",
                self.colour()
            );
        };
        match number % 4 {
            0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" {fill}/>"),
            1 => format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"6.4\" height=\"6.4\" {fill}/>",
                x - 3.2,
                y - 3.2
            ),
            2 => format!("<path d=\"M{x:.1} {:.1}l4.2 7.4h-8.4z\" {fill}/>", y - 4.6),
            _ => format!(
                "<path d=\"M{x:.1} {:.1}l4.4 4.4l-4.4 4.4l-4.4-4.4z\" {fill}/>",
                y - 4.4
            ),
        }
    }
}

/// How text looks, of every picture.
const FONT: &str =
    "font-family=\"system-ui, 'DejaVu Sans', 'Liberation Sans', sans-serif\" font-size=\"11\"";

impl Drawing {
    pub fn svg(&self, name: &str) -> String {
        let Drawing { height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\" {FONT}>{body}</svg>",
            escape(name)
        )
    }

    /// The same as a file of its own, on white with a margin.
    pub fn file(&self, name: &str) -> String {
        const MARGIN: f64 = 14.0;
        let (width, height) = (WIDTH + 2.0 * MARGIN, self.height + 2.0 * MARGIN);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height:.0}\" viewBox=\"{} {} {width} {height:.0}\" {FONT}>\
             <title>{}</title><rect x=\"{}\" y=\"{}\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>{}</svg>\n",
            -MARGIN,
            -MARGIN,
            escape(name),
            -MARGIN,
            -MARGIN,
            self.body
        )
    }
}

pub fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{INK}\">{}</text>",
        escape(text)
    )
}

/// Text that may lie over lines.
pub fn label(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{INK}\" stroke=\"#fff\" stroke-width=\"4\" stroke-linejoin=\"round\" paint-order=\"stroke\">{}</text>",
        escape(text)
    )
}

pub fn line((x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str) -> String {
    format!(
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
    )
}

pub fn dashed(x: f64, (y1, y2): (f64, f64)) -> String {
    format!(
        "<line x1=\"{x:.1}\" y1=\"{y1:.1}\" x2=\"{x:.1}\" y2=\"{y2:.1}\" stroke=\"{LINE}\" stroke-dasharray=\"4 3\"/>"
    )
}
