//! A section of the page: a heading, text, figures.

use gupfs_kit::html::escape;

use super::html::slug;
use super::plot::{PageItem, Plot};

/// A section with figures; none if it has none.
pub fn section(title: &str, intro: String, plots: Vec<Plot>, below: String) -> Vec<PageItem> {
    let opened = format!(
        "<section id=\"{}\"><h2>{}</h2>{intro}<div class=\"charts\">",
        slug(title),
        escape(title)
    );
    let mut parts = vec![PageItem::Html(opened)];
    parts.extend(plots.into_iter().map(PageItem::Plot));
    parts.push(PageItem::Html(format!("</div>{below}</section>\n")));
    parts
}
