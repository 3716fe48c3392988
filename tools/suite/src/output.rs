//! Where a report goes: standard output or a dated file, and JSON beside it.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::date;
use crate::figure::{Figure, Measured};
use crate::trouble::{Doing, Outcome, Trouble};

/// A report as JSON has it.
#[derive(Serialize)]
struct Whole<'a, T> {
    program: &'static str,
    version: &'static str,
    figures: Vec<Figure>,
    #[serde(flatten)]
    report: &'a T,
}

/// Writes a whole report. Nothing is written before a run has ended well.
pub fn write<T: Measured>(
    text: &str,
    report: &T,
    base: Option<&Path>,
    json: Option<&Path>,
) -> Outcome<()> {
    if let Some(path) = json {
        let whole = Whole {
            program: T::PROGRAM,
            version: env!("CARGO_PKG_VERSION"),
            figures: report.figures(),
            report,
        };
        let mut bytes = serde_json::to_vec_pretty(&whole)
            .map_err(|error| Trouble::met(format!("the report as JSON: {error}")))?;
        bytes.push(b'\n');
        std::fs::write(path, bytes).doing("write", path)?;
    }
    match base {
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

/// `BASE_YYYYMMDD_HHMMSS`.
fn dated(base: &Path) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push("_");
    name.push(date::stamp());
    PathBuf::from(name)
}
