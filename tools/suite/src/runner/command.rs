//! The command `bench run`.

use std::path::{Path, PathBuf};

use clap::Args;
use gupfs_kit::date;

use super::program::{self, SelfCommand};
use super::result_file::ResultFile;
use super::{machine, session};
use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::plan::{Plan, Target, Value, shipped};
use crate::results::{Results, compare, series::Series};

/// Run a plan: workloads on directories side by side, in turns, with results a line a run
#[derive(Args, Clone, Debug)]
pub struct Run {
    /// A plan: a file, or the name of one that ships (`plans` lists them)
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// A directory to compare, besides those of the plan; may be given several times
    #[arg(long, value_name = "NAME=DIR", value_parser = parse_target)]
    target: Vec<Target>,
    /// What the target NAME costs, for cost per MB/s; may be given several times
    #[arg(long, value_name = "NAME=PRICE", value_parser = parse_price)]
    price: Vec<(String, f64)>,
    /// Another value of a variable of the plan's [set]; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    set: Vec<(String, String)>,
    /// Only workloads whose names contain this; may be given several times
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Runs that count, instead of what the plan says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    /// Where results go [default: PLAN_YYYYMMDD_HHMMSS.jsonl (UTC)]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Go on with --out: what ended well there is not run again
    #[arg(long, requires = "out")]
    resume: bool,
    /// Compare with the results in an older file
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
}

pub fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.into(), value.into()))
        }
        _ => Err("write NAME=VALUE".into()),
    }
}

fn parse_target(text: &str) -> Result<Target, String> {
    let (name, dir) = parse_pair(text).map_err(|_| "write NAME=DIR")?;
    Ok(Target {
        name,
        dir: dir.into(),
        setup: None,
        teardown: None,
        version: None,
        price: None,
    })
}

fn parse_price(text: &str) -> Result<(String, f64), String> {
    let (name, price) = parse_pair(text)?;
    let price = price.parse().map_err(|_| "write NAME=PRICE")?;
    Ok((name, price))
}

impl Run {
    /// The exit code.
    pub fn run(&self, self_command: &SelfCommand) -> SuiteResult<u8> {
        let plan = self.plan()?;
        let programs = plan.workloads.iter();
        let programs: SuiteResult<Vec<_>> = programs
            .map(|w| program::find(&w.program, self_command))
            .collect();
        let programs = programs?;
        let older = self.compare.as_deref().map(Results::read).transpose()?;
        let machine = machine::look();
        let out = match (&self.out, self.resume) {
            (Some(path), true) if path.exists() => ResultFile::resume(path, &plan, &machine)?,
            (Some(path), _) => ResultFile::create(path)?,
            (None, _) => ResultFile::create(&default_path(&plan.name))?,
        };
        let ended = session::run(&plan, &programs, machine, out)?;
        print(&ended, older.as_ref());
        Ok(match &ended.error {
            None => 0,
            Some(error) => {
                eprintln!("{error}");
                error.exit_code()
            }
        })
    }

    fn plan(&self) -> SuiteResult<Plan> {
        let mut plan = read(&self.plan)?;
        for target in &self.target {
            plan.targets.retain(|other| other.name != target.name);
            plan.targets.push(target.clone());
        }
        for (name, price) in &self.price {
            let target = plan.targets.iter_mut().find(|target| target.name == *name);
            let target = target.ok_or_else(|| {
                SuiteError::usage(format!("--price {name}: there is no target '{name}'"))
            })?;
            target.price = Some(*price);
        }
        for (name, value) in &self.set {
            let old = plan.set.get_mut(name).ok_or_else(|| {
                SuiteError::usage(format!("--set {name}: the plan's [set] has no '{name}'"))
            })?;
            *old = Value::Text(value.clone());
        }
        let wanted = |name: &str| self.only.iter().any(|text| name.contains(text));
        plan.workloads
            .retain(|workload| self.only.is_empty() || wanted(&workload.name));
        if let Some(repeat) = self.repeat {
            plan.repeat = repeat;
            plan.workloads
                .iter_mut()
                .for_each(|workload| workload.repeat = None);
        }
        // Setup and programs may run anywhere; the plan is read here.
        for target in &mut plan.targets {
            target.dir = std::path::absolute(&target.dir).doing("find", &target.dir)?;
        }
        plan.resolve(&machine::numbers())?;
        plan.check()?;
        Ok(plan)
    }
}

fn read(plan: &Path) -> SuiteResult<Plan> {
    if let Some(text) = plan.to_str().and_then(shipped::find) {
        return Plan::parse(text, plan);
    }
    let text = std::fs::read_to_string(plan).map_err(|error| {
        SuiteError::usage(format!(
            "cannot read the plan {}: {error}; plans that ship are {}",
            plan.display(),
            shipped::names().join(", ")
        ))
    })?;
    Plan::parse(&text, plan)
}

fn default_path(name: &str) -> PathBuf {
    let safe = |c: char| {
        if c.is_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(safe).collect();
    format!("{name}_{}.jsonl", date::stamp()).into()
}

fn print(ended: &session::SessionEnd, older: Option<&Results>) {
    let now = Series::all(&ended.results.runs);
    if !now.is_empty() {
        print!("{}", compare::targets(&now));
        println!("\n{}", compare::legend());
    }
    if let Some(older) = older {
        match compare::older(&now, &Series::all(&older.runs)) {
            Some(table) => print!("\n{}{table}", machines(&ended.results, older)),
            None => println!("\nThe older results have nothing in common with these."),
        }
    }
}

/// Says so if they are not of the same machine.
fn machines(now: &Results, older: &Results) -> &'static str {
    let machine = |results: &Results| results.headers.last().map(|header| header.machine.clone());
    match machine(now) == machine(older) {
        true => "",
        false => {
            "The older results are of another machine or kernel: the ratios say nothing about the targets alone.\n"
        }
    }
}
