//! Orders to workers, and their answers: a line of JSON each.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use gupfs_kit::agent::TOKEN_LENGTHS;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::SuiteError;
use crate::results::Direction;

/// A worker answers each order once, in their order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Wait for connections of this link: [`Answer::Port`].
    Listen(Link),
    /// Make the connections of a link, to `HOST:PORT`.
    Connect(Link, String),
    /// Have all connections of a link that was listened for.
    Accept(usize),
    /// Send and receive over links, which end with it: [`Answer::Rates`] of those that receive.
    Flow(Flow),
    /// Open disks and fill what will be read.
    Open(Vec<Disk>),
    /// Read or write disks: [`Answer::Rates`] of each.
    Stream(Stream),
    /// Make a directory, or find the one that another worker made.
    Enter(EnterDirectory),
    /// Write or read files in it: [`Answer::Parts`].
    Files(Files),
    /// Remove the directory, if it was made here.
    Leave,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The first, unasked: the suite's version.
    Hello(String),
    Done,
    Port(u16),
    /// MB/s.
    Rates(Vec<f64>),
    Parts(Vec<Part>),
    Failed(SuiteError),
}

/// Connections between two hosts. A connection that begins with the key belongs to the link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Link {
    pub number: usize,
    pub key: String,
    pub streams: u16,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Flow {
    /// Numbers of links.
    pub sends: Vec<usize>,
    pub receives: Vec<usize>,
    pub message: u64,
    pub seconds: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Disk {
    /// A block device, or a directory in which a file without a name is made.
    pub path: PathBuf,
    pub size: u64,
    pub record: u64,
    /// Read only what lies there.
    pub read_only: bool,
    pub i_know: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stream {
    /// Which of the disks that were opened.
    pub disks: Vec<usize>,
    pub way: Direction,
    pub streams: u16,
    pub seconds: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EnterDirectory {
    pub below: PathBuf,
    pub name: String,
    pub makes: bool,
    /// Bytes that all workers will write.
    pub room: u64,
}

/// Files of workers, each a thread here.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Files {
    pub way: Direction,
    pub shape: Shape,
    /// Numbers of the workers here, of all workers.
    pub workers: Vec<usize>,
    /// By how many workers further the file or part lies that one reads.
    pub shift: usize,
    pub of: usize,
    pub size: u64,
    pub record: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// A file for each worker.
    Each,
    /// One file, of which each worker has a part.
    One,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Part {
    pub bytes: u64,
    pub seconds: f64,
}

/// No order comes near.
const LINE_MAX: u64 = 1 << 20;

pub fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// None: the other side has closed.
pub fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    if from.take(LINE_MAX).read_line(&mut line)? == 0 {
        return Ok(None);
    }
    if !line.ends_with('\n') {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_str(&line).map(Some).map_err(|_| {
        let said: String = line.trim_end().chars().take(200).collect();
        io::Error::new(
            ErrorKind::InvalidData,
            format!("it said '{said}', which no worker of this version says"),
        )
    })
}

/// Proves the token to an agent: one line, before anything else.
pub fn send_token(stream: &mut TcpStream, token: &str) -> io::Result<()> {
    stream.write_all(format!("{token}\n").as_bytes())
}

/// The token that a connection sends to an agent.
pub fn receive_token(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let longest = *TOKEN_LENGTHS.end() as u64 + 1;
    let mut line = String::new();
    // The buffer takes nothing that is the worker's: nothing is sent behind the token before the worker has greeted.
    BufReader::new(stream.take(longest)).read_line(&mut line)?;
    Ok(Some(line.trim_end().to_owned()))
}

#[test]
fn an_order_comes_as_it_went_and_other_lines_are_shown() {
    let mut wire = Vec::new();
    send(&mut wire, &Order::Accept(3)).unwrap();
    let came = receive::<Order>(&mut wire.as_slice()).unwrap();
    assert!(matches!(came, Some(Order::Accept(3))));
    assert!(receive::<Order>(&mut [].as_slice()).unwrap().is_none());
    let cut = receive::<Order>(&mut &wire[..wire.len() - 1]).unwrap_err();
    assert_eq!(cut.kind(), ErrorKind::UnexpectedEof);
    let motd = receive::<Order>(&mut &b"Welcome to node1!\n"[..]).unwrap_err();
    assert!(motd.to_string().contains("'Welcome to node1!'"), "{motd}");
}
