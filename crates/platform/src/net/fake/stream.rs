//! The connections of a simulated network: two pipes each, with a bounded capacity.

use super::links::Links;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Capacity of a pipe in bytes: when it is full, the writer must wait.
pub(super) const PIPE: usize = 256 << 10;

/// One end of a connection.
#[derive(Clone)]
pub struct FakeStream {
    pub(super) links: Arc<Links>,
    pub(super) local_host: String,
    pub(super) peer_host: String,
    pub(super) is_local: bool,
    pub(super) duplex: Arc<Duplex>,
    pub(super) is_client: bool,
}

#[derive(Default)]
pub(super) struct Duplex {
    forward: Pipe,
    backward: Pipe,
}

impl Duplex {
    pub fn reset(&self) {
        for pipe in [&self.forward, &self.backward] {
            let mut pipe_state = pipe.state.lock();
            pipe_state.broken = true;
            pipe_state.chunks.clear();
            drop(pipe_state);
            pipe.readable.notify_waiters();
            pipe.writable.notify_waiters();
        }
    }
}

#[derive(Default)]
struct Pipe {
    state: Mutex<PipeState>,
    readable: Notify,
    writable: Notify,
}

#[derive(Default)]
struct PipeState {
    chunks: VecDeque<(Instant, Bytes)>,
    bytes: usize,
    /// The writer has closed it: the reader gets the end of the stream after all bytes.
    closed_by_writer: bool,
    /// The reader has closed it, and reads no more bytes.
    closed_by_reader: bool,
    broken: bool,
}

impl FakeStream {
    fn inwards(&self) -> &Pipe {
        if self.is_client {
            &self.duplex.backward
        } else {
            &self.duplex.forward
        }
    }

    fn outwards(&self) -> &Pipe {
        if self.is_client {
            &self.duplex.forward
        } else {
            &self.duplex.backward
        }
    }

    pub(in crate::net) async fn read(&self, into: &mut BytesMut) -> Result<usize> {
        let pipe = self.inwards();
        loop {
            let mut more = std::pin::pin!(pipe.readable.notified());
            more.as_mut().enable();
            let due = {
                let pipe_state = pipe.state.lock();
                if pipe_state.broken {
                    return Err(Error::from(ErrorKind::ConnectionReset));
                }
                match pipe_state.chunks.front() {
                    _ if pipe_state.closed_by_reader => return Ok(0),
                    Some((due, _)) => Some(*due),
                    // The end of the stream does not pass a partition either.
                    None if pipe_state.closed_by_writer => {
                        match self.links.is_partitioned(&self.peer_host, &self.local_host) {
                            true => Some(Instant::now()),
                            false => return Ok(0),
                        }
                    }
                    None => None,
                }
            };
            match due {
                None => more.await,
                Some(due) if due > Instant::now() => tokio::select! {
                    biased;
                    () = more => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                Some(_) if self.links.is_partitioned(&self.peer_host, &self.local_host) => {
                    tokio::select! {
                        biased;
                        () = more => {}
                        () = self.links.wait_until_healed(&self.peer_host, &self.local_host) => {}
                    }
                }
                Some(_) => return Ok(take(pipe, into)),
            }
        }
    }

    pub(in crate::net) fn try_write(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        let due = Instant::now() + self.links.delay();
        let mut pipe_state = self.outwards().state.lock();
        // The peer reports that it has closed the stream in the opposite direction, which may be partitioned.
        let closed = pipe_state.closed_by_reader
            && !self.links.is_partitioned(&self.peer_host, &self.local_host);
        if pipe_state.broken || pipe_state.closed_by_writer || closed {
            return Err(Error::from(ErrorKind::BrokenPipe));
        }
        if pipe_state.closed_by_reader {
            return Ok(parts.iter().map(|part| part.len()).sum());
        }
        let free = PIPE.saturating_sub(pipe_state.bytes);
        if free == 0 {
            return Err(Error::from(ErrorKind::WouldBlock));
        }
        let mut chunk = BytesMut::new();
        for part in parts {
            let take = part.len().min(free - chunk.len());
            chunk.extend_from_slice(&part[..take]);
        }
        let taken = chunk.len();
        // In order: no chunk arrives before an earlier one.
        let due = pipe_state
            .chunks
            .back()
            .map_or(due, |(last, _)| due.max(*last));
        pipe_state.bytes += taken;
        pipe_state.chunks.push_back((due, chunk.freeze()));
        drop(pipe_state);
        self.outwards().readable.notify_waiters();
        Ok(taken)
    }

    pub(in crate::net) async fn writable(&self) -> Result<()> {
        let pipe = self.outwards();
        loop {
            let mut writable = std::pin::pin!(pipe.writable.notified());
            writable.as_mut().enable();
            {
                let pipe_state = pipe.state.lock();
                if pipe_state.broken
                    || pipe_state.closed_by_writer
                    || pipe_state.closed_by_reader
                    || pipe_state.bytes < PIPE
                {
                    return Ok(());
                }
            }
            writable.await;
        }
    }

    pub(in crate::net) fn close(&self) {
        let mut pipe_state = self.outwards().state.lock();
        pipe_state.closed_by_writer = true;
        drop(pipe_state);
        self.outwards().readable.notify_waiters();
        self.outwards().writable.notify_waiters();
        let mut pipe_state = self.inwards().state.lock();
        pipe_state.closed_by_reader = true;
        pipe_state.chunks.clear();
        pipe_state.bytes = 0;
        drop(pipe_state);
        self.inwards().readable.notify_waiters();
        self.inwards().writable.notify_waiters();
    }

    pub(in crate::net) fn peer_address(&self) -> &str {
        &self.peer_host
    }

    pub(in crate::net) fn local_address(&self) -> &str {
        &self.local_host
    }

    pub(in crate::net) fn is_local(&self) -> bool {
        self.is_local
    }
}

/// Moves bytes that have arrived into the spare capacity of `into`, at least one byte.
fn take(pipe: &Pipe, into: &mut BytesMut) -> usize {
    let mut pipe_state = pipe.state.lock();
    let now = Instant::now();
    let spare = (into.capacity() - into.len()).max(1);
    let mut taken = 0;
    while taken < spare
        && let Some((due, chunk)) = pipe_state.chunks.front_mut()
        && *due <= now
    {
        let some = chunk.split_to(chunk.len().min(spare - taken));
        into.extend_from_slice(&some);
        taken += some.len();
        if chunk.is_empty() {
            pipe_state.chunks.pop_front();
        }
    }
    pipe_state.bytes -= taken;
    drop(pipe_state);
    pipe.writable.notify_waiters();
    taken
}
