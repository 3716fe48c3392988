//! All workers: orders to them, their records, and which of them hang or are gone.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::clock::{self, ClockOffset, ClockSample};
use super::connection::{Message, ReceivedMessage, WorkerConnection};
use super::{Access, CannotRun, RunResult, Settings, cannot, run_directory};
use crate::history::{Nanos, Record};
use crate::work::{Order, Report, now};

/// A worker says something ten times a second. One that is silent for so long beyond the deadline is gone with its host.
const SILENCE: Duration = Duration::from_secs(10);

/// Questions from which an offset is taken.
const QUESTIONS: usize = 16;

pub struct Workers {
    pub handles: Vec<WorkerHandle>,
    inbox: Receiver<ReceivedMessage>,
    deadline: Nanos,
}

pub struct WorkerHandle {
    pub number: usize,
    pub mount: u16,
    remote: bool,
    connection: WorkerConnection,
    alive: bool,
    offset: ClockOffset,
    /// On its own clock, until they are collected.
    done: Vec<Record>,
    doing: Option<Record>,
    heard: Nanos,
}

/// The end of a worker before the end of the run.
#[derive(Clone, Debug)]
pub enum Loss {
    /// It has waited for an answer beyond the deadline.
    Hangs(Box<Record>),
    Gone {
        worker: usize,
        why: String,
    },
}

/// Which workers an order is for.
pub type WorkerNumbers<'a> = &'a [usize];

impl Workers {
    /// Starts the workers, `processes` on each mount in turn, and measures their clocks.
    pub fn start(settings: &Settings) -> RunResult<Workers> {
        let (sender, inbox) = channel();
        let mut handles = Vec::new();
        for number in 0..usize::from(settings.processes) * settings.sites.len() {
            let mount = number % settings.sites.len();
            let access = &settings.sites[mount].access;
            handles.push(WorkerHandle {
                number,
                mount: mount as u16,
                remote: *access != Access::Here,
                connection: WorkerConnection::open(
                    number,
                    access,
                    &settings.itself,
                    sender.clone(),
                )?,
                alive: true,
                offset: ClockOffset::default(),
                done: Vec::new(),
                doing: None,
                heard: now(),
            });
        }
        let mut workers = Workers {
            handles,
            inbox,
            deadline: settings.deadline.as_nanos() as Nanos,
        };
        for number in 0..workers.handles.len() {
            let site = &settings.sites[usize::from(workers.handles[number].mount)];
            let be = Order::Be {
                worker: number as u16,
                directory: run_directory(&site.directory, settings.seed),
            };
            workers.tell(&[number], |_| be.clone())?;
        }
        workers.measure()?;
        Ok(workers)
    }

    pub fn all(&self) -> Vec<usize> {
        (0..self.handles.len())
            .filter(|worker| self.handles[*worker].alive)
            .collect()
    }

    /// The first living worker of each mount.
    pub fn one_a_mount(&self) -> Vec<usize> {
        let mut mounts = Vec::new();
        let mut first = Vec::new();
        for worker in self.all() {
            if !mounts.contains(&self.handles[worker].mount) {
                mounts.push(self.handles[worker].mount);
                first.push(worker);
            }
        }
        first
    }

    /// Orders something that must be done for the run to make sense.
    pub fn tell(
        &mut self,
        who: WorkerNumbers,
        order: impl Fn(&WorkerHandle) -> Order,
    ) -> RunResult<()> {
        match self.order(who, order)?.into_iter().next() {
            None => Ok(()),
            Some(Loss::Hangs(record)) => cannot(format!("{} hangs", record.asked())),
            Some(Loss::Gone { worker, why }) => cannot(format!("worker {worker} is gone: {why}")),
        }
    }

    /// Removes the directory of the run, at its end. A failure is printed, and changes no verdict.
    pub fn remove_directory(&mut self) {
        let Some(worker) = self.all().first().copied() else {
            return;
        };
        if let Err(CannotRun(why)) = self.tell(&[worker], |_| Order::RemoveDirectory) {
            eprintln!("gupfs verify: {why}");
        }
    }

    /// Orders something and waits until all have done it, hang, or are gone.
    pub fn order(
        &mut self,
        who: WorkerNumbers,
        order: impl Fn(&WorkerHandle) -> Order,
    ) -> RunResult<Vec<Loss>> {
        let mut lost = Vec::new();
        let mut waiting = Vec::new();
        for worker in who {
            let handle = &mut self.handles[*worker];
            let order = order(handle);
            handle.heard = now();
            match handle.connection.send(&order) {
                Ok(()) => waiting.push(*worker),
                Err(error) => lost.extend(self.lose(*worker, error.to_string())),
            }
        }
        while !waiting.is_empty() {
            match self.inbox.recv_timeout(Duration::from_millis(50)) {
                Ok((worker, when, Message::Report(report))) => {
                    self.handles[worker].heard = when;
                    if self.take(worker, report)? {
                        waiting.retain(|other| *other != worker);
                    }
                }
                Ok((worker, _, Message::Gone(why))) => {
                    lost.extend(self.lose(worker, why));
                    waiting.retain(|other| *other != worker);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return cannot("all workers are gone"),
            }
            for worker in waiting.clone() {
                let Some(loss) = self.overdue(worker) else {
                    continue;
                };
                lost.push(loss);
                waiting.retain(|other| *other != worker);
            }
        }
        Ok(lost)
    }

    /// Takes in a report; whether the order is done.
    fn take(&mut self, worker: usize, report: Report) -> RunResult<bool> {
        let handle = &mut self.handles[worker];
        match report {
            Report::Did(records) => {
                handle.done.extend(records);
                handle.doing = None;
            }
            Report::Doing(record) => handle.doing = Some(*record),
            Report::Finished => {
                handle.doing = None;
                return Ok(true);
            }
            Report::Unable(why) => return Err(CannotRun(why)),
            Report::Clock(_) | Report::Found(_) => return Ok(true),
        }
        Ok(false)
    }

    fn overdue(&mut self, worker: usize) -> Option<Loss> {
        let deadline = self.deadline;
        let handle = &mut self.handles[worker];
        let begun = handle.doing.as_ref().map(|record| {
            let mut ours = record.clone();
            handle.offset.ours(&mut ours);
            ours.start
        });
        if begun.is_some_and(|begun| now().saturating_sub(begun) > deadline) {
            let record = Box::new(handle.doing.clone()?);
            self.lose(worker, "it hangs".into());
            return Some(Loss::Hangs(record));
        }
        let silent = now().saturating_sub(handle.heard);
        if silent > deadline + SILENCE.as_nanos() as Nanos {
            return self.lose(worker, "it is silent".into());
        }
        None
    }

    /// The worker is no more; what it was doing may have happened or not.
    fn lose(&mut self, worker: usize, why: String) -> Option<Loss> {
        let handle = &mut self.handles[worker];
        if !std::mem::replace(&mut handle.alive, false) {
            return None;
        }
        handle.connection.cut();
        handle.done.extend(handle.doing.take());
        Some(Loss::Gone { worker, why })
    }

    /// The records of all workers since the last call, on our clock.
    pub fn collect(&mut self) -> RunResult<Vec<Record>> {
        let before: Vec<ClockOffset> = self.handles.iter().map(|handle| handle.offset).collect();
        self.measure()?;
        let mut all = Vec::new();
        for (handle, before) in self.handles.iter_mut().zip(before) {
            let offset = match handle.remote {
                true => clock::during(before, handle.offset),
                false => ClockOffset::default(),
            };
            for mut record in std::mem::take(&mut handle.done) {
                offset.ours(&mut record);
                all.push(record);
            }
        }
        Ok(all)
    }

    /// How unsure the clocks are, at most.
    pub fn uncertain(&self) -> Duration {
        let most = self.handles.iter().map(|handle| handle.offset.uncertain);
        Duration::from_nanos(most.max().unwrap_or(0))
    }

    /// Reads the clocks of other hosts.
    fn measure(&mut self) -> RunResult<()> {
        for worker in self.all() {
            if !self.handles[worker].remote {
                continue;
            }
            let mut asked: Vec<ClockSample> = Vec::new();
            for _ in 0..QUESTIONS {
                let left = now();
                let Some((Report::Clock(theirs), came)) = self.ask(worker, &Order::Clock)? else {
                    break;
                };
                asked.push((left, theirs, came));
            }
            self.handles[worker].offset = clock::offset(&asked);
        }
        Ok(())
    }

    /// A question with a number for an answer; None when the worker is lost.
    pub fn ask(&mut self, worker: usize, order: &Order) -> RunResult<Option<(Report, Nanos)>> {
        if let Err(error) = self.handles[worker].connection.send(order) {
            self.lose(worker, error.to_string());
            return Ok(None);
        }
        let end = now() + self.deadline;
        while now() < end {
            match self.inbox.recv_timeout(Duration::from_millis(50)) {
                Ok((
                    who,
                    when,
                    Message::Report(report @ (Report::Clock(_) | Report::Found(_))),
                )) if who == worker => {
                    return Ok(Some((report, when)));
                }
                Ok((who, _, Message::Report(report))) => drop(self.take(who, report)?),
                Ok((who, _, Message::Gone(why))) => {
                    self.lose(who, why);
                    if who == worker {
                        return Ok(None);
                    }
                }
                Err(_) => {}
            }
        }
        self.lose(worker, "it does not answer".into());
        Ok(None)
    }
}

impl WorkerHandle {
    pub fn theirs(&self, ours: Nanos) -> Nanos {
        self.offset.theirs(ours)
    }
}
