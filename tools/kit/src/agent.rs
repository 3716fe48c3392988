//! An agent: a process that listens on a host and starts a worker for each connection that proves a token.
//!
//! How a connection sends the token belongs to the protocol of the tool, so the tool passes the function that reads it.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// A shorter token can be guessed; a longer one is a wrong file. Read limits of the tools' protocols lie above the longest.
pub const TOKEN_LENGTHS: RangeInclusive<usize> = 16..=1015;

/// How long a connection may take to prove the token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections that have not proved the token yet, at once.
const UNPROVED_MAX: usize = 64;

/// Pause after a failed accept(2): too many open files, mostly, which takes a while to pass.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The flag that names the token's file, for both sides.
#[derive(clap::Args, Clone, Debug)]
pub struct TokenFile {
    /// The file with the token that agents ask for, 16 characters at least
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Why a token file cannot be used.
#[derive(Debug)]
pub enum TokenError {
    Unreadable(PathBuf, io::Error),
    /// It is not one line of a length in [`TOKEN_LENGTHS`].
    Unsuitable(PathBuf),
}

impl TokenFile {
    /// The token, if the flag was given.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or its text is no token.
    pub fn read(&self) -> Result<Option<String>, TokenError> {
        let Some(file) = &self.token_file else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(file)
            .map_err(|error| TokenError::Unreadable(file.clone(), error))?;
        let token = text.trim();
        match TOKEN_LENGTHS.contains(&token.len()) && !token.contains('\n') {
            true => Ok(Some(token.to_owned())),
            false => Err(TokenError::Unsuitable(file.clone())),
        }
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            TokenError::Unreadable(file, error) => {
                write!(f, "cannot read the token in {}: {error}", file.display())
            }
            TokenError::Unsuitable(file) => write!(
                f,
                "the token in {} is not one line of {} to {} characters",
                file.display(),
                TOKEN_LENGTHS.start(),
                TOKEN_LENGTHS.end()
            ),
        }
    }
}

impl std::error::Error for TokenError {}

/// What an agent knows.
#[derive(Clone)]
pub struct Agent {
    pub token: String,
    /// The command that starts a worker, with the connection as its standard input and output.
    pub worker: Vec<OsString>,
    /// Reads the token that a connection sends, and nothing behind it. None if the connection closed before.
    pub receive_token: fn(&mut TcpStream) -> io::Result<Option<String>>,
}

/// Serves connections until the process ends. Prints the address first.
///
/// # Errors
///
/// The address cannot be listened at. What happens to one connection is printed, and the next is served.
pub fn listen(address: &str, agent: &Agent) -> io::Result<Infallible> {
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    let unproved = Arc::new(());
    loop {
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                eprintln!("a connection could not be taken: {error}");
                std::thread::sleep(ACCEPT_RETRY);
                continue;
            }
        };
        let slot = unproved.clone();
        if Arc::strong_count(&unproved) > UNPROVED_MAX + 1 {
            eprintln!("{peer}: {UNPROVED_MAX} others are being listened to, and it was sent away");
            continue;
        }
        let agent = agent.clone();
        std::thread::spawn(move || agent.serve(stream, peer, slot));
    }
}

impl Agent {
    /// One connection. Its slot is free for another once it has proved the token.
    fn serve(&self, stream: TcpStream, peer: SocketAddr, slot: Arc<()>) {
        let proved = self.check_token(stream);
        drop(slot);
        if let Err(error) = proved.and_then(|stream| self.run_worker(stream)) {
            eprintln!("{peer}: {error}");
        }
    }

    fn check_token(&self, mut stream: TcpStream) -> io::Result<TcpStream> {
        stream.set_read_timeout(Some(TOKEN_TIMEOUT))?;
        stream.set_nodelay(true)?;
        let received = (self.receive_token)(&mut stream)?;
        if !received.is_some_and(|token| equal(token.as_bytes(), self.token.as_bytes())) {
            return Err(io::Error::other("said another token, and was sent away"));
        }
        stream.set_read_timeout(None)?;
        Ok(stream)
    }

    fn run_worker(&self, stream: TcpStream) -> io::Result<()> {
        let (input, output) = (stream.try_clone()?, stream);
        let mut worker = Command::new(&self.worker[0])
            .args(&self.worker[1..])
            .stdin(Stdio::from(OwnedFd::from(input)))
            .stdout(Stdio::from(OwnedFd::from(output)))
            .spawn()?;
        worker.wait().map(drop)
    }
}

/// Takes a time that does not depend on where the first difference is.
fn equal(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |found, (a, b)| found | (a ^ b));
    a.len() == b.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_line_of_sixteen_characters_or_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let token_file = Some(path.clone());
            TokenFile { token_file }.read()
        };
        let sixteen = "0123456789abcdef";
        assert_eq!(read("0123456789abcdef\n").unwrap().unwrap(), sixteen);
        for wrong in ["short", &format!("{sixteen}\n{sixteen}"), &"x".repeat(1016)] {
            assert!(matches!(read(wrong), Err(TokenError::Unsuitable(_))));
        }
        std::fs::remove_file(&path).unwrap();
        let token_file = Some(path.clone());
        let gone = TokenFile { token_file }.read();
        assert!(matches!(gone, Err(TokenError::Unreadable(..))));
        assert_eq!(TokenFile { token_file: None }.read().unwrap(), None);
    }

    #[test]
    fn tokens_are_equal_only_whole() {
        assert!(equal(b"abc", b"abc"));
        for other in [&b"ab"[..], b"abcd", b"abd", b""] {
            assert!(!equal(b"abc", other));
        }
    }
}
