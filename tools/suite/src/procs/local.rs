//! A process that the hub started on this host. Its standard input is the socket to the hub.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::frame::{self, Kind};
use super::{Procs, Transport};
use crate::error::{SuiteError, SuiteResult};

/// Which process this is: `RANK/SIZE`.
pub const PROCESS_VARIABLE: &str = "GUPFS_SUITE_PROCESS";

struct Local {
    rank: usize,
    size: usize,
    hub: UnixStream,
}

/// This process's place among those of the one that started it.
pub fn join(place: &str) -> SuiteResult<Procs> {
    let parsed = place
        .split_once('/')
        .and_then(|(rank, size)| Some((rank.parse().ok()?, size.parse().ok()?)));
    let Some((rank, size)) = parsed else {
        return Err(SuiteError::usage(format!(
            "{PROCESS_VARIABLE}={place} is for processes that this program starts itself; unset it"
        )));
    };
    // If the hub is killed, no other process tells us.
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(|error| lost(error.into()))?;
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(lost)?;
    let hub = UnixStream::from(socket);
    Ok(Procs::new(Local { rank, size, hub }))
}

fn lost(error: io::Error) -> SuiteError {
    SuiteError::failed(format!("the other processes cannot be reached: {error}"))
}

impl Local {
    fn tell(&mut self, kind: Kind, bytes: &[u8]) -> SuiteResult<()> {
        frame::send(&mut self.hub, kind, bytes).map_err(lost)
    }

    fn ask(&mut self, kind: Kind, bytes: &[u8]) -> SuiteResult<Vec<u8>> {
        self.tell(kind, bytes)?;
        loop {
            match frame::receive(&mut self.hub).map_err(lost)? {
                (Kind::Go, bytes) => return Ok(bytes),
                // A process that waits for the others has no work to stop, and gets the error in the end.
                (Kind::Alarm, _) => {}
                (other, _) => unreachable!("the hub answers Go, and not {other:?}"),
            }
        }
    }
}

impl Transport for Local {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn barrier(&mut self) -> SuiteResult<()> {
        self.ask(Kind::Barrier, &[]).map(drop)
    }

    fn broadcast(&mut self, bytes: Vec<u8>) -> SuiteResult<Vec<u8>> {
        let bytes = if self.rank == 0 { bytes } else { Vec::new() };
        self.ask(Kind::Broadcast, &bytes)
    }

    fn gather(&mut self, bytes: Vec<u8>) -> SuiteResult<Option<Vec<Vec<u8>>>> {
        let all = self.ask(Kind::Gather, &bytes)?;
        if self.rank > 0 {
            return Ok(None);
        }
        Ok(Some(
            frame::split(&all).expect("the hub joins whole pieces"),
        ))
    }

    fn alarm(&mut self) -> SuiteResult<()> {
        self.tell(Kind::Alarm, &[])
    }

    fn alarmed(&mut self) -> SuiteResult<bool> {
        let mut hub = [PollFd::new(&self.hub, PollFlags::IN)];
        let news = loop {
            match poll(&mut hub, Some(&Timespec::default())) {
                Err(Errno::INTR) => {}
                news => break news.map_err(|error| lost(error.into()))?,
            }
        };
        if news == 0 {
            return Ok(false);
        }
        match frame::receive(&mut self.hub).map_err(lost)? {
            (Kind::Alarm, _) => Ok(true),
            (other, _) => unreachable!("nothing was asked that {other:?} would answer"),
        }
    }

    fn remember(&mut self, path: &Path) -> SuiteResult<()> {
        self.tell(Kind::Remember, path.as_os_str().as_bytes())
    }

    fn forget(&mut self) -> SuiteResult<()> {
        self.tell(Kind::Forget, &[])
    }

    fn finish(&mut self, code: u8) -> SuiteResult<()> {
        self.ask(Kind::Finish, &[code]).map(drop)
    }
}
