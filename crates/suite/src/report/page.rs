//! The page as a whole.

use super::book::Book;
use super::html::escape;
use super::{ceiling, cost, fairness, first, workload};

pub fn page(book: &Book) -> String {
    let sections: String = book
        .workloads
        .iter()
        .map(|name| workload::section(book, name))
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}</title><style>\n{}</style></head><body>\n{}{}{sections}{}{}</body></html>\n",
        escape(&first::title(book)),
        include_str!("style.css"),
        first::first(book),
        ceiling::section(book),
        fairness::section(book),
        cost::section(book),
    )
}
