//! A finding as a page of its own, drawn as a timeline: a row a worker, a bar an operation.

use std::fmt::Write;

use gupfs_kit::html::escape;

use super::{FindingKind, ReportedFinding, Run};

const ROW: usize = 64;
const LEFT: f64 = 90.0;
const WIDTH: f64 = 1000.0;

pub fn page(run: &Run) -> String {
    let mut body = String::new();
    for found in &run.found {
        let title = match found.what {
            FindingKind::Disagreement => "Disagreement about",
            FindingKind::Hang => "Hang:",
        };
        let _ = writeln!(body, "<h2>{title} {}</h2>", escape(&found.about));
        timeline(&mut body, run, found);
        let session = run.session(found).join("\n");
        let _ = writeln!(body, "<pre>{}</pre>", escape(&session));
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>gupfs verify</title><style>\n\
         body {{ font: 14px sans-serif; margin: 2em; max-width: 1150px }} pre {{ overflow-x: auto }}\n\
         svg text {{ font: 11px sans-serif }} .bar {{ fill: #9ab }} .fails {{ fill: #d66 }} .writes {{ fill: #7b9 }}\n\
         </style></head><body><h1>gupfs verify</h1>\n<pre>{}</pre>\n{body}</body></html>\n",
        escape(&run.summary())
    )
}

impl Run {
    /// The text report without its findings.
    fn summary(&self) -> String {
        let bare = Run {
            found: Vec::new(),
            saved: Vec::new(),
            cut_short: None,
            ..self.clone()
        };
        let text = bare.to_string();
        // The verdict is that of a run without findings.
        text.rsplit_once("\n\n")
            .map_or(text.clone(), |(figures, _)| figures.into())
    }
}

fn timeline(out: &mut String, run: &Run, found: &ReportedFinding) {
    let mut workers: Vec<u16> = found.records.iter().map(|record| record.worker).collect();
    workers.sort_unstable();
    workers.dedup();
    // Moments in order, each as far from the next as is readable: real distances differ by factors of thousands.
    let mut moments: Vec<u64> = found
        .records
        .iter()
        .flat_map(|record| [Some(record.start), record.end])
        .flatten()
        .collect();
    moments.sort_unstable();
    moments.dedup();
    let step = WIDTH / moments.len().max(2) as f64;
    let x = |moment: u64| LEFT + moments.partition_point(|other| *other < moment) as f64 * step;
    let height = workers.len() * ROW + 30;
    let _ = writeln!(
        out,
        "<svg viewBox=\"0 0 {} {height}\" width=\"100%\">",
        LEFT + WIDTH + 60.0
    );
    for (row, worker) in workers.iter().enumerate() {
        let y = row * ROW + 20;
        let _ = writeln!(
            out,
            "<text x=\"0\" y=\"{}\">{}.w{worker}</text><line x1=\"{LEFT}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" stroke=\"#ddd\"/>",
            y + 26,
            run.mount_name(*worker),
            LEFT + WIDTH,
            y + 22,
            y + 22
        );
        let of = found.records.iter().enumerate();
        for (at, (index, record)) in of
            .filter(|(_, record)| record.worker == *worker)
            .enumerate()
        {
            let from = x(record.start);
            let to = record.end.map_or(LEFT + WIDTH, x);
            let class = match (index == found.fails, record.call.only_looks()) {
                (true, _) => "bar fails",
                (_, true) => "bar",
                _ => "bar writes",
            };
            let what = format!("{} → {}", record.asked(), record.answered());
            let label = y + [8, 44][at % 2];
            let _ = writeln!(
                out,
                "<g><title>{0}</title><rect class=\"{class}\" x=\"{from:.1}\" y=\"{1}\" width=\"{2:.1}\" height=\"16\" rx=\"3\"/>\
                 <text x=\"{from:.1}\" y=\"{label}\">{3}</text></g>",
                escape(&what),
                y + 14,
                (to - from).max(4.0),
                escape(&shorten(&what)),
            );
        }
    }
    let _ = writeln!(out, "</svg>");
}

fn shorten(text: &str) -> String {
    const MAX: usize = 60;
    match text.chars().count() > MAX {
        true => text.chars().take(MAX - 1).chain(['…']).collect(),
        false => text.into(),
    }
}
