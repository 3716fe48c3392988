//! A line to one worker: orders out, reports in.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;
use std::time::Duration;

use super::site::Access;
use super::{Outcome, cannot};
use crate::frame;
use crate::work::{Order, Report, now};

/// How long an agent may take to answer at all.
const CONNECT: Duration = Duration::from_secs(10);

/// What comes in over a line, and when.
pub enum Heard {
    Report(Report),
    /// It has ended, or cannot be understood.
    Gone(String),
}

/// Which worker, when (by our clock), what.
pub type Inbox = (usize, u64, Heard);

pub struct Line {
    out: Box<dyn Write + Send>,
    end: End,
}

enum End {
    Process(Child),
    Socket(TcpStream),
}

impl Line {
    pub fn open(
        worker: usize,
        access: &Access,
        itself: &[std::ffi::OsString],
        inbox: Sender<Inbox>,
    ) -> Outcome<Line> {
        let opened = match access {
            Access::Here => {
                let mut command = Command::new(&itself[0]);
                command.args(&itself[1..]);
                Line::process(command)
            }
            Access::Shell(text) => {
                let mut command = Command::new("sh");
                command.args(["-c", text]);
                Line::process(command)
            }
            Access::Agent { address, token } => Line::socket(address, token),
        };
        match opened {
            Ok((line, input)) => {
                let listener = std::thread::Builder::new();
                let started = listener.spawn(move || listen(worker, input, &inbox));
                match started {
                    Ok(_) => Ok(line),
                    Err(error) => cannot(format!("cannot start a thread: {error}")),
                }
            }
            Err(error) => cannot(format!(
                "cannot start worker {worker} ({access:?}): {error}"
            )),
        }
    }

    fn process(mut command: Command) -> io::Result<(Line, Box<dyn Read + Send>)> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(out), Some(input)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("it has no pipes"));
        };
        let line = Line {
            out: Box::new(out),
            end: End::Process(child),
        };
        Ok((line, Box::new(input)))
    }

    fn socket(address: &str, token: &str) -> io::Result<(Line, Box<dyn Read + Send>)> {
        let address = std::net::ToSocketAddrs::to_socket_addrs(address)?
            .next()
            .ok_or_else(|| io::Error::other("no such host"))?;
        let mut stream = TcpStream::connect_timeout(&address, CONNECT)?;
        stream.set_nodelay(true)?;
        frame::write(&mut stream, &token)?;
        let line = Line {
            out: Box::new(stream.try_clone()?),
            end: End::Socket(stream.try_clone()?),
        };
        Ok((line, Box::new(stream)))
    }

    pub fn send(&mut self, order: &Order) -> io::Result<()> {
        frame::write(&mut self.out, order)
    }

    /// Ends the worker, whatever it does. One that hangs in the kernel ends when the kernel lets it.
    pub fn cut(&mut self) {
        match &mut self.end {
            // Both fail only when it has ended already.
            End::Process(child) => drop(child.kill()),
            End::Socket(stream) => drop(stream.shutdown(Shutdown::Both)),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // Without orders a worker ends by itself; one that cannot is not waited for.
        self.out = Box::new(io::sink());
        let End::Process(child) = &mut self.end else {
            return self.cut();
        };
        for _ in 0..50 {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.cut();
        let Self {
            end: End::Process(child),
            ..
        } = self
        else {
            return;
        };
        for _ in 0..20 {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn listen(worker: usize, input: Box<dyn Read + Send>, inbox: &Sender<Inbox>) {
    let mut input = io::BufReader::with_capacity(1 << 16, input);
    loop {
        let heard = match frame::read(&mut input) {
            Ok(Some(report)) => Heard::Report(report),
            Ok(None) => Heard::Gone("it has ended".into()),
            Err(error) => Heard::Gone(error.to_string()),
        };
        let last = matches!(heard, Heard::Gone(_));
        if inbox.send((worker, now(), heard)).is_err() || last {
            return;
        }
    }
}
