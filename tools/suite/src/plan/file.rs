//! The text of a plan, and its check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::arguments::{self, NAME_OF_DIR};
use super::value::{MachineNumbers, Value};
use crate::error::{SuiteError, SuiteResult};
use crate::published;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub name: String,
    #[serde(default)]
    pub about: String,
    /// Runs that count, of each workload in each setting on each target.
    #[serde(default = "five")]
    pub repeat: u32,
    /// Runs before them that do not count.
    #[serde(default = "one")]
    pub warm_up: u32,
    /// Whether the kernel forgets pages, names and inodes before each run.
    #[serde(default = "yes")]
    pub drop_caches: bool,
    /// So much memory is touched before each run: a size, or `memory/N`.
    #[serde(default = "nothing")]
    pub touch_memory: Value,
    /// Seconds without work before each run.
    #[serde(default)]
    pub pause: f64,
    /// Seconds after which a run is ended and has failed.
    #[serde(default = "hour")]
    pub timeout: u64,
    /// Of the targets' prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// Variables with one value each, which `--set` changes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Value>,
    #[serde(default, rename = "target")]
    pub targets: Vec<Target>,
    #[serde(default, rename = "workload")]
    pub workloads: Vec<PlannedWorkload>,
}

/// A directory to compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    pub name: String,
    pub dir: PathBuf,
    /// Shell commands, with the directory in `$DIR`: before all runs, after all runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teardown: Option<String>,
    /// A shell command whose first line is kept with the results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedWorkload {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    pub program: String,
    /// The same program's arguments for a run before, in the same directory, that is not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Args>,
    pub args: Args,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sweep: BTreeMap<String, Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// Published tables to lay over this workload's figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<String>,
}

/// One text, whose words are the arguments, or a list of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Args {
    Text(String),
    List(Vec<String>),
}

fn five() -> u32 {
    5
}
fn one() -> u32 {
    1
}
fn yes() -> bool {
    true
}
fn nothing() -> Value {
    Value::Number(0)
}
fn hour() -> u64 {
    3_600
}

impl Args {
    pub fn words(&self) -> Vec<&str> {
        match self {
            Args::Text(text) => text.split_whitespace().collect(),
            Args::List(list) => list.iter().map(String::as_str).collect(),
        }
    }
}

impl PlannedWorkload {
    fn names(&self) -> SuiteResult<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        let all = self.first.iter().chain([&self.args]);
        for word in all.flat_map(Args::words) {
            names.extend(arguments::names(word).map_err(|text| self.wrong(text))?);
        }
        Ok(names)
    }

    fn wrong(&self, text: impl std::fmt::Display) -> SuiteError {
        SuiteError::usage(format!("workload '{}': {text}", self.name))
    }
}

impl Plan {
    /// Reads a plan; `from` is named if it is none.
    ///
    /// # Errors
    ///
    /// The text is no TOML, or has a key that plans do not know.
    pub fn parse(text: &str, from: &Path) -> SuiteResult<Plan> {
        toml::from_str(text).map_err(|error| {
            SuiteError::usage(format!("{} is not a plan: {error}", from.display()))
        })
    }

    /// Puts numbers of this machine in place of `cpus` and `memory`.
    ///
    /// # Errors
    ///
    /// A value speaks of the machine in words that are not known.
    pub fn resolve(&mut self, numbers: &MachineNumbers) -> SuiteResult<()> {
        numbers.resolve(&mut self.touch_memory)?;
        for value in self.set.values_mut() {
            numbers.resolve(value)?;
        }
        for values in self.workloads.iter_mut().flat_map(|w| w.sweep.values_mut()) {
            for value in values.iter_mut() {
                numbers.resolve(value)?;
            }
            let mut seen = BTreeSet::new();
            values.retain(|value| seen.insert(value.to_string()));
        }
        Ok(())
    }

    /// Whether it can be run, as far as it says itself. To be called when all is in it.
    ///
    /// # Errors
    ///
    /// A target, workload or variable is missing, given twice or out of range: the message names it.
    pub fn check(&self) -> SuiteResult<()> {
        self.check_targets()?;
        if self.workloads.is_empty() {
            return wrong("no workload is left: give a [[workload]] (and look at --only)");
        }
        once("workload", self.workloads.iter().map(|w| &w.name))?;
        for workload in &self.workloads {
            self.check_variables(workload)?;
            published::find(&workload.published).map_err(|text| workload.wrong(text))?;
        }
        if self.repeat == 0 || self.workloads.iter().any(|w| w.repeat == Some(0)) {
            return wrong("repeat = 0 measures nothing: give 1 or more");
        }
        if !(0.0..=3_600.0).contains(&self.pause) {
            return wrong("pause is in seconds, 0 to 3600");
        }
        if self.timeout == 0 {
            return wrong("timeout = 0 ends every run: give seconds");
        }
        self.touch_memory.size().map(drop)
    }

    fn check_targets(&self) -> SuiteResult<()> {
        if self.targets.is_empty() {
            return wrong("the plan has no target: give --target NAME=DIR, or a [[target]]");
        }
        once("target", self.targets.iter().map(|target| &target.name))?;
        for target in &self.targets {
            if target
                .price
                .is_some_and(|price| !(price > 0.0 && price.is_finite()))
            {
                return wrong(format!("target '{}': a price is more than 0", target.name));
            }
            if target.setup.is_none() && !target.dir.is_dir() {
                return wrong(format!(
                    "target '{}': {} is not a directory; make or mount it, or give a `setup` command that does",
                    target.name,
                    target.dir.display()
                ));
            }
        }
        Ok(())
    }

    fn check_variables(&self, workload: &PlannedWorkload) -> SuiteResult<()> {
        let names = workload.names()?;
        let known = |name: &String| {
            name == NAME_OF_DIR || self.set.contains_key(name) || workload.sweep.contains_key(name)
        };
        if let Some(unknown) = names.iter().find(|name| !known(name)) {
            return Err(workload.wrong(format!(
                "{{{unknown}}} stands for nothing: put {unknown} into its `sweep` or into [set]"
            )));
        }
        for (name, values) in &workload.sweep {
            if name == NAME_OF_DIR {
                return Err(workload.wrong("{dir} is the target's directory: sweep another name"));
            }
            if !names.contains(name) {
                return Err(workload.wrong(format!(
                    "`sweep` has {name}, but no argument has {{{name}}}"
                )));
            }
            if values.is_empty() {
                return Err(workload.wrong(format!("`sweep` has no value for {name}")));
            }
        }
        Ok(())
    }
}

fn wrong<T>(text: impl Into<String>) -> SuiteResult<T> {
    Err(SuiteError::usage(text))
}

fn once<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> SuiteResult<()> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.trim().is_empty() {
            return wrong(format!("a {what} has no name"));
        }
        if !seen.insert(name) {
            return wrong(format!(
                "two have the name '{name}': each {what} needs its own"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "name = 'p'\n[[target]]\nname = 'a'\ndir = '/'\n\
                         [[workload]]\nname = 'w'\nprogram = 'mptio'\nargs = '-d {dir} --np {np}'\nsweep = { np = [1, 'cpus', 2] }\n";

    fn check(text: &str) -> SuiteResult<Plan> {
        let mut plan = Plan::parse(text, Path::new("x.toml"))?;
        plan.resolve(&MachineNumbers {
            cpus: 2,
            memory: 16 << 30,
        })?;
        plan.check()?;
        Ok(plan)
    }

    #[test]
    fn a_plan_is_read_and_numbers_of_the_machine_stand_once() {
        let plan = check(RIGHT).unwrap();
        let np: Vec<String> = plan.workloads[0].sweep["np"]
            .iter()
            .map(Value::to_string)
            .collect();
        assert_eq!(np, ["1", "2"]);
        assert_eq!((plan.repeat, plan.warm_up, plan.drop_caches), (5, 1, true));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let target = "[[target]]\nname = 'a'\ndir = '/'\n";
        for (from, to, says) in [
            ("name = 'p'", "name = 'p'\nrepeats = 3", "repeats"),
            ("program =", "programme =", "programme"),
            ("{np}", "{n}", "{n} stands for nothing"),
            ("{np}", "{np", "'{' without '}'"),
            ("--np {np}", "", "no argument has {np}"),
            ("'cpus'", "'cpu'", "'cpu'"),
            ("[1, 'cpus', 2]", "[]", "no value for np"),
            (
                "dir = '/'",
                "dir = '/no/such'",
                "/no/such is not a directory",
            ),
            ("dir = '/'", "dir = '/'\nprice = -1.0", "price"),
            ("name = 'p'", "name = 'p'\nrepeat = 0", "repeat"),
            ("name = 'p'", "name = 'p'\ntouch_memory = '64Q'", "64Q"),
            ("name = 'p'", "name = 'p'\npause = -1.0", "pause"),
            (target, "", "no target"),
            (target, &target.repeat(2), "two have the name 'a'"),
            ("args =", "published = ['999']\nargs =", "999"),
        ] {
            let text = RIGHT.replace(from, to);
            assert_ne!(text, RIGHT, "{from}");
            let refused = check(&text).expect_err(from);
            assert!(refused.to_string().contains(says), "{from}: {refused}");
            assert_eq!(refused.exit_code(), 2);
        }
    }
}
