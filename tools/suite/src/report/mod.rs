//! # report: a page that shows the results of runs
//!
//! Owns   one self-contained HTML page: a verdict, charts as inline SVG with their tables, published figures beside ours; the
//!        same charts as files.
//! Never  needs a script or another file; shows a part as the whole; calls noise a difference.
//! Enter  at [`ReportCommand`] for the command, `page` for the page.

mod ceiling;
mod charts;
mod command;
mod cost;
mod data;
mod fairness;
mod files;
mod front;
mod html;
mod overview;
mod page;
mod panel;
mod plot;
mod section;
mod verdict;
mod workload;

pub use command::ReportCommand;
