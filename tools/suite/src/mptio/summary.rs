//! `mptsum`: reports of mptio in one line for each test.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use serde::Serialize;

use crate::error::{ErrorContext, SuiteError, SuiteResult};

/// Summarise reports of mptio: one line for each configuration and test
///
/// Reports of the same configuration are put together: the median of their rates, the smallest and the largest.
#[derive(Parser)]
#[command(name = "mptsum", version)]
pub struct Mptsum {
    /// Reports that mptio printed, or wrote with -N
    #[arg(required = true, value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The configuration of a run, as the report says it; ordered as numbers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Configuration {
    processes: u64,
    threads: u64,
    size: Hundredths,
    record: Hundredths,
}

/// A number with two digits behind the point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Hundredths(u64);

/// One line of a report.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    test: String,
    rate: f64,
    elapsed_rate: f64,
    variation: f64,
}

#[derive(Debug, PartialEq, Serialize)]
struct Row {
    processes: u64,
    threads_per_process: u64,
    size_mb: f64,
    record_kb: f64,
    test: String,
    runs: usize,
    rate: f64,
    least: f64,
    most: f64,
    elapsed_rate: f64,
    variation_percent: f64,
}

impl Mptsum {
    pub fn main() -> ExitCode {
        match Mptsum::parse().run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("mptsum: {error}");
                ExitCode::from(error.exit_code())
            }
        }
    }

    fn run(self) -> SuiteResult<()> {
        let mut all = Vec::new();
        for path in &self.reports {
            let text = std::fs::read_to_string(path).doing("read", path)?;
            all.extend(read(&text, path)?);
        }
        let rows = summarise(all);
        if self.json {
            let json = serde_json::to_string_pretty(&rows);
            println!(
                "{}",
                json.map_err(|error| SuiteError::failed(error.to_string()))?
            );
        } else {
            print!("{}", Table(&rows));
        }
        Ok(())
    }
}

impl Hundredths {
    fn parse(text: &str) -> Option<Hundredths> {
        let value: f64 = text.parse().ok()?;
        (0.0..1e15)
            .contains(&value)
            .then(|| Hundredths((value * 100.0).round() as u64))
    }

    fn value(self) -> f64 {
        self.0 as f64 / 100.0
    }
}

/// The tests of a file, in which several reports may stand one below the other.
fn read(text: &str, path: &Path) -> SuiteResult<Vec<(Configuration, Line)>> {
    let bad = |what: &str| {
        SuiteError::failed(format!("{} is no report of mptio: {what}", path.display()))
    };
    let mut lines = text.lines();
    let mut configuration = None;
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with("Size (MB)") {
            let values = lines.nth(1).and_then(read_configuration);
            configuration = Some(values.ok_or_else(|| bad("no figures below 'Size (MB)'"))?);
        } else if line.starts_with("Test Name") {
            let known = configuration
                .clone()
                .ok_or_else(|| bad("'Test Name' before 'Size (MB)'"))?;
            lines.next();
            for line in lines.by_ref().take_while(|line| !line.trim().is_empty()) {
                let line = read_line(line).ok_or_else(|| bad(&format!("'{line}' is no test")))?;
                found.push((known.clone(), line));
            }
        }
    }
    if found.is_empty() {
        return Err(bad("there is no 'Test Name' in it"));
    }
    Ok(found)
}

fn read_configuration(line: &str) -> Option<Configuration> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [size, record, processes, threads, ..] = words[..] else {
        return None;
    };
    Some(Configuration {
        processes: processes.parse().ok()?,
        threads: threads.parse().ok()?,
        size: Hundredths::parse(size)?,
        record: Hundredths::parse(record)?,
    })
}

fn read_line(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [test, _, _, rate, elapsed_rate, _, variation] = words[..] else {
        return None;
    };
    Some(Line {
        test: test.into(),
        rate: rate.parse().ok()?,
        elapsed_rate: elapsed_rate.parse().ok()?,
        variation: variation.parse().ok()?,
    })
}

fn summarise(all: Vec<(Configuration, Line)>) -> Vec<Row> {
    let mut order = Vec::new();
    let mut groups: BTreeMap<(Configuration, usize), Vec<Line>> = BTreeMap::new();
    for (configuration, line) in all {
        let known = order.iter().position(|test| *test == line.test);
        let place = known.unwrap_or_else(|| {
            order.push(line.test.clone());
            order.len() - 1
        });
        groups.entry((configuration, place)).or_default().push(line);
    }
    groups
        .into_iter()
        .map(|((configuration, place), lines)| row(configuration, &order[place], &lines))
        .collect()
}

fn row(configuration: Configuration, test: &str, lines: &[Line]) -> Row {
    let sorted = |of: fn(&Line) -> f64| {
        let mut values: Vec<f64> = lines.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let rates = sorted(|line| line.rate);
    Row {
        processes: configuration.processes,
        threads_per_process: configuration.threads,
        size_mb: configuration.size.value(),
        record_kb: configuration.record.value(),
        test: test.into(),
        runs: lines.len(),
        rate: median(&rates),
        least: rates[0],
        most: rates[rates.len() - 1],
        elapsed_rate: median(&sorted(|line| line.elapsed_rate)),
        variation_percent: median(&sorted(|line| line.variation)),
    }
}

fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[half],
        _ => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

struct Table<'a>(&'a [Row]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(
            f,
            "np   thr  Size (MB) Recsz (KB) Test       runs Rate MB/s     least      most    E-Rate  %DtVar"
        )?;
        for row in self.0 {
            writeln!(
                f,
                "{:<4} {:>3} {:>10} {:>10} {:<10} {:>4} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>7.2}",
                row.processes,
                row.threads_per_process,
                row.size_mb,
                row.record_kb,
                row.test,
                row.runs,
                row.rate,
                row.least,
                row.most,
                row.elapsed_rate,
                row.variation_percent
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn report(rate: f64) -> String {
        format!(
            "Size (MB) Recsz (KB) Num_proc Thrd/proc Tot_thrd Rec/proc Rec/th\n\
             --------- ---------- -------- --------- -------- -------- ------\n\
             200 256 3 4 12 800 200\n\
             \n\
             Test Name Recsz Tot_thrd Rate MB/s E-Rate E-Time %DtVar\n\
             ---------- ----- -------- ----------- -------- -------- --------\n\
             Seq_Write 256 12 {rate} {rate} 65.44 1.09\n\
             Seq_Read 256 12 88.43 88.43 6.79 9.44\n\
             \n\
             NODE DETAILS\n"
        )
    }

    #[test]
    fn reports_of_one_configuration_become_one_line_a_test() {
        let text = [9.17, 9.0, 9.5].map(report).concat();
        let rows = summarise(read(&text, Path::new("report")).unwrap());
        expect![[r#"
            np   thr  Size (MB) Recsz (KB) Test       runs Rate MB/s     least      most    E-Rate  %DtVar
            3      4        200        256 Seq_Write     3      9.17      9.00      9.50      9.17    1.09
            3      4        200        256 Seq_Read      3     88.43     88.43     88.43     88.43    9.44
        "#]].assert_eq(&Table(&rows).to_string());
    }

    #[test]
    fn what_is_no_report_is_refused() {
        let cut = report(1.0).replace("1.09\n", "\n");
        for text in ["", "hello", "Test Name\n", &cut] {
            assert!(read(text, Path::new("report")).is_err(), "{text}");
        }
    }
}
