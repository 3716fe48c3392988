//! The report of a run, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::exceptions::FileSystem;
use crate::outcome::Failure;

/// A whole run.
#[derive(Debug)]
pub struct Report {
    pub directory: PathBuf,
    pub file_system: FileSystem,
    pub tried: Vec<CheckReport>,
    pub took: Duration,
}

/// One check of a run.
#[derive(Debug)]
pub struct CheckReport {
    pub name: String,
    pub promise: String,
    pub verdict: Verdict,
    pub took: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Failed(Failure),
    Skipped {
        reason: String,
    },
    /// Failed, as this file system is known to.
    Excepted {
        reason: String,
        failure: Failure,
    },
    /// Passed although an exception says it fails: the exception can go.
    PassedUnexpectedly {
        reason: String,
    },
}

impl Verdict {
    fn word(&self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Failed(_) => "failed",
            Verdict::Skipped { .. } => "skipped",
            Verdict::Excepted { .. } => "excepted",
            Verdict::PassedUnexpectedly { .. } => "passed-unexpectedly",
        }
    }
}

impl Report {
    /// Nothing failed that was not known to fail.
    pub fn is_clean(&self) -> bool {
        self.count("failed") == 0
    }

    pub fn failures(&self) -> impl Iterator<Item = &CheckReport> {
        self.tried
            .iter()
            .filter(|tried| matches!(tried.verdict, Verdict::Failed(_)))
    }

    /// The checks that were not tried, with their reasons.
    pub fn skips(&self) -> impl Iterator<Item = (&CheckReport, &str)> {
        self.tried.iter().filter_map(|tried| match &tried.verdict {
            Verdict::Skipped { reason } => Some((tried, reason.as_str())),
            _ => None,
        })
    }

    fn count(&self, word: &str) -> usize {
        self.tried
            .iter()
            .filter(|tried| tried.verdict.word() == word)
            .count()
    }

    /// Everything, one object a check.
    pub fn to_json(&self) -> serde_json::Value {
        let tried: Vec<_> = self.tried.iter().map(check_to_json).collect();
        serde_json::json!({
            "directory": self.directory.to_string_lossy(),
            "file_system": self.file_system.name(),
            "seconds": self.took.as_secs_f64(),
            "passed": self.count("passed") + self.count("passed-unexpectedly"),
            "failed": self.count("failed"),
            "skipped": self.count("skipped"),
            "excepted": self.count("excepted"),
            "checks": tried,
        })
    }
}

fn check_to_json(tried: &CheckReport) -> serde_json::Value {
    let mut object = serde_json::json!({
        "name": tried.name,
        "promise": tried.promise,
        "verdict": tried.verdict.word(),
        "seconds": tried.took.as_secs_f64(),
    });
    match &tried.verdict {
        Verdict::Passed => {}
        Verdict::Failed(failure) => object["failure"] = serde_json::json!(failure),
        Verdict::Skipped { reason } | Verdict::PassedUnexpectedly { reason } => {
            object["reason"] = reason.as_str().into()
        }
        Verdict::Excepted { reason, failure } => {
            object["failure"] = serde_json::json!(failure);
            object["reason"] = reason.as_str().into();
        }
    }
    object
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups: BTreeMap<&str, Vec<&CheckReport>> = BTreeMap::new();
        for tried in &self.tried {
            let group = tried
                .name
                .split_once('/')
                .map_or(tried.name.as_str(), |(group, _)| group);
            groups.entry(group).or_default().push(tried);
        }
        for (group, tried) in &groups {
            write_group(f, group, tried)?;
        }
        if groups.is_empty() {
            writeln!(f, "no check has such a name")?;
        }
        writeln!(
            f,
            "\n{} on {}: {} in {:.1} s",
            self.directory.display(),
            self.file_system.name(),
            tally(self.tried.iter()),
            self.took.as_secs_f64()
        )
    }
}

/// A line of counts, then what a person has to look at.
fn write_group(f: &mut fmt::Formatter<'_>, group: &str, tried: &[&CheckReport]) -> fmt::Result {
    let took: Duration = tried.iter().map(|tried| tried.took).sum();
    writeln!(
        f,
        "{group:<16} {}, {:.2} s",
        tally(tried.iter().copied()),
        took.as_secs_f64()
    )?;
    for tried in tried {
        let name = tried
            .name
            .split_once('/')
            .map_or(tried.name.as_str(), |(_, name)| name);
        match &tried.verdict {
            Verdict::Passed => {}
            Verdict::Failed(failure) => {
                writeln!(f, "  FAILED {name}")?;
                writeln!(f, "         {}", tried.promise)?;
                write_failure(f, failure)?;
            }
            Verdict::Excepted { reason, failure } => {
                writeln!(f, "  known  {name}")?;
                writeln!(f, "         because {reason}")?;
                write_failure(f, failure)?;
            }
            Verdict::Skipped { .. } => {}
            Verdict::PassedUnexpectedly { reason } => {
                writeln!(f, "  note   {name} passes, its exception can go: {reason}")?;
            }
        }
    }
    write_skips(f, tried)
}

/// Skips by reason: one missing feature often skips many checks.
fn write_skips(f: &mut fmt::Formatter<'_>, tried: &[&CheckReport]) -> fmt::Result {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for tried in tried {
        if let Verdict::Skipped { reason } = &tried.verdict {
            let name = tried
                .name
                .split_once('/')
                .map_or(tried.name.as_str(), |(_, name)| name);
            reasons.entry(reason).or_default().push(name);
        }
    }
    for (reason, names) in reasons {
        match names.as_slice() {
            [name] => writeln!(f, "  skip   {name}: {reason}")?,
            [first, .., last] => {
                writeln!(
                    f,
                    "  skip   {} checks, {first} … {last}: {reason}",
                    names.len()
                )?;
            }
            [] => {}
        }
    }
    Ok(())
}

fn write_failure(f: &mut fmt::Formatter<'_>, failure: &Failure) -> fmt::Result {
    writeln!(f, "         expected  {}", failure.expected)?;
    writeln!(f, "         found     {}", failure.found)?;
    writeln!(f, "         at        {}", failure.at)
}

/// "12 passed, 1 FAILED, 2 skipped": what is not there is not said.
fn tally<'a>(tried: impl Iterator<Item = &'a CheckReport>) -> String {
    let mut counts = BTreeMap::new();
    for one in tried {
        *counts.entry(one.verdict.word()).or_insert(0usize) += 1;
    }
    let passed =
        counts.get("passed").unwrap_or(&0) + counts.get("passed-unexpectedly").unwrap_or(&0);
    let mut text = format!("{passed} passed");
    for (word, shown) in [
        ("failed", "FAILED"),
        ("excepted", "known to fail"),
        ("skipped", "skipped"),
    ] {
        if let Some(count) = counts.get(word) {
            text += &format!(", {count} {shown}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let failure = Failure {
            expected: "ENOTEMPTY".into(),
            found: "success".into(),
            at: "checks/rename.rs:7".into(),
        };
        let tried = |name: &str, verdict| CheckReport {
            name: name.into(),
            promise: "A directory with names in it is not replaced.".into(),
            verdict,
            took: Duration::from_millis(10),
        };
        Report {
            directory: "/mnt".into(),
            file_system: FileSystem::Tmpfs,
            tried: vec![
                tried("rename/onto-itself", Verdict::Passed),
                tried("rename/onto-non-empty", Verdict::Failed(failure)),
                tried(
                    "acl/mask",
                    Verdict::Skipped {
                        reason: "no ACLs".into(),
                    },
                ),
            ],
            took: Duration::from_millis(30),
        }
    }

    #[test]
    fn a_report_reads_by_group_with_expected_and_found() {
        let expected = "\
acl              0 passed, 1 skipped, 0.01 s
  skip   mask: no ACLs
rename           1 passed, 1 FAILED, 0.02 s
  FAILED onto-non-empty
         A directory with names in it is not replaced.
         expected  ENOTEMPTY
         found     success
         at        checks/rename.rs:7

/mnt on tmpfs: 1 passed, 1 FAILED, 1 skipped in 0.0 s
";
        assert_eq!(report().to_string(), expected);
    }

    #[test]
    fn json_carries_the_failure_and_the_counts() {
        let json = report().to_json();
        assert_eq!(json["failed"], 1);
        assert_eq!(json["checks"][1]["failure"]["expected"], "ENOTEMPTY");
        assert!(!report().is_clean());
    }
}
