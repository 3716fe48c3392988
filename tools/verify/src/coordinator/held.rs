//! Objects that are held over the rounds of a run.

use super::RunResult;
use super::workers::Workers;
use crate::check::{Certainty, certainty};
use crate::history::{History, Record};
use crate::work::Order;

/// Makes them, and lets all workers open them.
pub fn hold(workers: &mut Workers, mapped: bool) -> RunResult<()> {
    let all = workers.all();
    workers.tell(&all[..1], |_| Order::FurnishHeld)?;
    workers.tell(&all, |_| Order::Hold { mapped })
}

/// Lets all workers close them, so that the directory of the run can be removed.
pub fn release(workers: &mut Workers) {
    let all = workers.all();
    // A worker that is lost holds nothing.
    let _ = workers.order(&all, |_| Order::Release);
}

/// Changes of held objects that were never answered: they may happen in any later round.
#[derive(Default)]
pub struct Unanswered(Vec<Record>);

impl Unanswered {
    /// The history of a round with what earlier rounds left open. Remembers what this one leaves.
    pub fn join(&mut self, history: History) -> History {
        let History { mount_of, records } = history;
        let open = records.iter().filter(|record| {
            record.subject.is_held()
                && !record.call.only_looks()
                && certainty(record) == Certainty::Nothing
        });
        let open: Vec<Record> = open.cloned().collect();
        let joined = self.0.iter().cloned().chain(records).collect();
        self.0.extend(open);
        History::new(mount_of, joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Answer, Call, Flavour};
    use crate::subject::Subject;

    fn record(subject: Subject, call: Call, start: u64, answer: Answer) -> Record {
        Record {
            worker: 0,
            number: start as u32,
            subject,
            call,
            start,
            end: Some(start + 1),
            answer,
        }
    }

    #[test]
    fn a_change_without_an_answer_is_part_of_each_later_round() {
        let cut = Call::Truncate { to: 0 };
        let size = Call::Size {
            flavour: Flavour::Session,
        };
        let lost = Answer::Errno(libc::EIO);
        let held = record(Subject::HeldData(0), cut, 1, lost.clone());
        let round = vec![
            held.clone(),
            record(Subject::HeldData(0), cut, 2, Answer::Done),
            record(Subject::HeldData(0), size, 3, lost.clone()),
            record(Subject::Data(0), cut, 4, lost),
        ];
        let mut unanswered = Unanswered::default();
        let first = unanswered.join(History::new(vec![0], round.clone()));
        assert_eq!(first.records, round);
        for _ in 0..2 {
            let next = unanswered.join(History::new(vec![0], Vec::new()));
            assert_eq!(next.records, std::slice::from_ref(&held));
        }
    }
}
