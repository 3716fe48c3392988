//! A whole run in one process: looking at a real tree, or growing one and working on it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;

use super::args::{Mdmark, Test};
use super::mix::{Counts, MixWorker};
use super::profile::Profile;
use super::report::{Report, TestResult};
use super::tree::Tree;
use super::walk;
use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::latency::Laps;
use crate::output::Destination;
use crate::procs::Procs;
use crate::run_directory::RunDirectory;
use crate::step::{self, Step, Work};
use crate::workload::Workload;

/// Bytes that a small file or a directory takes on most file systems.
const BLOCK: u64 = 4096;

impl Workload for Mdmark {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.common.np
    }

    fn check(&self) -> SuiteResult<()> {
        self.check_flags()
    }

    fn destination(&self) -> Destination<'_> {
        self.common.destination()
    }

    fn run(&self, procs: &mut Procs) -> SuiteResult<Option<Report>> {
        run(self, procs)
    }
}

fn run(args: &Mdmark, procs: &mut Procs) -> SuiteResult<Option<Report>> {
    let profile = args.profile.as_deref();
    if let (Some(top), Some(profile)) = (&args.scan, profile) {
        procs.on_rank_0(|| look(top, profile))?;
        return Ok(None);
    }
    let profile =
        procs.on_rank_0(|| profile.map_or_else(|| Ok(Profile::made_up()), Profile::read))?;
    let tree = Tree::grow(&profile, args.limits(), args.seed);
    // Most files are smaller than a block, and take one.
    let room = tree.bytes() + BLOCK * tree.entries();
    let run_dir = RunDirectory::make(procs, "mdmark", &args.common, room)?;
    let run = Run {
        args,
        tree,
        top: run_dir.dir().to_path_buf(),
        number: run_dir.run,
    };
    let mut report = Report::new(args, procs.size(), &run.tree);
    run.create(procs, &mut report)?;
    if args.wants(Test::Scan) {
        let step = alone(procs, |laps| run.scan(laps))?;
        report.add("Scan", step);
    }
    if args.wants(Test::Stats) {
        run.stats(procs, &mut report)?;
    }
    if args.wants(Test::Update) {
        run.update(procs, &mut report)?;
    }
    if args.wants(Test::Mix) {
        run.mix(procs, &mut report)?;
    }
    if args.wants(Test::Delete) {
        let step = alone(procs, |laps| walk::delete(&run.top, laps))?;
        report.add("Delete", step);
        procs.on_rank_0(|| run.check_deleted())?;
    }
    run_dir.end(procs, args.common.keep)?;
    Ok(Some(report))
}

/// `--scan`: a real tree's densities.
fn look(top: &Path, to: &Path) -> SuiteResult<()> {
    let (profile, unread) = Profile::scan(top)?;
    profile.write(to)?;
    if unread > 0 {
        eprintln!(
            "{unread} directories could not be read and are left out; a user who may read them sees more"
        );
    }
    println!(
        "{}: {} files in {} directories on {} levels: {}",
        top.display(),
        profile.sizes.total(),
        profile
            .levels
            .iter()
            .map(|level| level.files.total())
            .sum::<u64>(),
        profile.levels.len(),
        to.display()
    );
    Ok(())
}

/// A test of process 0 alone.
fn alone(
    procs: &mut Procs,
    work: impl Fn(&mut Laps) -> SuiteResult<()> + Sync,
) -> SuiteResult<Option<Step>> {
    step::run(
        procs,
        1,
        |_| Ok(()),
        |_, (), halt| {
            let mut laps = Laps::start(halt);
            work(&mut laps)?;
            Ok(Work {
                latencies: laps.histogram,
                ..Work::default()
            })
        },
    )
}

struct Run<'a> {
    args: &'a Mdmark,
    tree: Tree,
    top: PathBuf,
    number: u64,
}

impl Run<'_> {
    fn create(&self, procs: &mut Procs, report: &mut Report) -> SuiteResult<()> {
        let checked = self.args.common.check;
        let step = step::run(
            procs,
            1,
            |_| Ok(walk::generator(self.number, checked)),
            |_, mut generator, halt| {
                let mut laps = Laps::start(halt);
                let bytes = walk::create(&self.tree, &self.top, &mut generator, &mut laps)?;
                Ok(Work {
                    bytes,
                    latencies: laps.histogram,
                    ..Work::default()
                })
            },
        )?;
        report.add("Create", step);
        procs.on_rank_0(|| match checked {
            true => walk::check(&self.tree, &self.top, self.number),
            false => Ok(()),
        })
    }

    fn scan(&self, laps: &mut Laps) -> SuiteResult<()> {
        let mut seen = 0;
        walk::visit(&self.top, &mut |_, _| {
            seen += 1;
            laps.lap()
        })?;
        match seen == self.tree.entries() || !self.args.common.check {
            true => Ok(()),
            false => Err(SuiteError::failed(format!(
                "{}: wrong number of entries: expected {}, found {seen}",
                self.top.display(),
                self.tree.entries()
            ))),
        }
    }

    /// Counting is the same walk as looking at a real tree.
    fn stats(&self, procs: &mut Procs, report: &mut Report) -> SuiteResult<()> {
        let found = Mutex::new(Profile::default());
        let step = alone(procs, |laps| {
            let (profile, _) = Profile::scan_each(&self.top, || laps.lap())?;
            *found.lock() = profile;
            Ok(())
        })?;
        report.add("Stats", step);
        report.found = found.into_inner();
        Ok(())
    }

    fn update(&self, procs: &mut Procs, report: &mut Report) -> SuiteResult<()> {
        let step = alone(procs, |laps| {
            walk::visit(&self.top, &mut |path, _| {
                walk::update(path)?;
                laps.lap()
            })
        })?;
        report.add("Update", step);
        procs.on_rank_0(|| match self.args.common.check {
            true => walk::visit(&self.top, &mut |path, found| {
                walk::check_updated(path, found)
            }),
            false => Ok(()),
        })
    }

    fn mix(&self, procs: &mut Procs, report: &mut Report) -> SuiteResult<()> {
        let time = Duration::from_secs_f64(self.args.seconds);
        let counts = Mutex::new(Counts::default());
        let workers = procs.size();
        let step = step::run(
            procs,
            workers,
            |worker| MixWorker::new(&self.top, self.args.seed, worker),
            |_, wanderer, halt| {
                let (done, latencies) = wanderer.wander(time, halt)?;
                counts.lock().add(&done);
                Ok(Work {
                    latencies,
                    ..Work::default()
                })
            },
        )?;
        let mine = counts.into_inner();
        for theirs in procs.gather(&mine)?.into_iter().flatten() {
            report.mixed.add(&theirs);
        }
        report.add("Mix", step);
        procs.on_rank_0(|| match self.args.common.check {
            true => walk::check(&self.tree, &self.top, self.number),
            false => Ok(()),
        })
    }

    fn check_deleted(&self) -> SuiteResult<()> {
        let mut left = std::fs::read_dir(&self.top).doing("list", &self.top)?;
        match left.next() {
            None => Ok(()),
            Some(_) => Err(SuiteError::failed(format!(
                "{}: everything was removed, and something is listed still",
                self.top.display()
            ))),
        }
    }
}

impl Report {
    fn add(&mut self, name: &str, step: Option<Step>) {
        self.tests
            .extend(step.map(|step| TestResult::new(name, step)));
    }
}
