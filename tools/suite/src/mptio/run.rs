//! A whole run in one process: threads for each test, in step with the other processes.

use std::fs::File;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::args::{Mptio, Overlap};
use super::content::Writer;
use super::device;
use super::regions::{Layout, Request};
use super::report::{Node, Report, TestResult};
use super::target::Target;
use super::tests::Test;
use super::thread::{Done, Work};
use super::verify::{Expected, History};
use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::latency::{PackedHistogram, merge};
use crate::output::Destination;
use crate::procs::Procs;
use crate::size::MB;
use crate::stop_flag::StopFlag;
use crate::threads::{self, StepDone};
use crate::workload::Workload;

struct Run<'a> {
    args: &'a Mptio,
    layout: Layout,
    target: Target,
    /// Makes this run's data differ from any other's.
    number: u64,
    random: u64,
    history: History,
}

/// The message of a process to process 0 about a test.
#[derive(Clone, Serialize, Deserialize)]
struct ProcessResult {
    node: Node,
    latencies: PackedHistogram,
}

impl Workload for Mptio {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.np
    }

    fn check(&self) -> SuiteResult<()> {
        self.check_flags()
    }

    fn destination(&self) -> Destination<'_> {
        Destination {
            base: self.name.as_deref(),
            json: self.json.as_deref(),
        }
    }

    fn run(&self, procs: &mut Procs) -> SuiteResult<Option<Report>> {
        run(self, procs).map(Some)
    }
}

fn run(args: &Mptio, procs: &mut Procs) -> SuiteResult<Report> {
    let layout = lay_out(args, procs)?;
    let target = Target::prepare(args, &layout, procs)?;
    let number = SystemTime::now().duration_since(UNIX_EPOCH);
    let number = procs.broadcast(&number.map_or(0, |since| since.as_nanos() as u64))?;
    let random = args.random.unwrap_or(layout.records);
    let mut run = Run {
        args,
        layout,
        target,
        number,
        random,
        history: History::default(),
    };
    let mut report = Report::new(&run.layout);
    for test in args.tests() {
        let tested = run.test(test, procs)?;
        report.tests.extend(tested);
        run.history.ran.push(test);
        if args.check {
            let rank = procs.rank();
            threads::run_untimed(procs, |halt| run.check(rank, halt))?;
        }
    }
    run.target.end(args.keep, procs)?;
    Ok(report)
}

fn lay_out(args: &Mptio, procs: &mut Procs) -> SuiteResult<Layout> {
    let block = procs.agree(device::block(&args.devices))?;
    let layout = Layout::new(Request {
        shape: args.shape(),
        processes: procs.size(),
        threads: usize::from(args.threads),
        amount: args.amount(),
        record: args.record.0,
        processes_overlap: args.overlaps(Overlap::Processes),
        threads_overlap: args.overlaps(Overlap::Threads),
        start: args.start.0,
        block,
    });
    // One after the other: a device that one process holds to see whether it is free is not free for the next.
    for rank in 0..procs.size() {
        let checked = match rank == procs.rank() {
            true => device::check(&args.devices, &layout, args.i_know),
            false => Ok(()),
        };
        procs.agree(checked)?;
    }
    Ok(layout)
}

impl Run<'_> {
    /// One test: its result, in process 0.
    fn test(&self, test: Test, procs: &mut Procs) -> SuiteResult<Option<TestResult>> {
        let works = self.works(test, procs.rank());
        let threads: Vec<usize> = (0..works.len()).collect();
        let named = |thread: usize, error: SuiteError| match works.len() {
            1 => error,
            _ => error.at(format_args!("thread {thread}")),
        };
        let mine = threads::run_step(
            procs,
            &threads,
            |thread| Ok(works[thread].buffer()),
            |thread, buffer, halt| {
                let done = works[thread].run(buffer, halt);
                done.map_err(|error| named(thread, error))
            },
        )?;
        let (mine, elapsed) = (result(&mine), mine.elapsed);
        let all = procs.gather(&mine)?;
        Ok(all.map(|all| TestResult {
            name: test.name().into(),
            elapsed,
            latencies: merge(all.iter().map(|result| &result.latencies)).summary(),
            nodes: all.into_iter().map(|result| result.node).collect(),
        }))
    }

    fn works(&self, test: Test, rank: usize) -> Vec<Work> {
        let turns = if self.args.rotate {
            self.history.ran.len()
        } else {
            0
        };
        let theirs = self.layout.rotated(rank, turns);
        (0..self.layout.threads())
            .map(|thread| {
                let region = self.layout.region(theirs, thread);
                Work {
                    run: self.number,
                    writer: Writer { rank, thread, test },
                    path: self.target.path(region.place),
                    region,
                    record: self.layout.record(),
                    records: self.layout.records,
                    random: self.random,
                    checked: self.args.check,
                    direct: self.args.direct,
                    sync: self.args.sync,
                }
            })
            .collect()
    }

    /// Each process checks the regions of the next one: another than it worked on, where there is another.
    fn check(&self, rank: usize, halt: &StopFlag) -> SuiteResult<()> {
        let expected = Expected {
            run: self.number,
            layout: &self.layout,
            random: self.random,
            rotate: self.args.rotate,
            history: &self.history,
        };
        let next = (rank + 1) % self.layout.processes();
        for thread in 0..self.layout.threads() {
            let region = self.layout.region(next, thread);
            let path = self.target.path(region.place);
            let file = File::open(&path).doing("open", &path)?;
            expected.check(region, &path, &file, halt)?;
        }
        Ok(())
    }
}

fn result(mine: &StepDone<Done>) -> ProcessResult {
    let done = || mine.done.iter().map(|(_, done, _)| done);
    let bytes: u64 = done().map(|each| each.bytes).sum();
    let each: Vec<PackedHistogram> = done().map(|each| each.latencies.pack()).collect();
    ProcessResult {
        node: Node {
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            megabytes: bytes as f64 / MB,
            seconds: mine.seconds,
            system_percent: 100.0 * mine.system / mine.seconds,
        },
        latencies: merge(&each).pack(),
    }
}
