//! An agent: starts a worker for everyone who knows the token.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::trouble::{Doing, Outcome, Trouble};

/// How long a stranger may take to say the token.
const PATIENCE: Duration = Duration::from_secs(5);

/// Strangers that are listened to at once.
const STRANGERS: usize = 64;

/// Pause after a connection that could not be taken: too many open files, mostly, which takes a while to pass.
const PAUSE: Duration = Duration::from_millis(100);

/// Shorter tokens are guessed, longer ones are no tokens.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=1000;

pub fn read_token(file: &Path) -> Outcome<String> {
    let text = std::fs::read_to_string(file).doing("read the token in", file)?;
    let token = text.trim();
    if !LENGTHS.contains(&token.len()) || token.contains('\n') {
        return Err(Trouble::asked(format!(
            "the token in {} is not one line of {} to {} characters",
            file.display(),
            LENGTHS.start(),
            LENGTHS.end()
        )));
    }
    Ok(token.to_owned())
}

pub fn say_token(stream: &mut TcpStream, token: &str) -> std::io::Result<()> {
    stream.write_all(format!("{token}\n").as_bytes())
}

/// Listens until it is ended, whoever comes. Says where, first.
pub fn listen(address: &str, token: &str, worker: &[OsString]) -> Outcome<Infallible> {
    let bound = TcpListener::bind(address).and_then(|it| Ok((it.local_addr()?, it)));
    let (local, listener) =
        bound.map_err(|error| Trouble::met(format!("cannot listen at {address}: {error}")))?;
    println!("listening on {local}");
    let strangers = Arc::new(());
    loop {
        let (stream, peer) = match listener.accept() {
            Ok(came) => came,
            Err(error) => {
                eprintln!("a connection could not be taken: {error}");
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        let stranger = strangers.clone();
        if Arc::strong_count(&strangers) > STRANGERS + 1 {
            eprintln!("{peer}: {STRANGERS} others are being listened to, and it was sent away");
            continue;
        }
        let (token, worker) = (token.to_owned(), worker.to_vec());
        std::thread::spawn(move || {
            let served = hear(stream, &token, stranger).and_then(|stream| serve(stream, &worker));
            if let Err(error) = served {
                eprintln!("{peer}: {error}");
            }
        });
    }
}

/// Whoever says the token is no stranger any more.
fn hear(stream: TcpStream, token: &str, _stranger: Arc<()>) -> std::io::Result<TcpStream> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    // Nothing else is said before the worker has greeted, so the buffer takes nothing of the worker's.
    let mut said = String::new();
    let most = *LENGTHS.end() as u64 + 1;
    BufReader::new(std::io::Read::take(&stream, most)).read_line(&mut said)?;
    if !same(said.trim_end().as_bytes(), token.as_bytes()) {
        return Err(std::io::Error::other(
            "said another token, and was sent away",
        ));
    }
    stream.set_read_timeout(None)?;
    Ok(stream)
}

fn serve(stream: TcpStream, worker: &[OsString]) -> std::io::Result<()> {
    let (input, output) = (stream.try_clone()?, stream);
    let mut worker = Command::new(&worker[0])
        .args(&worker[1..])
        .stdin(Stdio::from(OwnedFd::from(input)))
        .stdout(Stdio::from(OwnedFd::from(output)))
        .spawn()?;
    worker.wait().map(drop)
}

/// Compares in a time that does not tell where the first difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differ = a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b));
    a.len() == b.len() && differ == 0
}
