//! `bench report`: what it takes.

use std::path::PathBuf;

use clap::Args;

use super::book::Book;
use super::page;
use crate::results::Results;
use crate::trouble::{Doing, Outcome, Trouble};

/// Write a page that shows results: verdict, charts, tables, published figures beside them
#[derive(Args, Clone, Debug)]
pub struct Make {
    /// Result files that `run` wrote; targets of the same name are the same
    #[arg(value_name = "RESULTS", required = true)]
    results: Vec<PathBuf>,
    /// The page [default: the first result file's name with .html]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The target that shows what the hardware can do: others are shown as shares of it
    #[arg(long, value_name = "TARGET")]
    ceiling: Option<String>,
}

impl Make {
    /// The exit code.
    pub fn run(&self) -> Outcome<u8> {
        let read: Outcome<Vec<Results>> = self
            .results
            .iter()
            .map(|path| Results::read(path))
            .collect();
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
        std::fs::write(&out, page::page(&book)).doing("write", &out)?;
        println!("{}", out.display());
        Ok(0)
    }
}
