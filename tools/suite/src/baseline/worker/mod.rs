//! A worker: does what it is told on one host until nobody tells it anything any more.

mod disk;
mod files;
mod links;

use std::io::{self, BufReader};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use super::orders::{Answer, Order, receive, send};
use crate::signals;
use crate::trouble::{Outcome, Trouble};

/// Who gave the orders is gone: whatever runs shall end.
static CALLED_OFF: AtomicBool = AtomicBool::new(false);

/// An error if nobody waits for the work any more.
fn wanted() -> Outcome<()> {
    match CALLED_OFF.load(Ordering::Relaxed) {
        true => Err(Trouble::met("the run was called off")),
        false => Ok(()),
    }
}

#[derive(Default)]
struct Worker {
    links: links::Links,
    disks: Vec<disk::Disk>,
    ground: Option<Ground>,
}

/// A directory of a run; removed when it is dropped, by whoever made it.
struct Ground {
    dir: PathBuf,
    made: bool,
}

impl Drop for Ground {
    fn drop(&mut self) {
        if self.made
            && let Err(error) = std::fs::remove_dir_all(&self.dir)
        {
            eprintln!("{} could not be removed: {error}", self.dir.display());
        }
    }
}

/// Takes orders from standard input. Signals are for who gives them: without that one the input ends.
pub fn serve() -> io::Result<()> {
    signals::on_ending(|_| ());
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
    fn obey(&mut self, order: Order) -> Outcome<Answer> {
        wanted()?;
        match order {
            Order::Listen(link) => self.links.listen(link).map(Answer::Port),
            Order::Connect(link, to) => self.links.connect(&link, &to).map(done),
            Order::Accept(link) => self.links.accept(link).map(done),
            Order::Flow(flow) => self.links.flow(&flow).map(Answer::Rates),
            Order::Open(asked) => {
                self.disks = asked.iter().map(disk::Disk::open).collect::<Outcome<_>>()?;
                Ok(Answer::Done)
            }
            Order::Stream(asked) => disk::stream(&self.disks, &asked).map(Answer::Rates),
            Order::Enter(asked) => {
                self.ground = Some(files::enter(&asked)?);
                Ok(Answer::Done)
            }
            Order::Files(asked) => {
                let ground = self.ground.as_ref();
                let ground = ground.ok_or_else(|| Trouble::met("no directory was entered"))?;
                files::work(&ground.dir, &asked).map(Answer::Parts)
            }
            Order::Leave => {
                self.ground = None;
                Ok(Answer::Done)
            }
        }
    }
}

fn done((): ()) -> Answer {
    Answer::Done
}

/// What threads came back with; a panic among them is trouble.
fn joined<T>(threads: Vec<std::thread::ScopedJoinHandle<'_, Outcome<T>>>) -> Outcome<Vec<T>> {
    // All are waited for before the first trouble is told.
    let all: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
    all.into_iter()
        .map(|came| came.unwrap_or_else(|_| Err(Trouble::met("a thread panicked"))))
        .collect()
}
