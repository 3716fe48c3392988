//! The six tests: five of process 0, the last of all.

use super::args::Bonnie;
use super::report::{Report, TestResult};
use super::tests::{FileWorker, Test};
use crate::cpu;
use crate::error::SuiteResult;
use crate::memory::Buffer;
use crate::output::Destination;
use crate::procs::Procs;
use crate::run_directory::RunDirectory;
use crate::step::{self, Step};
use crate::workload::Workload;

impl Workload for Bonnie {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.common.np
    }

    fn default_np(&self) -> usize {
        usize::from(self.seekers)
    }

    fn check(&self) -> SuiteResult<()> {
        self.check_flags()
    }

    fn destination(&self) -> Destination<'_> {
        self.common.destination()
    }

    fn run(&self, procs: &mut Procs) -> SuiteResult<Option<Report>> {
        run(self, procs).map(Some)
    }
}

fn run(args: &Bonnie, procs: &mut Procs) -> SuiteResult<Report> {
    let run_dir = RunDirectory::make(procs, "bonnie", &args.common, args.size.0)?;
    let file_worker = FileWorker::new(args, &run_dir);
    let mut report = Report::new(args);
    for test in Test::ALL {
        let before = cpu::all_seconds();
        let step = take(&file_worker, test, procs)?;
        let worked = procs.gather(&(cpu::all_seconds() - before))?;
        let worked: f64 = worked.into_iter().flatten().sum();
        report
            .tests
            .extend(step.map(|step| TestResult::new(test, worked, step)));
        if test <= Test::BlockWrite && args.common.check {
            procs.on_rank_0(|| file_worker.check(test))?;
        }
    }
    run_dir.end(procs, args.common.keep)?;
    Ok(report)
}

fn take(file_worker: &FileWorker, test: Test, procs: &mut Procs) -> SuiteResult<Option<Step>> {
    let length = file_worker.args.chunk.0 as usize;
    let seekers = usize::from(file_worker.args.seekers);
    let generator = |_| Ok(file_worker.generator(test));
    let chunk = |_| Ok(Buffer::zeroed(length));
    match test {
        Test::Putc => step::run(procs, 1, generator, |_, generator, halt| {
            file_worker.put_bytes(generator, halt)
        }),
        Test::Rewrite => step::run(procs, 1, generator, |_, generator, halt| {
            file_worker.rewrite(generator, halt)
        }),
        Test::BlockWrite => step::run(procs, 1, generator, |_, generator, halt| {
            file_worker.write(generator, halt)
        }),
        Test::Getc => step::run(procs, 1, chunk, |_, chunk, halt| {
            file_worker.get_bytes(chunk, halt)
        }),
        Test::BlockRead => step::run(procs, 1, chunk, |_, chunk, halt| {
            file_worker.read(chunk, halt)
        }),
        Test::Seeks => step::run(procs, seekers, chunk, |seeker, chunk, halt| {
            file_worker.seek(seeker, chunk, halt)
        }),
    }
}
