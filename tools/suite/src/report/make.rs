//! `bench report`: what it takes.

use std::path::{Path, PathBuf};

use clap::Args;

use super::book::Book;
use super::{files, page};
use crate::results::Results;
use crate::trouble::{Doing, Outcome, Trouble};

/// Write a page that shows results: verdict, charts, tables, published figures beside them
#[derive(Args, Clone, Debug)]
pub struct Make {
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

impl Make {
    /// The exit code.
    pub fn run(&self) -> Outcome<u8> {
        let read: Outcome<Vec<Results>> = self.results.iter().map(|path| read(path)).collect();
        let book = Book::new(Results::join(read?), self.ceiling.clone())?;
        let out = match &self.out {
            Some(out) => out.clone(),
            None => self.results[0].with_extension("html"),
        };
        if self.results.contains(&out) {
            return Err(Trouble::asked(format!(
                "{} is a result file: give another --out",
                out.display()
            )));
        }
        let parts = page::parts(&book);
        std::fs::write(&out, page::html(&book, &parts)).doing("write the page", &out)?;
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

/// Who named a file that is none named it wrongly.
fn read(path: &Path) -> Outcome<Results> {
    Results::read(path).map_err(|trouble| Trouble::asked(trouble.to_string()))
}
