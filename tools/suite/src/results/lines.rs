//! A result file: one JSON object a line, written as runs end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::figure::Figure;
use crate::plan::{Plan, SweepValues};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Line {
    /// The lines below were measured by this plan on this machine.
    Plan(Box<Header>),
    Run(FinishedRun),
    Failed(Failed),
    Ceiling(Ceiling),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Header {
    pub date: String,
    /// Of the suite.
    pub version: String,
    pub machine: Machine,
    /// By target.
    pub places: BTreeMap<String, TargetMount>,
    pub plan: Plan,
}

/// Where the programs ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub host: String,
    pub kernel: String,
    pub processor: String,
    pub cpus: usize,
    pub memory_mb: u64,
}

/// The mount that a target's directory is in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetMount {
    pub file_system: String,
    pub source: String,
    /// The first line that the target's `version` command printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A run that ended well.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FinishedRun {
    pub workload: String,
    pub target: String,
    pub setting: SweepValues,
    /// From 1.
    pub repetition: u32,
    pub program: String,
    pub program_version: String,
    pub command: Vec<String>,
    pub date: String,
    pub seconds: f64,
    pub cache: Cache,
    pub touched_mb: u64,
    pub figures: Vec<Figure>,
}

/// The kernel's caches before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    Dropped,
    /// As the plan wants it.
    Kept,
    /// The plan wants them dropped, and that needs root.
    Undropped,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failed {
    pub workload: String,
    pub target: String,
    pub setting: SweepValues,
    pub repetition: u32,
    pub command: Vec<String>,
    pub date: String,
    pub why: String,
}

/// The rate of a layer below the file system, in MB/s.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ceiling {
    pub target: String,
    pub layer: Layer,
    pub way: Direction,
    pub rate: f64,
    pub date: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    Disk,
    Network,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Write,
    Read,
}

impl Line {
    pub fn show(&self) -> String {
        let text = serde_json::to_string(self).expect("our lines have no keys that are not text");
        text + "\n"
    }
}

/// The content of a result file, in order.
#[derive(Clone, Debug, Default)]
pub struct Results {
    pub headers: Vec<Header>,
    pub runs: Vec<FinishedRun>,
    /// Without those that were run again later and ended well.
    pub failed: Vec<Failed>,
    pub ceilings: Vec<Ceiling>,
    /// How many bytes of the file are whole lines; behind them lies what an interrupted write left.
    pub whole: u64,
}

/// Writes whole lines to a result file, and sees to it that they are on the disk.
///
/// # Errors
///
/// The lines cannot be written or synced.
pub fn write(file: &mut File, path: &Path, lines: &str) -> SuiteResult<()> {
    file.write_all(lines.as_bytes())
        .and_then(|()| file.sync_data())
        .doing("write to", path)
}

impl Results {
    /// # Errors
    ///
    /// The file cannot be read, or a whole line of it is no result.
    pub fn read(path: &Path) -> SuiteResult<Results> {
        let text = std::fs::read_to_string(path).doing("read the results in", path)?;
        Results::parse(&text).map_err(|error| error.at(path.display()))
    }

    /// The file that they were read from, to be written behind them. What an interrupted write left of a line is cut off: it
    /// would swallow the next one.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or cut.
    pub fn go_on(&self, path: &Path) -> SuiteResult<File> {
        let file = File::options().append(true).open(path);
        let file = file.doing("write to", path)?;
        file.set_len(self.whole).doing("write to", path)?;
        Ok(file)
    }

    fn parse(text: &str) -> SuiteResult<Results> {
        let mut results = Results::default();
        for (index, line) in text.split_inclusive('\n').enumerate() {
            if !line.ends_with('\n') {
                break;
            }
            let parsed = serde_json::from_str(line).map_err(|error| {
                SuiteError::usage(format!(
                    "line {} is not a result: {error}; give a file that `bench run` wrote",
                    index + 1
                ))
            })?;
            results.add(parsed);
            results.whole += line.len() as u64;
        }
        Ok(results)
    }

    pub fn add(&mut self, line: Line) {
        match line {
            Line::Plan(header) => self.headers.push(*header),
            Line::Run(run) => {
                self.failed.retain(|failed| {
                    (&failed.workload, &failed.target, &failed.setting)
                        != (&run.workload, &run.target, &run.setting)
                });
                self.runs.push(run);
            }
            Line::Failed(failed) => {
                let same = |other: &Failed| {
                    (&failed.workload, &failed.target, &failed.setting)
                        == (&other.workload, &other.target, &other.setting)
                };
                self.failed.retain(|other| !same(other));
                self.failed.push(failed);
            }
            Line::Ceiling(ceiling) => self.ceilings.push(ceiling),
        }
    }

    /// Those of several files, one after another.
    pub fn join(all: impl IntoIterator<Item = Results>) -> Results {
        let mut joined = Results::default();
        for results in all {
            joined.headers.extend(results.headers);
            joined.runs.extend(results.runs);
            joined.failed.extend(results.failed);
            joined.ceilings.extend(results.ceilings);
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_short_is_not_read_and_a_wrong_one_is_named() {
        let line =
            r#"{"kind":"ceiling","target":"a","layer":"disk","way":"read","rate":100.0,"date":""}"#;
        let cut = Results::parse(&format!("{line}\n{}", &line[..30])).unwrap();
        assert_eq!((cut.ceilings.len(), cut.whole), (1, line.len() as u64 + 1));
        let wrong = Results::parse(&format!("{line}\nwhat\n")).unwrap_err();
        assert!(wrong.to_string().starts_with("line 2 is not a result"));
        assert_eq!(wrong.exit_code(), 2);
    }

    #[test]
    fn a_file_goes_on_behind_its_last_whole_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results");
        let line =
            r#"{"kind":"ceiling","target":"a","layer":"disk","way":"read","rate":1.0,"date":""}"#;
        std::fs::write(&path, format!("{line}\n{}", &line[..30])).unwrap();
        let mut file = Results::read(&path).unwrap().go_on(&path).unwrap();
        write(&mut file, &path, &format!("{line}\n")).unwrap();
        let now = std::fs::read_to_string(&path).unwrap();
        assert_eq!(now, format!("{line}\n{line}\n"));
    }
}
