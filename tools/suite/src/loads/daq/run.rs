//! Writers and readers in one step.

use super::args::Daq;
use super::reader::Reader;
use super::report::Report;
use super::writer::Writer;
use crate::ground::Ground;
use crate::output::Destination;
use crate::procs::Procs;
use crate::step;
use crate::trouble::Outcome;
use crate::workload::Workload;

impl Workload for Daq {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.setting.np
    }

    fn default_np(&self) -> usize {
        self.workers()
    }

    fn check(&self) -> Outcome<()> {
        self.check_flags()
    }

    fn destination(&self) -> Destination<'_> {
        self.setting.destination()
    }

    fn run(&self, procs: &mut Procs) -> Outcome<Option<Report>> {
        run(self, procs).map(Some)
    }
}

fn run(asked: &Daq, procs: &mut Procs) -> Outcome<Report> {
    let ground = Ground::make(procs, "daq", &asked.setting, asked.total())?;
    let writers = usize::from(asked.writers);
    let ready = |worker| {
        Ok(match worker < writers {
            true => Worker::Writer(Writer::new(asked, &ground, worker)),
            false => Worker::Reader(Reader::new(asked, &ground, worker - writers)),
        })
    };
    let step = step::take(
        procs,
        asked.workers(),
        ready,
        |_, worker, halt| match worker {
            Worker::Writer(writer) => writer.run(halt),
            Worker::Reader(reader) => reader.run(halt),
        },
    )?;
    // The step's parts are in process 0 only, and so is the report that is written.
    let report = Report::new(asked, step);
    ground.end(procs, asked.setting.keep)?;
    Ok(report)
}

enum Worker<'a> {
    Writer(Writer<'a>),
    Reader(Reader<'a>),
}
