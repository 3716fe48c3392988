//! A section of the page: a heading, text, figures.

use gupfs_kit::html::escape;

use super::html::slug;
use super::plot::{Part, Plot};

/// A section with figures; none if it has none.
pub fn section(title: &str, intro: String, plots: Vec<Plot>, below: String) -> Vec<Part> {
    let opened = format!(
        "<section id=\"{}\"><h2>{}</h2>{intro}<div class=\"charts\">",
        slug(title),
        escape(title)
    );
    let mut parts = vec![Part::Html(opened)];
    parts.extend(plots.into_iter().map(Part::Plot));
    parts.push(Part::Html(format!("</div>{below}</section>\n")));
    parts
}
