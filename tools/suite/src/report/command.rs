//! The command `bench report`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::data::ReportData;
use super::{files, page};
use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::results::Results;

/// Write a page that shows results: verdict, charts, tables, published figures beside them
#[derive(Args, Clone, Debug)]
pub struct ReportCommand {
    /// Result files that `run` and `baseline` wrote; targets of the same name are the same
    #[arg(value_name = "RESULTS", required = true)]
    results: Vec<PathBuf>,
    /// The page [default: the first result file's name with .html]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Also write each picture as SVG and PNG into this directory
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// The target that stands for the hardware: others are shown as shares of it, whatever `baseline` measured
    #[arg(long, value_name = "TARGET")]
    ceiling: Option<String>,
}

impl ReportCommand {
    /// The exit code.
    pub fn run(&self) -> SuiteResult<u8> {
        let read: SuiteResult<Vec<Results>> = self.results.iter().map(|path| read(path)).collect();
        let data = ReportData::new(Results::join(read?), self.ceiling.clone())?;
        let out = match &self.out {
            Some(out) => out.clone(),
            None => self.results[0].with_extension("html"),
        };
        if self.results.contains(&out) {
            return Err(SuiteError::usage(format!(
                "{} is a result file: give another --out",
                out.display()
            )));
        }
        let parts = page::parts(&data);
        std::fs::write(&out, page::html(&data, &parts)).doing("write the page", &out)?;
        println!("{}", out.display());
        if let Some(dir) = &self.plots {
            let written = files::write(dir, page::plots(&parts))?;
            match written.png {
                Some(_) => println!("{} pictures in {}", written.plots, dir.display()),
                None => println!(
                    "{} pictures in {}, as SVG alone: PNG needs a font, and there is none here (Debian: fonts-dejavu-core)",
                    written.plots,
                    dir.display()
                ),
            }
        }
        Ok(0)
    }
}

/// A file that is no result file is a usage error.
fn read(path: &Path) -> SuiteResult<Results> {
    Results::read(path).map_err(|error| SuiteError::usage(error.to_string()))
}
