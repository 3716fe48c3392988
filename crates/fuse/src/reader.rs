//! # reader: the requests of a mount, for an event loop of the caller's
//!
//! Owns   one lane without a thread, from the mount to the connection's end.
//! Never  waits.
//! Enter  at `Reader::turn`, when the descriptor of `Reader::to_watch` is readable.

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tracing::error;

use crate::lane::Lane;
use crate::session::{Life, leave};
use crate::{Errno, FileSystem};

/// Takes requests and begins their handlers, on the thread that calls it: what a handler waits for should wake the same loop.
/// Programs wait until the loop turns again, so it must not wait for them, nor for another request of this mount.
///
/// Dropping it while the mount lives aborts the mount, so that programs get errors and do not wait for ever.
pub struct Reader {
    lane: Box<dyn Turns>,
    life: Arc<Life>,
    over: bool,
}

/// What a turn brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Nothing was there.
    Idle,
    /// Something, and there is no more: until the descriptor is readable again.
    Dry,
    /// Something, and there may be more.
    More,
    /// The connection has ended: drop the reader.
    Over,
}

trait Turns: Send {
    fn turn(&self, most: usize) -> Result<Turn, Errno>;
    fn to_watch(&self) -> io::Result<OwnedFd>;
    fn leave(&self, life: &Life, failed: bool);
}

impl<F: FileSystem> Turns for Arc<Lane<F>> {
    fn turn(&self, most: usize) -> Result<Turn, Errno> {
        Lane::turn(self, most)
    }

    fn to_watch(&self) -> io::Result<OwnedFd> {
        self.desk.device.to_watch()
    }

    fn leave(&self, life: &Life, failed: bool) {
        leave(self, life, failed);
    }
}

impl Reader {
    pub(crate) fn new<F: FileSystem>(lane: Arc<Lane<F>>, life: Arc<Life>) -> Reader {
        Reader {
            lane: Box::new(lane),
            life,
            over: false,
        }
    }

    /// A descriptor that is readable when requests wait, and has an error when the connection has ended: look for both.
    /// Reading it is the reader's affair.
    pub fn to_watch(&self) -> io::Result<OwnedFd> {
        self.lane.to_watch()
    }

    /// Begins at most `most` of the requests that wait.
    pub fn turn(&mut self, most: usize) -> Turn {
        // As with threads: a panic that comes here is a mistake of the door's.
        let turned = catch_unwind(AssertUnwindSafe(|| self.lane.turn(most)));
        match turned {
            Ok(Ok(Turn::Over)) => self.over = true,
            Ok(Ok(turn)) => return turn,
            Ok(Err(errno)) => error!(%errno, "a reader cannot go on"),
            Err(_) => error!("a reader panicked and cannot go on"),
        }
        Turn::Over
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.lane.leave(&self.life, !self.over);
    }
}
