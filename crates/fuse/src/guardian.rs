//! # guardian: cutting the connection of a server that died or froze
//!
//! Owns   the loop of the guarding process.
//! Never  starts that process: the binary does.
//! Enter  at `watch`.
//!
//! A server that is killed while one of its threads waits inside a notification cannot die, and neither can the
//! programs that wait for it, until somebody aborts the connection. So a second process watches the first: it holds
//! the reading end of a pipe whose writing end only the server has. Bytes are signs of life, `FAREWELL` says that the
//! mount has ended well, and the end of the pipe without it that the server is gone.
//!
//! The end of the pipe does not come if the server dies with a file of its own mount open: closing that file waits for
//! an answer that nobody gives, before the pipe is closed. A server that may do so needs `Orders::silence` as well.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::{info, warn};

use crate::connection::Control;
use crate::{mountinfo, mountpoint};

/// A sign of life.
pub const ALIVE: u8 = b'.';
/// The mount has ended well; there is nothing to do.
pub const FAREWELL: u8 = b'!';

/// What to do when the server is gone.
#[derive(Debug, Clone)]
pub struct Orders<'a> {
    /// Handed over by the server: opened here, the number might be a later mount's already.
    pub control: &'a Control,
    /// Unmount here after aborting, lazily; `None` leaves the dead mount for somebody to find.
    pub detach: Option<&'a Path>,
    /// Without any byte for so long the server counts as gone; `None` waits for the end of the pipe only.
    pub silence: Option<Duration>,
}

/// How the watch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// The server said farewell.
    EndedWell,
    /// The server ended without a word; the connection was aborted.
    Died,
    /// The server was silent for too long; the connection was aborted.
    Silent,
}

/// Waits until the server ends, however it does, and aborts its connection if it did not end well.
pub fn watch(pipe: impl AsFd, orders: Orders<'_>) -> io::Result<Watched> {
    let control = orders.control;
    let watched = wait(pipe, orders.silence)?;
    if watched == Watched::EndedWell {
        return Ok(watched);
    }
    warn!(connection = %control.id(), ?watched, "the server is gone; aborting its connection");
    control.abort()?;
    if let Some(path) = orders.detach
        && is_its_mount(control, path)?
    {
        match mountpoint::detach(path) {
            Ok(()) => info!(path = %path.display(), "unmounted"),
            // Somebody was faster.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(watched)
}

/// Somebody may have unmounted it, and even mounted another there: that one is not ours to take away.
fn is_its_mount(control: &Control, path: &Path) -> io::Result<bool> {
    let mounted = mountinfo::at(path)?;
    let bears_its_number = mounted.is_some_and(|mount| mount.device.minor == control.id().0);
    // In this order: while the connection exists, nobody else has its number.
    Ok(bears_its_number && control.exists()?)
}

fn wait(pipe: impl AsFd, silence: Option<Duration>) -> io::Result<Watched> {
    let timeout = silence
        .map(|silence| Timespec::try_from(silence).map_err(io::Error::other))
        .transpose()?;
    let mut bytes = [0; 64];
    loop {
        let ready = match poll(&mut [PollFd::new(&pipe, PollFlags::IN)], timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        if ready == 0 {
            return Ok(Watched::Silent);
        }
        match rustix::io::read(&pipe, &mut bytes) {
            Ok(0) => return Ok(Watched::Died),
            Ok(count) if bytes[..count].contains(&FAREWELL) => return Ok(Watched::EndedWell),
            Ok(_) | Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::pipe;

    #[test]
    fn signs_of_life_end_in_a_farewell_or_in_the_end_of_the_pipe() {
        let (read, write) = pipe().unwrap();
        rustix::io::write(&write, &[ALIVE, ALIVE, FAREWELL]).unwrap();
        assert_eq!(wait(&read, None).unwrap(), Watched::EndedWell);
        rustix::io::write(&write, &[ALIVE]).unwrap();
        drop(write);
        assert_eq!(wait(&read, None).unwrap(), Watched::Died);
    }

    #[test]
    fn silence_counts_only_when_asked_for() {
        let (read, write) = pipe().unwrap();
        assert_eq!(
            wait(&read, Some(Duration::from_millis(20))).unwrap(),
            Watched::Silent
        );
        rustix::io::write(&write, &[ALIVE]).unwrap();
        assert_eq!(
            wait(&read, Some(Duration::from_millis(20))).unwrap(),
            Watched::Silent
        );
    }
}
