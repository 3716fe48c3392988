//! The workers on all hosts: sends orders, waits for answers.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufReader};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use gupfs_kit::worker::{Answers, WorkerLink};

use super::orders::{Answer, Order, receive, send, send_token};
use super::site::Access;
use crate::error::{SuiteError, SuiteResult};
use crate::signals;

/// How long logging in on another host may take.
const HELLO: Duration = Duration::from_secs(60);

/// How long workers may take to clean up.
const GOODBYE: Duration = Duration::from_secs(30);

/// How long a worker that was killed is waited for.
const KILLED: Duration = Duration::from_secs(10);

/// How workers are reached.
pub struct WorkerCommands {
    /// The command that starts a worker on this host.
    pub worker: Vec<OsString>,
    /// A shell's line that starts one on `{host}`.
    pub through: String,
    pub token: Option<String>,
}

pub struct Workers {
    all: Vec<Worker>,
    inbox: Receiver<WorkerEvent>,
}

struct Worker {
    access: Access,
    link: WorkerLink,
}

enum WorkerEvent {
    Answer(usize, Answer),
    /// A worker has ended, or cannot be understood.
    Gone(usize, String),
    Signal(i32),
}

impl Workers {
    /// A worker for each. From now on signals end the run in order. To be called before threads are started.
    pub fn start(wanted: &[Access], ways: &WorkerCommands) -> SuiteResult<Workers> {
        let (sender, inbox) = channel();
        let signalled = sender.clone();
        signals::on_termination(move |signal| {
            let _ = signalled.send(WorkerEvent::Signal(signal));
        });
        let mut workers = Workers {
            all: Vec::new(),
            inbox,
        };
        for access in wanted {
            let (link, answers) = reach(access, ways).map_err(|error| {
                SuiteError::failed(format!("no worker could be started on {access}: {error}"))
            })?;
            let (number, inbox) = (workers.all.len(), sender.clone());
            std::thread::spawn(move || listen(number, answers, &inbox));
            workers.all.push(Worker {
                access: access.clone(),
                link,
            });
        }
        let mut greeted = workers.wait(
            (0..wanted.len()).map(|member| (member, "starting".into())),
            HELLO,
        )?;
        for (access, hello) in wanted.iter().zip(greeted.drain(..)) {
            match hello {
                Answer::Hello(version) if version == env!("CARGO_PKG_VERSION") => {}
                _ => {
                    return Err(SuiteError::failed(format!(
                        "the worker on {access} is of another version than this program"
                    )));
                }
            }
        }
        Ok(workers)
    }

    /// Gives orders, several to one worker if need be, and waits for all answers: in the order in which was asked.
    pub fn ask(
        &mut self,
        orders: Vec<(usize, Order)>,
        limit: Duration,
    ) -> SuiteResult<Vec<Answer>> {
        let mut args = Vec::new();
        for (index, order) in orders {
            let worker = &mut self.all[index];
            if let Some(orders) = worker.link.orders() {
                send(orders, &order).map_err(|error| {
                    SuiteError::failed(format!("{}: the worker is gone: {error}", worker.access))
                })?;
            }
            args.push((index, format!("{order:?}")));
        }
        self.wait(args.into_iter(), limit)
    }

    fn wait(
        &mut self,
        args: impl Iterator<Item = (usize, String)>,
        limit: Duration,
    ) -> SuiteResult<Vec<Answer>> {
        let mut waiting: Vec<VecDeque<usize>> = vec![VecDeque::new(); self.all.len()];
        let mut what = Vec::new();
        for (index, (member, order)) in args.enumerate() {
            waiting[member].push_back(index);
            what.push(order);
        }
        let mut answers: Vec<Option<Answer>> = vec![None; what.len()];
        let until = Instant::now() + limit;
        while answers.iter().any(Option::is_none) {
            let left = until.saturating_duration_since(Instant::now());
            match self.inbox.recv_timeout(left) {
                Ok(WorkerEvent::Answer(member, Answer::Failed(error))) => {
                    return Err(error.at(&self.all[member].access));
                }
                Ok(WorkerEvent::Answer(member, answer)) => match waiting[member].pop_front() {
                    Some(index) => answers[index] = Some(answer),
                    None => return Err(SuiteError::failed("a worker answered what nobody asked")),
                },
                Ok(WorkerEvent::Gone(member, why)) => {
                    let access = &self.all[member].access;
                    return Err(SuiteError::failed(format!("the worker on {access}: {why}")));
                }
                Ok(WorkerEvent::Signal(signal)) => {
                    return Err(SuiteError::failed(format!("ended by signal {signal}")));
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let late = waiting.iter().position(|queue| !queue.is_empty());
                    let late = late.map_or("a worker".into(), |m| self.all[m].access.to_string());
                    let order = waiting.iter().flatten().next().map(|index| &what[*index]);
                    return Err(SuiteError::failed(format!(
                        "{late} did not answer within {} s: {}",
                        limit.as_secs(),
                        order.map_or("", |order| order)
                    )));
                }
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }
}

impl Drop for Workers {
    /// Without orders workers clean up and end; one that cannot is ended.
    fn drop(&mut self) {
        for worker in &mut self.all {
            worker.link.close();
        }
        let until = Instant::now() + GOODBYE;
        for worker in &mut self.all {
            if !worker.link.has_ended_by(until) {
                eprintln!(
                    "the worker on {} did not end within {} s; see what it left",
                    worker.access,
                    GOODBYE.as_secs()
                );
                worker.link.kill();
                worker.link.has_ended_by(Instant::now() + KILLED);
            }
        }
    }
}

fn reach(access: &Access, ways: &WorkerCommands) -> io::Result<(WorkerLink, Answers)> {
    match access {
        Access::Here => WorkerLink::start(&ways.worker),
        Access::Through(host) => WorkerLink::through(&ways.through.replace("{host}", host)),
        Access::Agent(address) => WorkerLink::connect(address, |stream| {
            send_token(stream, ways.token.as_deref().unwrap_or(""))
        }),
    }
}

fn listen(member: usize, input: Answers, inbox: &Sender<WorkerEvent>) {
    let mut input = BufReader::new(input);
    loop {
        let heard = match receive(&mut input) {
            Ok(Some(answer)) => WorkerEvent::Answer(member, answer),
            Ok(None) => WorkerEvent::Gone(member, "it has ended".into()),
            Err(error) => WorkerEvent::Gone(member, error.to_string()),
        };
        let last = matches!(heard, WorkerEvent::Gone(..));
        if inbox.send(heard).is_err() || last {
            return;
        }
    }
}
