//! The destination of a report: standard output or a dated file, and JSON beside it.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use gupfs_kit::date;
use serde::Serialize;

use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::figure::{Figure, HasFigures};

/// A report as JSON has it.
#[derive(Serialize)]
struct JsonReport<'a, T> {
    program: &'static str,
    version: &'static str,
    figures: Vec<Figure>,
    #[serde(flatten)]
    report: &'a T,
}

/// Where the flags of a program send its report.
pub struct Destination<'a> {
    /// The report's text goes to `BASE_YYYYMMDD_HHMMSS`, else to standard output.
    pub base: Option<&'a Path>,
    /// The report as JSON, besides.
    pub json: Option<&'a Path>,
}

impl Destination<'_> {
    /// Writes a whole report. Nothing is written before a run has ended well.
    ///
    /// # Errors
    ///
    /// A file or standard output cannot be written.
    pub fn write<T: HasFigures + fmt::Display>(&self, report: &T) -> SuiteResult<()> {
        if let Some(path) = self.json {
            write_json(report, path)?;
        }
        let text = report.to_string();
        match self.base {
            Some(base) => {
                let path = dated(base);
                std::fs::write(&path, text).doing("write", &path)?;
                eprintln!("report: {}", path.display());
                Ok(())
            }
            None => {
                let mut out = std::io::stdout().lock();
                out.write_all(text.as_bytes())
                    .and_then(|()| out.flush())
                    .doing("write", Path::new("standard output"))
            }
        }
    }
}

fn write_json<T: HasFigures>(report: &T, path: &Path) -> SuiteResult<()> {
    let whole = JsonReport {
        program: T::PROGRAM,
        version: env!("CARGO_PKG_VERSION"),
        figures: report.figures(),
        report,
    };
    let mut bytes = serde_json::to_vec_pretty(&whole)
        .map_err(|error| SuiteError::failed(format!("the report as JSON: {error}")))?;
    bytes.push(b'\n');
    std::fs::write(path, bytes).doing("write", path)
}

/// `BASE_YYYYMMDD_HHMMSS`.
fn dated(base: &Path) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push("_");
    name.push(date::stamp());
    PathBuf::from(name)
}
