//! The thread that judges a round while the next one is worked on.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{RunResult, cannot};
use crate::check::{Bound, Judgement, Model, conflicts, judge};
use crate::history::History;

/// A round that has been judged.
pub struct JudgedRound {
    pub round: u32,
    pub history: History,
    pub judgement: Judgement,
    pub conflicting: usize,
    pub took: Duration,
}

pub struct JudgeThread {
    rounds: SyncSender<(u32, History)>,
    verdicts: Receiver<JudgedRound>,
    thread: JoinHandle<()>,
}

impl JudgeThread {
    /// Rounds wait in line when judging takes longer than working: two at most, then the work waits.
    pub fn start(model: Model) -> JudgeThread {
        JudgeThread::who(move |history| judge(history, model, Bound::default()))
    }

    fn who(judges: impl Fn(&History) -> Judgement + Send + 'static) -> JudgeThread {
        let (rounds, todo) = sync_channel::<(u32, History)>(1);
        let (done, verdicts) = sync_channel(64);
        let thread = std::thread::spawn(move || {
            while let Ok((round, history)) = todo.recv() {
                let begun = Instant::now();
                let judgement = judges(&history);
                let conflicting = conflicts(&history);
                let judged = JudgedRound {
                    round,
                    history,
                    judgement,
                    conflicting,
                    took: begun.elapsed(),
                };
                if done.send(judged).is_err() {
                    return;
                }
            }
        });
        JudgeThread {
            rounds,
            verdicts,
            thread,
        }
    }

    pub fn give(&self, round: u32, history: History) -> RunResult<()> {
        match self.rounds.send((round, history)) {
            Ok(()) => Ok(()),
            Err(_) => cannot("the judge has ended"),
        }
    }

    /// A verdict, if there is one already.
    pub fn verdict(&self) -> Option<JudgedRound> {
        self.verdicts.try_recv().ok()
    }

    /// All verdicts that are still to come, and whether those are all: a round that was not judged is no agreement.
    pub fn rest(self) -> (Vec<JudgedRound>, RunResult<()>) {
        drop(self.rounds);
        let rest = self.verdicts.iter().collect();
        let whole = match self.thread.join() {
            Ok(()) => Ok(()),
            Err(_) => {
                cannot("the judge has failed, and did not judge all: that is a bug of this program")
            }
        };
        (rest, whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_was_not_judged_is_no_agreement() {
        let judge = JudgeThread::start(Model::Posix);
        judge.give(1, History::new(vec![0], Vec::new())).unwrap();
        let (rest, whole) = judge.rest();
        assert!(rest.len() == 1 && whole.is_ok());
        let judge = JudgeThread::who(|_| panic!("as a bug would"));
        judge.give(1, History::new(vec![0], Vec::new())).unwrap();
        let (rest, whole) = judge.rest();
        assert!(rest.is_empty() && whole.is_err());
    }
}
