//! The connection to one worker: sends orders, receives reports.

use std::io;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use gupfs_kit::worker::{Answers, WorkerLink};

use super::mount_address::Access;
use super::{RunResult, cannot};
use crate::frame;
use crate::work::{Order, Report, now};

/// How long a worker without orders may take to end.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a worker that was killed is waited for: one in a call that hangs does not end.
const KILL_TIMEOUT: Duration = Duration::from_millis(200);

/// A message over a connection.
pub enum Message {
    Report(Report),
    /// It has ended, or cannot be understood.
    Gone(String),
}

/// Which worker, when (by our clock), what.
pub type ReceivedMessage = (usize, u64, Message);

pub struct WorkerConnection(WorkerLink);

impl WorkerConnection {
    /// Starts a worker, and a thread that passes on what it reports.
    pub fn open(
        worker: usize,
        access: &Access,
        itself: &[std::ffi::OsString],
        inbox: Sender<ReceivedMessage>,
    ) -> RunResult<WorkerConnection> {
        let opened = match access {
            Access::Here => WorkerLink::start(itself),
            Access::Shell(text) => WorkerLink::through(text),
            Access::Agent { address, token } => {
                WorkerLink::connect(address, |stream| frame::send_token(stream, token))
            }
        };
        match opened {
            Ok((link, input)) => {
                let listener = std::thread::Builder::new();
                let started = listener.spawn(move || listen(worker, input, &inbox));
                match started {
                    Ok(_) => Ok(WorkerConnection(link)),
                    Err(error) => cannot(format!("cannot start a thread: {error}")),
                }
            }
            Err(error) => cannot(format!(
                "cannot start worker {worker} ({access:?}): {error}"
            )),
        }
    }

    pub fn send(&mut self, order: &Order) -> io::Result<()> {
        match self.0.orders() {
            Some(orders) => frame::write(orders, order),
            None => Ok(()),
        }
    }

    /// Ends the worker, whatever it does. One that hangs in the kernel ends when the kernel lets it.
    pub fn cut(&mut self) {
        self.0.kill();
    }
}

impl Drop for WorkerConnection {
    fn drop(&mut self) {
        // Without orders a worker ends by itself; one that cannot is not waited for.
        self.0.close();
        if !self.0.has_ended_by(Instant::now() + END_TIMEOUT) {
            self.0.kill();
            self.0.has_ended_by(Instant::now() + KILL_TIMEOUT);
        }
    }
}

fn listen(worker: usize, input: Answers, inbox: &Sender<ReceivedMessage>) {
    let mut input = io::BufReader::with_capacity(1 << 16, input);
    loop {
        let heard = match frame::read(&mut input) {
            Ok(Some(report)) => Message::Report(report),
            Ok(None) => Message::Gone("it has ended".into()),
            Err(error) => Message::Gone(error.to_string()),
        };
        let last = matches!(heard, Message::Gone(_));
        if inbox.send((worker, now(), heard)).is_err() || last {
            return;
        }
    }
}
