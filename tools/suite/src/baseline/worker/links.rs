//! TCP streams between this host and others.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::super::orders::{Flow, Link};
use super::{joined, wanted};
use crate::error::{SuiteError, SuiteResult};
use crate::rng::Rng;
use crate::size::MB;

/// How long connections may take, and how long a stream may stand still.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pause between two looks for a connection.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Bytes of one read of a receiver.
const RECEIVED: usize = 256 << 10;

/// The share of the time that is not counted: connections find their speed, and hosts begin at slightly different moments.
const UNCOUNTED: f64 = 0.25;

#[derive(Default)]
pub struct Links {
    awaited: BTreeMap<usize, JoinHandle<SuiteResult<Vec<TcpStream>>>>,
    open: BTreeMap<usize, Vec<TcpStream>>,
}

impl Links {
    /// The port at which the link's connections are taken.
    pub fn listen(&mut self, link: Link) -> SuiteResult<u16> {
        let listener = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"));
        let listener = listener.map_err(|error| met("listen", &error))?;
        let port = listener
            .local_addr()
            .map_err(|error| met("listen", &error))?;
        listener
            .set_nonblocking(true)
            .map_err(|error| met("listen", &error))?;
        let number = link.number;
        let taker = std::thread::spawn(move || take(&listener, &link));
        self.awaited.insert(number, taker);
        Ok(port.port())
    }

    pub fn accept(&mut self, number: usize) -> SuiteResult<()> {
        let taker = self.awaited.remove(&number);
        let taker = taker.ok_or_else(|| SuiteError::failed("nobody listened for this link"))?;
        let streams = taker.join();
        let streams = streams.map_err(|_| SuiteError::failed("a thread panicked"))??;
        self.open.insert(number, streams);
        Ok(())
    }

    pub fn connect(&mut self, link: &Link, to: &str) -> SuiteResult<()> {
        let streams = (0..link.streams).map(|_| reach(to, &link.key));
        let streams: Result<Vec<_>, _> = streams.collect();
        let streams = streams.map_err(|error| met(&format!("connect to {to}"), &error))?;
        self.open.insert(link.number, streams);
        Ok(())
    }

    /// MB/s of each link that receives, in the order asked for.
    pub fn flow(&mut self, flow: &Flow) -> SuiteResult<Vec<f64>> {
        let sends = self.of(&flow.sends)?;
        let receives = self.of(&flow.receives)?;
        let mut message = vec![0; flow.message as usize];
        Rng::new(flow.message).fill(&mut message);
        let begun = Instant::now();
        let bytes = std::thread::scope(|scope| {
            let message = &message;
            let senders = sends
                .iter()
                .flatten()
                .map(|stream| scope.spawn(move || send(stream, message, begun, flow.seconds)));
            let senders: Vec<_> = senders.collect();
            let receivers = receives
                .iter()
                .flatten()
                .map(|stream| scope.spawn(move || receive(stream, begun, flow.seconds)));
            let received = joined(receivers.collect());
            joined(senders).and(received)
        })?;
        let counted = flow.seconds * (1.0 - UNCOUNTED);
        let mut bytes = bytes.into_iter();
        let of_link =
            |streams: &Vec<TcpStream>| -> u64 { bytes.by_ref().take(streams.len()).sum() };
        let sums: Vec<u64> = receives.iter().map(of_link).collect();
        Ok(sums
            .into_iter()
            .map(|sum| sum as f64 / MB / counted)
            .collect())
    }

    fn of(&mut self, numbers: &[usize]) -> SuiteResult<Vec<Vec<TcpStream>>> {
        let streams = |number| {
            let streams = self.open.remove(number);
            streams.ok_or_else(|| SuiteError::failed("a link is not connected"))
        };
        numbers.iter().map(streams).collect()
    }
}

fn met(what: &str, error: &std::io::Error) -> SuiteError {
    SuiteError::failed(format!("cannot {what}: {error}"))
}

fn take(listener: &TcpListener, link: &Link) -> SuiteResult<Vec<TcpStream>> {
    let until = Instant::now() + PATIENCE;
    let mut streams = Vec::new();
    while streams.len() < usize::from(link.streams) {
        wanted()?;
        match listener.accept() {
            Ok((stream, _)) => streams.extend(welcome(stream, &link.key)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if Instant::now() >= until {
                    return Err(SuiteError::failed(format!(
                        "{} of {} connections came within {} s: does a firewall keep them away?",
                        streams.len(),
                        link.streams,
                        PATIENCE.as_secs()
                    )));
                }
                std::thread::sleep(LOOK_AGAIN);
            }
            Err(error) => return Err(met("take a connection", &error)),
        }
    }
    Ok(streams)
}

/// The stream, if it begins with the key. Strangers are sent away.
fn welcome(mut stream: TcpStream, key: &str) -> Option<TcpStream> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    let mut said = vec![0; key.len()];
    stream.read_exact(&mut said).ok()?;
    (said == key.as_bytes()).then_some(stream)
}

fn reach(to: &str, key: &str) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::other("no such host");
    for address in to.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(mut stream) => {
                stream.write_all(key.as_bytes())?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Sends somewhat longer than is counted: the other side may have begun a little later.
fn send(mut stream: &TcpStream, message: &[u8], begun: Instant, seconds: f64) -> SuiteResult<u64> {
    let until = begun + Duration::from_secs_f64(seconds * (1.0 + UNCOUNTED));
    let sent = stream.set_write_timeout(Some(PATIENCE)).and_then(|()| {
        while Instant::now() < until && wanted().is_ok() {
            stream.write_all(message)?;
        }
        stream.shutdown(Shutdown::Write)
    });
    sent.map(|()| 0)
        .map_err(|error| met("send", &stalled(error)))
}

fn receive(mut stream: &TcpStream, begun: Instant, seconds: f64) -> SuiteResult<u64> {
    let from = begun + Duration::from_secs_f64(seconds * UNCOUNTED);
    let until = begun + Duration::from_secs_f64(seconds);
    let mut buffer = vec![0; RECEIVED];
    let mut bytes = 0;
    let mut read = || -> std::io::Result<u64> {
        stream.set_read_timeout(Some(PATIENCE))?;
        loop {
            let read = stream.read(&mut buffer)?;
            if read == 0 {
                return Ok(bytes);
            }
            let now = Instant::now();
            if now >= from && now < until {
                bytes += read as u64;
            }
        }
    };
    read().map_err(|error| met("receive", &stalled(error)))
}

fn stalled(error: std::io::Error) -> std::io::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => std::io::Error::other(format!(
            "the stream stood still for {} s",
            PATIENCE.as_secs()
        )),
        _ => error,
    }
}

#[test]
fn what_is_sent_over_a_link_is_counted_where_it_arrives() {
    let link = |streams| Link {
        number: 7,
        key: "0123456789abcdef".into(),
        streams,
    };
    let (mut server, mut client) = (Links::default(), Links::default());
    let port = server.listen(link(2)).unwrap();
    let to = format!("127.0.0.1:{port}");
    // A stranger is not counted among the connections.
    TcpStream::connect(&to)
        .unwrap()
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .unwrap();
    client.connect(&link(2), &to).unwrap();
    server.accept(7).unwrap();
    let flow = |sends, receives| Flow {
        sends,
        receives,
        message: 1000,
        seconds: 0.2,
    };
    let sender = std::thread::spawn(move || client.flow(&flow(vec![7], vec![])));
    let rates = server.flow(&flow(vec![], vec![7])).unwrap();
    assert!(rates.len() == 1 && rates[0] > 1.0, "{rates:?}");
    assert_eq!(sender.join().unwrap().unwrap(), [0.0; 0]);
    assert!(server.flow(&flow(vec![], vec![7])).is_err());
}
