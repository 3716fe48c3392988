//! The page as a whole.

use gupfs_kit::html::escape;

use super::book::Book;
use super::plot::{Part, Plot, Table};
use super::{ceiling, cost, fairness, first, workload};

/// All parts in their order; sections open and close themselves.
pub fn parts(book: &Book) -> Vec<Part> {
    let mut parts = first::parts(book);
    parts.extend(ceiling::parts(book));
    for name in &book.workloads {
        parts.extend(workload::parts(book, name));
    }
    parts.extend(fairness::parts(book));
    parts.extend(cost::parts(book));
    parts
}

pub fn html(book: &Book, parts: &[Part]) -> String {
    let body: String = parts
        .iter()
        .map(|part| match part {
            Part::Html(html) => html.clone(),
            Part::Front(plot) => plot.html(Table::Open),
            Part::Plot(plot) => plot.html(Table::Closed),
        })
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}</title><style>\n{}</style></head><body>\n{body}</body></html>\n",
        escape(&first::title(book)),
        include_str!("style.css"),
    )
}

pub fn plots(parts: &[Part]) -> impl Iterator<Item = &Plot> {
    parts.iter().filter_map(|part| match part {
        Part::Html(_) => None,
        Part::Front(plot) | Part::Plot(plot) => Some(plot),
    })
}
