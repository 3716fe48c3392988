//! An agent: starts a worker for everyone who knows the token.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::frame;

/// How long a stranger may take to say the token.
const PATIENCE: Duration = Duration::from_secs(5);

/// Shorter ones are guessed.
pub const TOKEN_MIN: usize = 16;

/// Longest token that is listened to.
pub const TOKEN_MAX: usize = 1024;

/// Strangers that are listened to at once.
const STRANGERS: usize = 64;

/// Pause after a connection that could not be taken: too many open files, mostly, which takes a while to pass.
const PAUSE: Duration = Duration::from_millis(100);

/// Listens until it is ended, whoever comes. Says where, first.
pub fn listen(address: &str, token: &str, itself: &[OsString]) -> io::Result<Infallible> {
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
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
        let (token, itself) = (token.to_string(), itself.to_vec());
        std::thread::spawn(move || {
            let welcomed = hear(stream, &token, stranger).and_then(|stream| serve(stream, &itself));
            if let Err(error) = welcomed {
                eprintln!("{peer}: {error}");
            }
        });
    }
}

/// Whoever says the token is no stranger any more.
fn hear(mut stream: TcpStream, token: &str, _stranger: Arc<()>) -> io::Result<TcpStream> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let said: Option<String> = frame::read_at_most(&mut stream, TOKEN_MAX)?;
    if !said.is_some_and(|said| same(said.as_bytes(), token.as_bytes())) {
        return Err(io::Error::other("said another token, and was sent away"));
    }
    stream.set_read_timeout(None)?;
    Ok(stream)
}

fn serve(stream: TcpStream, itself: &[OsString]) -> io::Result<()> {
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
