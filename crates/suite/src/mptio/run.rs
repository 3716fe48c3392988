//! A whole run in one process: threads for each test, in step with the other processes.

use std::fs::File;
use std::sync::Barrier;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

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
use crate::latency::{Packed, together};
use crate::procs::Procs;
use crate::trouble::{Doing, Outcome, Trouble};
use crate::{cpu, output};

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

pub fn run(asked: &Mptio, procs: &mut Procs) -> Outcome<()> {
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
            let checked = run.check(procs.rank());
            procs.agree(checked)?;
        }
    }
    run.target.end(asked.keep, procs)?;
    let (base, json) = (asked.name.as_deref(), asked.json.as_deref());
    procs.lead(|| output::write(&report.to_string(), &report, base, json))
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
        let (ready, start) = (Barrier::new(works.len() + 1), Barrier::new(works.len() + 1));
        let (mine, elapsed) = std::thread::scope(|scope| {
            let threads: Vec<_> = works
                .iter()
                .map(|work| scope.spawn(|| work.run(&ready, &start)))
                .collect();
            ready.wait();
            let gone = procs.go();
            let system = cpu::system_seconds();
            let begun = Instant::now();
            start.wait();
            let done: Vec<Outcome<Done>> = threads
                .into_iter()
                .map(|thread| match thread.join() {
                    Ok(done) => done,
                    Err(_) => Err(Trouble::met("a thread panicked")),
                })
                .collect();
            let seconds = begun.elapsed().as_secs_f64();
            let system = cpu::system_seconds() - system;
            let elapsed = gone.and_then(|gone| {
                procs.barrier()?;
                Ok(gone.elapsed().as_secs_f64())
            });
            (said(done, seconds, system), elapsed)
        });
        let elapsed = elapsed?;
        let mine = procs.agree(mine)?;
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
    fn check(&self, rank: usize) -> Outcome<()> {
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
            expected.check(region, &path, &file)?;
        }
        Ok(())
    }
}

fn said(done: Vec<Outcome<Done>>, seconds: f64, system: f64) -> Outcome<Said> {
    let done: Vec<Done> = done.into_iter().collect::<Outcome<_>>()?;
    let bytes: u64 = done.iter().map(|each| each.bytes).sum();
    let each: Vec<Packed> = done.iter().map(|each| each.latencies.pack()).collect();
    Ok(Said {
        node: Node {
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            megabytes: bytes as f64 / MB,
            seconds,
            system_percent: 100.0 * system / seconds,
        },
        latencies: together(&each).pack(),
    })
}
