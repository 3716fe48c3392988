//! # watchdog: aborts the connection of a FUSE server that died or hangs
//!
//! Owns   the loop of the watchdog process.
//! Never  starts that process: the binary does.
//! Enter  at `watch`.
//!
//! A FUSE server that is killed while one of its threads waits inside a notification cannot exit, and neither can the programs
//! that wait for it, until a process aborts the connection. So a second process watches the first: it holds the read end of a
//! pipe whose write end only the server has. A byte is a heartbeat, `CLEAN_END` reports that the mount has ended cleanly, and
//! the end of the pipe without it that the server is gone.
//!
//! The pipe does not end if the server dies with a file of its own mount open: the kernel closes that file before the pipe, and
//! closing it waits for a reply that no thread sends. For a server that may do so, set `WatchdogOptions::heartbeat_timeout` as
//! well.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::{info, warn};

use crate::connection::ConnectionControl;
use crate::{mountinfo, mountpoint};

/// Heartbeat.
pub const HEARTBEAT: u8 = b'.';
/// The mount has ended cleanly; the watchdog has nothing to do.
pub const CLEAN_END: u8 = b'!';

/// What to do when the server is gone.
#[derive(Debug, Clone)]
pub struct WatchdogOptions<'a> {
    /// Passed on by the server: if the watchdog opened it, the number could already belong to a later mount.
    pub control: &'a ConnectionControl,
    /// Mount point to detach after aborting; `None` leaves the aborted mount in place.
    pub detach: Option<&'a Path>,
    /// The server counts as gone after this time without a byte; `None` waits for the end of the pipe only.
    pub heartbeat_timeout: Option<Duration>,
}

/// How the watchdog's watch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchdogOutcome {
    /// The server reported a clean end.
    CleanEnd,
    /// The server ended without `CLEAN_END`; the watchdog aborted the connection.
    ServerDied,
    /// The server sent no byte within the timeout; the watchdog aborted the connection.
    HeartbeatTimeout,
}

/// Waits until the server ends, and aborts its connection if it did not end cleanly.
///
/// # Errors
/// The error of reading the pipe, or of aborting the connection or detaching the mount. The connection may then still exist.
pub fn watch(pipe: impl AsFd, options: WatchdogOptions<'_>) -> io::Result<WatchdogOutcome> {
    let control = options.control;
    let outcome = wait_for_end(pipe, options.heartbeat_timeout)?;
    if outcome == WatchdogOutcome::CleanEnd {
        return Ok(outcome);
    }
    warn!(connection = %control.id(), ?outcome, "the FUSE server is gone; aborting its connection");
    control.abort()?;
    if let Some(path) = options.detach
        && is_mount_of_connection(control, path)?
    {
        match mountpoint::detach(path) {
            Ok(()) => info!(path = %path.display(), "unmounted"),
            // Another process has unmounted it meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(outcome)
}

/// Whether the mount at `path` belongs to this connection: a user may have unmounted it and mounted another file system there,
/// which the watchdog must not detach.
fn is_mount_of_connection(control: &ConnectionControl, path: &Path) -> io::Result<bool> {
    let mounted = mountinfo::mount_at(path)?;
    let has_its_number = mounted.is_some_and(|mount| mount.device.minor == control.id().0);
    // In this order: while the connection exists, no other mount has its number.
    Ok(has_its_number && control.exists()?)
}

fn wait_for_end(
    pipe: impl AsFd,
    heartbeat_timeout: Option<Duration>,
) -> io::Result<WatchdogOutcome> {
    let timeout = heartbeat_timeout
        .map(|heartbeat_timeout| Timespec::try_from(heartbeat_timeout).map_err(io::Error::other))
        .transpose()?;
    let mut bytes = [0; 64];
    loop {
        let ready = match poll(&mut [PollFd::new(&pipe, PollFlags::IN)], timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        if ready == 0 {
            return Ok(WatchdogOutcome::HeartbeatTimeout);
        }
        match rustix::io::read(&pipe, &mut bytes) {
            Ok(0) => return Ok(WatchdogOutcome::ServerDied),
            Ok(count) if bytes[..count].contains(&CLEAN_END) => {
                return Ok(WatchdogOutcome::CleanEnd);
            }
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
    fn heartbeats_end_with_a_clean_end_or_with_the_end_of_the_pipe() {
        let (read, write) = pipe().unwrap();
        rustix::io::write(&write, &[HEARTBEAT, HEARTBEAT, CLEAN_END]).unwrap();
        assert_eq!(
            wait_for_end(&read, None).unwrap(),
            WatchdogOutcome::CleanEnd
        );
        rustix::io::write(&write, &[HEARTBEAT]).unwrap();
        drop(write);
        assert_eq!(
            wait_for_end(&read, None).unwrap(),
            WatchdogOutcome::ServerDied
        );
    }

    #[test]
    fn a_missing_heartbeat_counts_only_with_a_timeout() {
        let (read, write) = pipe().unwrap();
        assert_eq!(
            wait_for_end(&read, Some(Duration::from_millis(20))).unwrap(),
            WatchdogOutcome::HeartbeatTimeout
        );
        rustix::io::write(&write, &[HEARTBEAT]).unwrap();
        assert_eq!(
            wait_for_end(&read, Some(Duration::from_millis(20))).unwrap(),
            WatchdogOutcome::HeartbeatTimeout
        );
    }
}
