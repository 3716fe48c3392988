//! The page as a whole.

use gupfs_kit::html::escape;

use super::data::ReportData;
use super::plot::{PageItem, Plot, Table};
use super::{ceiling, cost, fairness, front, workload};

/// All parts in their order; sections open and close themselves.
pub fn parts(data: &ReportData) -> Vec<PageItem> {
    let mut parts = front::parts(data);
    parts.extend(ceiling::parts(data));
    for name in &data.workloads {
        parts.extend(workload::parts(data, name));
    }
    parts.extend(fairness::parts(data));
    parts.extend(cost::parts(data));
    parts
}

pub fn html(data: &ReportData, parts: &[PageItem]) -> String {
    let body: String = parts
        .iter()
        .map(|part| match part {
            PageItem::Html(html) => html.clone(),
            PageItem::Front(plot) => plot.html(Table::Open),
            PageItem::Plot(plot) => plot.html(Table::Closed),
        })
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}</title><style>\n{}</style></head><body>\n{body}</body></html>\n",
        escape(&front::title(data)),
        include_str!("style.css"),
    )
}

pub fn plots(parts: &[PageItem]) -> impl Iterator<Item = &Plot> {
    parts.iter().filter_map(|part| match part {
        PageItem::Html(_) => None,
        PageItem::Front(plot) | PageItem::Plot(plot) => Some(plot),
    })
}
