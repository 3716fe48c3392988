//! Writers and readers in one step.

use super::args::Daq;
use super::reader::Reader;
use super::report::Report;
use super::writer::Writer;
use crate::error::SuiteResult;
use crate::output::Destination;
use crate::procs::Procs;
use crate::run_directory::RunDirectory;
use crate::step;
use crate::workload::Workload;

impl Workload for Daq {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.common.np
    }

    fn default_np(&self) -> usize {
        self.workers()
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

fn run(args: &Daq, procs: &mut Procs) -> SuiteResult<Report> {
    let run_dir = RunDirectory::make(procs, "daq", &args.common, args.total())?;
    let writers = usize::from(args.writers);
    let ready = |worker| {
        Ok(match worker < writers {
            true => Worker::Writer(Writer::new(args, &run_dir, worker)),
            false => Worker::Reader(Reader::new(args, &run_dir, worker - writers)),
        })
    };
    let step = step::run(
        procs,
        args.workers(),
        ready,
        |_, worker, halt| match worker {
            Worker::Writer(writer) => writer.run(halt),
            Worker::Reader(reader) => reader.run(halt),
        },
    )?;
    // The step's parts are in process 0 only, and so is the report that is written.
    let report = Report::new(args, step);
    run_dir.end(procs, args.common.keep)?;
    Ok(report)
}

enum Worker<'a> {
    Writer(Writer<'a>),
    Reader(Reader<'a>),
}
