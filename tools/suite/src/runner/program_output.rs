//! The output of a program: its report, and the text that it printed.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde::Deserialize;

use crate::figure::Figure;

/// How much of what a program said goes into a message.
const SAID_MAX: u64 = 2_000;

/// The part of a program's report that is read.
#[derive(Deserialize)]
pub struct Report {
    pub program: String,
    pub version: String,
    pub figures: Vec<Figure>,
}

/// Reads the report that a program wrote as JSON, or says why its run does not count.
pub fn read_report(path: &Path) -> Result<Report, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("it wrote no report (--json): {error}"))?;
    let report: Report = serde_json::from_str(&text)
        .map_err(|error| format!("its report has not what the suite's programs write: {error}"))?;
    match report
        .figures
        .iter()
        .find(|figure| !figure.value.is_finite())
    {
        Some(figure) => Err(format!("its figure {} is no number", figure.name)),
        None if report.figures.is_empty() => Err("its report has no figures".into()),
        None => Ok(report),
    }
}

/// The end of what a program printed.
pub fn last_words(said: &mut File) -> String {
    let length = said.metadata().map_or(0, |found| found.len());
    let text = read_from(said, length.saturating_sub(SAID_MAX));
    match text.trim() {
        "" => "it said nothing".into(),
        text => text.into(),
    }
}

/// The first line that a command printed.
pub fn first_line(said: &mut File) -> String {
    read_from(said, 0)
        .lines()
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn read_from(file: &mut File, offset: u64) -> String {
    let mut bytes = Vec::new();
    let read = file
        .seek(SeekFrom::Start(offset))
        .and_then(|_| file.take(SAID_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("(what it said cannot be read: {error})"),
    }
}
