//! The six tests: five of process 0, the last of all.

use super::args::Bonnie;
use super::report::{Report, Tested};
use super::tests::{Hand, Test};
use crate::cpu;
use crate::ground::Ground;
use crate::memory::Buffer;
use crate::output::Destination;
use crate::procs::Procs;
use crate::step::{self, Step};
use crate::trouble::Outcome;
use crate::workload::Workload;

impl Workload for Bonnie {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.setting.np
    }

    fn default_np(&self) -> usize {
        usize::from(self.seekers)
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

fn run(asked: &Bonnie, procs: &mut Procs) -> Outcome<Report> {
    let ground = Ground::make(procs, "bonnie", &asked.setting, asked.size.0)?;
    let hand = Hand::new(asked, &ground);
    let mut report = Report::new(asked);
    for test in Test::ALL {
        let before = cpu::all_seconds();
        let step = take(&hand, test, procs)?;
        let worked = procs.gather(&(cpu::all_seconds() - before))?;
        let worked: f64 = worked.into_iter().flatten().sum();
        report
            .tests
            .extend(step.map(|step| Tested::new(test, worked, step)));
        if test <= Test::BlockWrite && asked.setting.check {
            procs.lead(|| hand.check(test))?;
        }
    }
    ground.end(procs, asked.setting.keep)?;
    Ok(report)
}

fn take(hand: &Hand, test: Test, procs: &mut Procs) -> Outcome<Option<Step>> {
    let length = hand.asked.chunk.0 as usize;
    let seekers = usize::from(hand.asked.seekers);
    let pen = |_| Ok(hand.pen(test));
    let chunk = |_| Ok(Buffer::zeroed(length));
    match test {
        Test::Putc => step::take(procs, 1, pen, |_, pen, halt| hand.put_bytes(pen, halt)),
        Test::Rewrite => step::take(procs, 1, pen, |_, pen, halt| hand.rewrite(pen, halt)),
        Test::BlockWrite => step::take(procs, 1, pen, |_, pen, halt| hand.write(pen, halt)),
        Test::Getc => step::take(procs, 1, chunk, |_, chunk, halt| {
            hand.get_bytes(chunk, halt)
        }),
        Test::BlockRead => step::take(procs, 1, chunk, |_, chunk, halt| hand.read(chunk, halt)),
        Test::Seeks => step::take(procs, seekers, chunk, |seeker, chunk, halt| {
            hand.seek(seeker, chunk, halt)
        }),
    }
}
