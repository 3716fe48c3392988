//! A worker: a process that reads orders and writes answers. It is started on this host, through a shell command, or by an agent
//! on another host.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long an agent may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two looks whether a process has ended.
const POLL: Duration = Duration::from_millis(5);

/// What a worker writes.
pub type Answers = Box<dyn Read + Send>;

/// The side of a worker's connection that gives orders.
pub struct WorkerLink {
    orders: Option<Box<dyn Write + Send>>,
    peer: Peer,
}

enum Peer {
    Process(Child),
    /// A worker of an agent.
    Socket(TcpStream),
}

impl WorkerLink {
    /// Starts a worker on this host: a program and its arguments.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub fn start(words: &[OsString]) -> io::Result<(WorkerLink, Answers)> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        WorkerLink::spawn(command)
    }

    /// Starts a worker with a line of the shell, whose standard input and output are the worker's.
    ///
    /// # Errors
    ///
    /// No shell can be started. A line that fails closes the answers.
    pub fn through(line: &str) -> io::Result<(WorkerLink, Answers)> {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        WorkerLink::spawn(command)
    }

    fn spawn(mut command: Command) -> io::Result<(WorkerLink, Answers)> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("it has no pipes"));
        };
        let link = WorkerLink {
            orders: Some(Box::new(orders)),
            peer: Peer::Process(child),
        };
        Ok((link, Box::new(answers)))
    }

    /// Has the agent at `HOST:PORT` start a worker. `send_token` proves the token as the tool's protocol does.
    ///
    /// # Errors
    ///
    /// The host is unknown, or the agent does not accept the connection in time. A wrong token closes the answers.
    pub fn connect(
        address: &str,
        send_token: impl FnOnce(&mut TcpStream) -> io::Result<()>,
    ) -> io::Result<(WorkerLink, Answers)> {
        let address = address
            .to_socket_addrs()?
            .next()
            .ok_or_else(|| io::Error::other("no such host"))?;
        let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        send_token(&mut stream)?;
        let link = WorkerLink {
            orders: Some(Box::new(stream.try_clone()?)),
            peer: Peer::Socket(stream.try_clone()?),
        };
        Ok((link, Box::new(stream)))
    }

    /// Where orders are written; None after [`WorkerLink::close`].
    pub fn orders(&mut self) -> Option<&mut impl Write> {
        self.orders.as_mut()
    }

    /// There are no more orders: the worker cleans up and ends.
    pub fn close(&mut self) {
        self.orders = None;
        if let Peer::Socket(stream) = &self.peer {
            // It fails only if the other side has closed already.
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    /// Waits until the worker's process has ended, at most until then: whether it has. An agent waits for its own workers.
    pub fn has_ended_by(&mut self, deadline: Instant) -> bool {
        let Peer::Process(child) = &mut self.peer else {
            return true;
        };
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(POLL);
        }
        true
    }

    /// Ends the worker, whatever it does. One that hangs in the kernel ends when the kernel lets it.
    pub fn kill(&mut self) {
        match &mut self.peer {
            // Both fail only if it has ended already.
            Peer::Process(child) => drop(child.kill()),
            Peer::Socket(stream) => drop(stream.shutdown(Shutdown::Both)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_answers_and_ends_without_orders() {
        let (mut link, mut answers) = WorkerLink::through("cat").unwrap();
        link.orders().unwrap().write_all(b"order").unwrap();
        let mut answer = [0; 5];
        answers.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"order");
        link.close();
        assert!(link.orders().is_none());
        assert!(link.has_ended_by(Instant::now() + Duration::from_secs(60)));
    }

    #[test]
    fn a_worker_that_does_not_end_is_killed() {
        let words = ["sleep", "1000"].map(OsString::from);
        let (mut link, _answers) = WorkerLink::start(&words).unwrap();
        link.close();
        assert!(!link.has_ended_by(Instant::now()));
        link.kill();
        assert!(link.has_ended_by(Instant::now() + Duration::from_secs(60)));
    }
}
