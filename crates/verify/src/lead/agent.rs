//! An agent: starts a worker for everyone who knows the token.

use std::ffi::OsString;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::frame;

/// How long a stranger may take to say the token.
const PATIENCE: Duration = Duration::from_secs(5);

/// Shorter ones are guessed.
pub const TOKEN_MIN: usize = 16;

/// Listens until it is ended. Says where, first.
pub fn listen(address: &str, token: &str, itself: &[OsString]) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        let peer = stream.peer_addr()?;
        let (token, itself) = (token.to_string(), itself.to_vec());
        std::thread::spawn(move || {
            if let Err(error) = welcome(stream, &token, &itself) {
                eprintln!("{peer}: {error}");
            }
        });
    }
    Ok(())
}

fn welcome(mut stream: TcpStream, token: &str, itself: &[OsString]) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let said: Option<String> = frame::read(&mut stream)?;
    if !said.is_some_and(|said| same(said.as_bytes(), token.as_bytes())) {
        return Err(io::Error::other("said another token, and was sent away"));
    }
    stream.set_read_timeout(None)?;
    let (input, output) = (stream.try_clone()?, stream);
    let mut worker = Command::new(&itself[0])
        .args(&itself[1..])
        .stdin(Stdio::from(OwnedFd::from(input)))
        .stdout(Stdio::from(OwnedFd::from(output)))
        .spawn()?;
    worker.wait().map(drop)
}

/// Compares in a time that does not tell where the first difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |acc, (a, b)| acc | (a ^ b)) == 0
}
