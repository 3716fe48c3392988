//! Workers on hosts: orders out, answers in.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::agent;
use super::orders::{Answer, Order, receive, send};
use super::site::Access;
use crate::signals;
use crate::trouble::{Outcome, Trouble};

/// How long logging in on another host may take.
const HELLO: Duration = Duration::from_secs(60);

/// How long workers may take to clean up.
const GOODBYE: Duration = Duration::from_secs(30);

/// How long an agent may take to answer at all.
const CONNECT: Duration = Duration::from_secs(10);

/// How workers are reached.
pub struct Ways {
    /// What starts a worker here.
    pub worker: Vec<OsString>,
    /// A shell's line that starts one on `{host}`.
    pub through: String,
    pub token: Option<String>,
}

pub struct Crew {
    members: Vec<Member>,
    inbox: Receiver<Heard>,
}

struct Member {
    access: Access,
    out: Option<Box<dyn Write>>,
    end: End,
}

enum End {
    Process(Child),
    Socket(TcpStream),
}

enum Heard {
    Answer(usize, Answer),
    /// A worker has ended, or cannot be understood.
    Gone(usize, String),
    Signal(i32),
}

impl Crew {
    /// A worker for each. From now on signals end the run in order. To be called before threads are started.
    pub fn start(wanted: &[Access], ways: &Ways) -> Outcome<Crew> {
        let (sender, inbox) = channel();
        let signalled = sender.clone();
        signals::on_ending(move |signal| {
            let _ = signalled.send(Heard::Signal(signal));
        });
        let mut crew = Crew {
            members: Vec::new(),
            inbox,
        };
        for access in wanted {
            let member = reach(access, ways, crew.members.len(), &sender);
            let member = member.map_err(|error| {
                Trouble::met(format!("no worker could be started on {access}: {error}"))
            })?;
            crew.members.push(member);
        }
        let mut greeted = crew.wait(
            (0..wanted.len()).map(|member| (member, "starting".into())),
            HELLO,
        )?;
        for (access, hello) in wanted.iter().zip(greeted.drain(..)) {
            match hello {
                Answer::Hello(version) if version == env!("CARGO_PKG_VERSION") => {}
                _ => {
                    return Err(Trouble::met(format!(
                        "the worker on {access} is of another version than this program"
                    )));
                }
            }
        }
        Ok(crew)
    }

    /// Gives orders, several to one worker if need be, and waits for all answers: in the order in which was asked.
    pub fn ask(&mut self, orders: Vec<(usize, Order)>, limit: Duration) -> Outcome<Vec<Answer>> {
        let mut asked = Vec::new();
        for (index, order) in orders {
            let member = &mut self.members[index];
            if let Some(out) = &mut member.out {
                send(out, &order).map_err(|error| {
                    Trouble::met(format!("{}: the worker is gone: {error}", member.access))
                })?;
            }
            asked.push((index, format!("{order:?}")));
        }
        self.wait(asked.into_iter(), limit)
    }

    fn wait(
        &mut self,
        asked: impl Iterator<Item = (usize, String)>,
        limit: Duration,
    ) -> Outcome<Vec<Answer>> {
        let mut waiting: Vec<VecDeque<usize>> = vec![VecDeque::new(); self.members.len()];
        let mut what = Vec::new();
        for (index, (member, order)) in asked.enumerate() {
            waiting[member].push_back(index);
            what.push(order);
        }
        let mut answers: Vec<Option<Answer>> = vec![None; what.len()];
        let until = Instant::now() + limit;
        while answers.iter().any(Option::is_none) {
            let left = until.saturating_duration_since(Instant::now());
            match self.inbox.recv_timeout(left) {
                Ok(Heard::Answer(member, Answer::Failed(trouble))) => {
                    return Err(trouble.at(&self.members[member].access));
                }
                Ok(Heard::Answer(member, answer)) => match waiting[member].pop_front() {
                    Some(index) => answers[index] = Some(answer),
                    None => return Err(Trouble::met("a worker answered what nobody asked")),
                },
                Ok(Heard::Gone(member, why)) => {
                    let access = &self.members[member].access;
                    return Err(Trouble::met(format!("the worker on {access}: {why}")));
                }
                Ok(Heard::Signal(signal)) => {
                    return Err(Trouble::met(format!("ended by signal {signal}")));
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let late = waiting.iter().position(|queue| !queue.is_empty());
                    let late =
                        late.map_or("a worker".into(), |m| self.members[m].access.to_string());
                    let order = waiting.iter().flatten().next().map(|index| &what[*index]);
                    return Err(Trouble::met(format!(
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

impl Drop for Crew {
    /// Without orders workers clean up and end; one that cannot is ended.
    fn drop(&mut self) {
        for member in &mut self.members {
            member.out = None;
            if let End::Socket(stream) = &member.end {
                // It fails only if the other side has gone already.
                let _ = stream.shutdown(Shutdown::Write);
            }
        }
        let until = Instant::now() + GOODBYE;
        for member in &mut self.members {
            let End::Process(child) = &mut member.end else {
                continue;
            };
            while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(5));
            }
            if matches!(child.try_wait(), Ok(None)) {
                eprintln!(
                    "the worker on {} did not end within {} s; see what it left",
                    member.access,
                    GOODBYE.as_secs()
                );
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

type Pipes = (Member, Box<dyn Read + Send>);

fn reach(access: &Access, ways: &Ways, number: usize, inbox: &Sender<Heard>) -> io::Result<Member> {
    let (member, input) = match access {
        Access::Here => {
            let mut command = Command::new(&ways.worker[0]);
            command.args(&ways.worker[1..]);
            process(access, command)?
        }
        Access::Through(host) => {
            let mut command = Command::new("sh");
            command.args(["-c", &ways.through.replace("{host}", host)]);
            process(access, command)?
        }
        Access::Agent(address) => socket(access, address, ways.token.as_deref().unwrap_or(""))?,
    };
    let inbox = inbox.clone();
    std::thread::spawn(move || listen(number, input, &inbox));
    Ok(member)
}

fn process(access: &Access, mut command: Command) -> io::Result<Pipes> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(out), Some(input)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("it has no pipes"));
    };
    let member = Member {
        access: access.clone(),
        out: Some(Box::new(out)),
        end: End::Process(child),
    };
    Ok((member, Box::new(input)))
}

fn socket(access: &Access, address: &str, token: &str) -> io::Result<Pipes> {
    let mut found = address.to_socket_addrs()?;
    let found = found
        .next()
        .ok_or_else(|| io::Error::other("no such host"))?;
    let mut stream = TcpStream::connect_timeout(&found, CONNECT)?;
    stream.set_nodelay(true)?;
    agent::say_token(&mut stream, token)?;
    let member = Member {
        access: access.clone(),
        out: Some(Box::new(stream.try_clone()?)),
        end: End::Socket(stream.try_clone()?),
    };
    Ok((member, Box::new(stream)))
}

fn listen(member: usize, input: Box<dyn Read + Send>, inbox: &Sender<Heard>) {
    let mut input = BufReader::new(input);
    loop {
        let heard = match receive(&mut input) {
            Ok(Some(answer)) => Heard::Answer(member, answer),
            Ok(None) => Heard::Gone(member, "it has ended".into()),
            Err(error) => Heard::Gone(member, error.to_string()),
        };
        let last = matches!(heard, Heard::Gone(..));
        if inbox.send(heard).is_err() || last {
            return;
        }
    }
}
