//! A whole run in one process: threads for each test, in step with the other processes.

use std::fs::File;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::args::{Mptio, Overlap};
use super::content::Writer;
use super::device;
use super::regions::{Layout, Request};
use super::report::{Node, Report, Tested};
use super::target::Target;
use super::tests::Test;
use super::thread::{Done, Work};
use super::verify::{Expected, History};
use crate::amount::MB;
use crate::halt::Halt;
use crate::latency::{Packed, together};
use crate::output::Destination;
use crate::procs::Procs;
use crate::team::{self, Together};
use crate::trouble::{Doing, Outcome, Trouble};
use crate::workload::Workload;

struct Run<'a> {
    asked: &'a Mptio,
    layout: Layout,
    target: Target,
    /// Makes this run's data differ from any other's.
    number: u64,
    random: u64,
    history: History,
}

/// What a process tells process 0 of a test.
#[derive(Clone, Serialize, Deserialize)]
struct Said {
    node: Node,
    latencies: Packed,
}

impl Workload for Mptio {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.np
    }

    fn check(&self) -> Outcome<()> {
        self.check_flags()
    }

    fn destination(&self) -> Destination<'_> {
        Destination {
            base: self.name.as_deref(),
            json: self.json.as_deref(),
        }
    }

    fn run(&self, procs: &mut Procs) -> Outcome<Option<Report>> {
        run(self, procs).map(Some)
    }
}

fn run(asked: &Mptio, procs: &mut Procs) -> Outcome<Report> {
    let layout = lay_out(asked, procs)?;
    let target = Target::prepare(asked, &layout, procs)?;
    let number = SystemTime::now().duration_since(UNIX_EPOCH);
    let number = procs.broadcast(&number.map_or(0, |since| since.as_nanos() as u64))?;
    let random = asked.random.unwrap_or(layout.records);
    let mut run = Run {
        asked,
        layout,
        target,
        number,
        random,
        history: History::default(),
    };
    let mut report = Report::new(&run.layout);
    for test in asked.tests() {
        let tested = run.test(test, procs)?;
        report.tests.extend(tested);
        run.history.ran.push(test);
        if asked.check {
            let rank = procs.rank();
            team::apart(procs, |halt| run.check(rank, halt))?;
        }
    }
    run.target.end(asked.keep, procs)?;
    Ok(report)
}

fn lay_out(asked: &Mptio, procs: &mut Procs) -> Outcome<Layout> {
    let block = procs.agree(device::block(&asked.devices))?;
    let layout = Layout::new(Request {
        shape: asked.shape(),
        processes: procs.size(),
        threads: usize::from(asked.threads),
        amount: asked.amount(),
        record: asked.record.0,
        processes_overlap: asked.overlaps(Overlap::Processes),
        threads_overlap: asked.overlaps(Overlap::Threads),
        start: asked.start.0,
        block,
    });
    // One after the other: a device that one process holds to see whether it is free is not free for the next.
    for rank in 0..procs.size() {
        let checked = match rank == procs.rank() {
            true => device::check(&asked.devices, &layout, asked.i_know),
            false => Ok(()),
        };
        procs.agree(checked)?;
    }
    Ok(layout)
}

impl Run<'_> {
    /// One test: its result, in process 0.
    fn test(&self, test: Test, procs: &mut Procs) -> Outcome<Option<Tested>> {
        let works = self.works(test, procs.rank());
        let threads: Vec<usize> = (0..works.len()).collect();
        let named = |thread: usize, trouble: Trouble| match works.len() {
            1 => trouble,
            _ => trouble.at(format_args!("thread {thread}")),
        };
        let mine = team::take(
            procs,
            &threads,
            |thread| Ok(works[thread].buffer()),
            |thread, buffer, halt| {
                let done = works[thread].run(buffer, halt);
                done.map_err(|trouble| named(thread, trouble))
            },
        )?;
        let (mine, elapsed) = (said(&mine), mine.elapsed);
        let all = procs.gather(&mine)?;
        Ok(all.map(|all| Tested {
            name: test.name().into(),
            elapsed,
            latencies: together(all.iter().map(|said| &said.latencies)).summary(),
            nodes: all.into_iter().map(|said| said.node).collect(),
        }))
    }

    fn works(&self, test: Test, rank: usize) -> Vec<Work> {
        let turns = if self.asked.rotate {
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
                    checked: self.asked.check,
                    direct: self.asked.direct,
                    sync: self.asked.sync,
                }
            })
            .collect()
    }

    /// Each process checks the regions of the next one: another than it worked on, where there is another.
    fn check(&self, rank: usize, halt: &Halt) -> Outcome<()> {
        let expected = Expected {
            run: self.number,
            layout: &self.layout,
            random: self.random,
            rotate: self.asked.rotate,
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

fn said(mine: &Together<Done>) -> Said {
    let done = || mine.done.iter().map(|(_, done, _)| done);
    let bytes: u64 = done().map(|each| each.bytes).sum();
    let each: Vec<Packed> = done().map(|each| each.latencies.pack()).collect();
    Said {
        node: Node {
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            megabytes: bytes as f64 / MB,
            seconds: mine.seconds,
            system_percent: 100.0 * mine.system / mine.seconds,
        },
        latencies: together(&each).pack(),
    }
}
