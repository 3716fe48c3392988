//! Figures: rates and times in one form for all programs, so that a comparison of runs need not know the programs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One rate or time of a run, as its JSON report has it under `figures`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Of the test, such as `Seq_Write`; unique in a report, with `at`.
    pub name: String,
    /// Values of what the program itself varies in a run, such as `record` `64K`: as if a plan had swept it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, String>,
    /// `MB/s` (1024² bytes), `op/s`, `s`, `%`.
    pub unit: String,
    pub better: Better,
    pub value: f64,
    /// The same of each process by rank, where it has one: how fair was it?
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    More,
    Less,
}

impl Better {
    pub fn words(self) -> &'static str {
        match self {
            Better::More => "more is better",
            Better::Less => "less is better",
        }
    }
}

/// A report that has figures.
pub trait HasFigures: Serialize {
    /// The program's name, as one types it.
    const PROGRAM: &'static str;

    fn figures(&self) -> Vec<Figure>;
}

impl Figure {
    /// A rate, and that of each process.
    pub fn rate(name: &str, unit: &str, value: f64, each: impl IntoIterator<Item = f64>) -> Figure {
        Figure {
            name: name.into(),
            at: BTreeMap::new(),
            unit: unit.into(),
            better: Better::More,
            value,
            each: each.into_iter().collect(),
        }
    }

    /// The same, at a value of what the program varies.
    pub fn at(mut self, variable: &str, value: impl ToString) -> Figure {
        self.at.insert(variable.into(), value.to_string());
        self
    }
}
