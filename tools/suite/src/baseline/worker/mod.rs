//! A worker: carries out orders on one host until its input ends.

mod disk;
mod files;
mod links;

use std::io::{self, BufReader};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use super::orders::{Answer, Order, receive, send};
use crate::error::{SuiteError, SuiteResult};
use crate::signals;

/// The coordinator is gone: running work shall end.
static CALLED_OFF: AtomicBool = AtomicBool::new(false);

/// An error if the coordinator is gone.
fn wanted() -> SuiteResult<()> {
    match CALLED_OFF.load(Ordering::Relaxed) {
        true => Err(SuiteError::failed("the run was called off")),
        false => Ok(()),
    }
}

#[derive(Default)]
struct Worker {
    links: links::Links,
    disks: Vec<disk::Disk>,
    directory: Option<WorkDirectory>,
}

/// A directory of a run. The worker that made it removes it when it is dropped.
struct WorkDirectory {
    dir: PathBuf,
    made: bool,
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        if self.made
            && let Err(error) = std::fs::remove_dir_all(&self.dir)
        {
            eprintln!("{} could not be removed: {error}", self.dir.display());
        }
    }
}

/// Takes orders from standard input. Signals are for the coordinator: when it ends, the input ends.
pub fn serve() -> io::Result<()> {
    signals::on_termination(|_| ());
    let mut out = io::stdout();
    send(&mut out, &Answer::Hello(env!("CARGO_PKG_VERSION").into()))?;
    let (sender, orders) = channel();
    std::thread::spawn(move || {
        let mut input = BufReader::new(io::stdin());
        loop {
            match receive::<Order>(&mut input) {
                Ok(Some(order)) => {
                    if sender.send(order).is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    eprintln!("an order cannot be understood: {error}");
                    break;
                }
            }
        }
        CALLED_OFF.store(true, Ordering::Relaxed);
    });
    let mut worker = Worker::default();
    for order in orders {
        let answer = worker.obey(order).unwrap_or_else(Answer::Failed);
        send(&mut out, &answer)?;
    }
    Ok(())
}

impl Worker {
    fn obey(&mut self, order: Order) -> SuiteResult<Answer> {
        wanted()?;
        match order {
            Order::Listen(link) => self.links.listen(link).map(Answer::Port),
            Order::Connect(link, to) => self.links.connect(&link, &to).map(done),
            Order::Accept(link) => self.links.accept(link).map(done),
            Order::Flow(flow) => self.links.flow(&flow).map(Answer::Rates),
            Order::Open(order) => {
                self.disks = order
                    .iter()
                    .map(disk::Disk::open)
                    .collect::<SuiteResult<_>>()?;
                Ok(Answer::Done)
            }
            Order::Stream(order) => disk::stream(&self.disks, &order).map(Answer::Rates),
            Order::Enter(order) => {
                self.directory = Some(files::enter(&order)?);
                Ok(Answer::Done)
            }
            Order::Files(order) => {
                let directory = self.directory.as_ref();
                let directory =
                    directory.ok_or_else(|| SuiteError::failed("no directory was entered"))?;
                files::work(&directory.dir, &order).map(Answer::Parts)
            }
            Order::Leave => {
                self.directory = None;
                Ok(Answer::Done)
            }
        }
    }
}

fn done((): ()) -> Answer {
    Answer::Done
}

/// The results of threads; a panic is an error.
fn joined<T>(
    threads: Vec<std::thread::ScopedJoinHandle<'_, SuiteResult<T>>>,
) -> SuiteResult<Vec<T>> {
    // All threads are joined before the first error is returned.
    let all: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
    all.into_iter()
        .map(|came| came.unwrap_or_else(|_| Err(SuiteError::failed("a thread panicked"))))
        .collect()
}
