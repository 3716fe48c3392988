//! One ring, and the kernel's queues that it serves.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use gupfs_uring::ThreadRing;
use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{cqueue, opcode, squeue};
use tracing::warn;

use super::entry::{IncomingRequest, RingEntry};
use super::inbox::RingInbox;
use super::layout::{COMMIT_AND_FETCH, IOVECS, REGISTER, command};
use super::memory::EntryMemory;
use super::retry_budget::RetryBudget;
use super::uring::{Uring, build, is_disconnected, with_length};
use crate::limits::{
    INITIAL_RING_ENTRIES, KEPT_ENTRY_BYTES, KEPT_RING_ENTRIES, RING_ENTRIES_MAX, RING_IDLE,
    SUBMISSION_QUEUE_SIZE,
};

/// The completion of a command carries the number of its entry; this value marks the inbox's descriptor.
const WAKE: u64 = u64::MAX;

/// Marks the completion of a file read; the lower bits are the read's number.
const READ: u64 = 1 << 32;

/// The fuse device is the only registered file.
const DEVICE: Fixed = Fixed(0);

/// A ring and the entries of its queues.
///
/// Field order is drop order: the ring is closed before the entries' memory is unmapped. (The kernel's remaining work for the
/// ring does not touch that memory: it writes to an entry only from this thread, while the thread requests completions.)
pub(crate) struct Ring {
    uring: Uring,
    entries: Vec<Arc<RingEntry>>,
    inbox: Arc<RingInbox>,
    /// The queues, with the number of their entries and how many of these this process has.
    queues: Vec<QueueState>,
    payload: usize,
    /// Number of entries made at the start; the ring can work without the later ones.
    initial_entries: usize,
    /// Which entries the kernel has.
    with_kernel: Vec<bool>,
    arrived: Vec<cqueue::Entry>,
    replied: Vec<u32>,
    /// The kernel returned an entry because the connection has ended.
    disconnected: bool,
    idle: bool,
    retry_budget: RetryBudget,
    reads: ThreadRing,
}

#[derive(Default)]
struct QueueState {
    number: u16,
    entries: usize,
    in_use: usize,
    /// The queue gets no more entries.
    full: bool,
}

impl Ring {
    /// Creates a ring of the calling thread for these queues of the connection of `device`. The kernel has no entry yet.
    pub fn new(
        device: BorrowedFd<'_>,
        inbox: Arc<RingInbox>,
        queues: &[u16],
        payload: usize,
    ) -> io::Result<Ring> {
        let uring = build(SUBMISSION_QUEUE_SIZE)?;
        uring.submitter().register_files(&[device.as_raw_fd()])?;
        inbox.bind_to_this_thread();
        let queues = queues.iter().map(|number| QueueState {
            number: *number,
            ..QueueState::default()
        });
        let queues = queues.collect();
        let mut ring = Ring {
            uring,
            entries: Vec::new(),
            inbox,
            queues,
            payload,
            initial_entries: 0,
            with_kernel: Vec::new(),
            arrived: Vec::new(),
            replied: Vec::new(),
            disconnected: false,
            idle: false,
            retry_budget: RetryBudget::default(),
            reads: ThreadRing::install(),
        };
        for queue in 0..ring.queues.len() {
            ring.make_entries(queue, INITIAL_RING_ENTRIES)?;
        }
        ring.initial_entries = ring.entries.len();
        ring.watch_inbox()?;
        Ok(ring)
    }

    /// Registers the initial entries of every queue. Requests arrive once all queues of the connection have some.
    pub fn register(&mut self) -> io::Result<()> {
        for number in 0..self.initial_entries {
            self.register_entry(number)?;
        }
        self.submit()
    }

    /// Adds `count` entries to a queue.
    fn make_entries(&mut self, queue: usize, count: usize) -> io::Result<()> {
        for memory in EntryMemory::map(count, self.payload)? {
            let number = self.entries.len() as u32;
            let queue_number = self.queues[queue].number;
            let entry = RingEntry::new(memory, self.inbox.clone(), queue_number, number);
            self.entries.push(Arc::new(entry));
            self.with_kernel.push(false);
        }
        self.queues[queue].entries += count;
        Ok(())
    }

    /// Doubles the entries of a queue; if that fails, the queue continues with those that it has.
    fn grow(&mut self, queue: usize) -> io::Result<()> {
        let (first, now) = (self.entries.len(), self.queues[queue].entries);
        let more = now.min(RING_ENTRIES_MAX - now);
        if let Err(error) = self.make_entries(queue, more) {
            warn!(%error, entries = now, "cannot allocate more ring entries; continuing with fewer requests in flight");
            self.queues[queue].full = true;
            return Ok(());
        }
        (first..self.entries.len()).try_for_each(|number| self.register_entry(number))
    }

    /// Registers a new entry with the kernel.
    fn register_entry(&mut self, number: usize) -> io::Result<()> {
        let entry = &self.entries[number];
        let command = opcode::UringCmd80::new(DEVICE, REGISTER)
            .cmd(command(0, entry.queue))
            .addr(Some(entry.vectors.as_ptr() as u64))
            .build()
            .user_data(number as u64);
        // SAFETY: the command points to the entry's vectors and the memory in them, which live in `self.entries` until the ring
        // is closed. The kernel has the entry from here on: no reference to it exists yet.
        unsafe { self.push(&with_length(command, IOVECS)) }?;
        self.with_kernel[number] = true;
        Ok(())
    }

    /// Returns replied entries to the kernel with their replies, and submits file reads that handlers requested.
    fn commit_replies(&mut self, woken: bool) -> io::Result<()> {
        let mut replied = std::mem::take(&mut self.replied);
        self.inbox.collect(woken, &mut replied);
        for number in replied.drain(..) {
            let entry = &self.entries[number as usize];
            let command = opcode::UringCmd80::new(DEVICE, COMMIT_AND_FETCH)
                .cmd(command(entry.commit_id(), entry.queue))
                .build()
                .user_data(u64::from(number));
            let queue_number = entry.queue;
            // SAFETY: the command points to no memory. Its entry was replied to, so no reference to its bytes exists, and none
            // can be created before the kernel completes this command.
            unsafe { self.push(&command) }?;
            self.with_kernel[number as usize] = true;
            if let Some(queue) = self
                .queues
                .iter_mut()
                .find(|queue| queue.number == queue_number)
            {
                queue.in_use -= 1;
            }
        }
        self.replied = replied;
        while let Some((number, command)) = self.reads.next_to_submit() {
            let command = command.user_data(READ | number as u64);
            // SAFETY: `self.reads` keeps the memory that the command points to until its completion is reported.
            unsafe { self.push(&command.into()) }?;
        }
        Ok(())
    }

    /// # Safety
    /// The memory that `entry` points to lives until the command is completed or the ring is closed.
    unsafe fn push(&mut self, entry: &squeue::Entry128) -> io::Result<()> {
        // SAFETY: the caller guarantees it, here and below.
        if unsafe { self.uring.submission().push(entry) }.is_ok() {
            return Ok(());
        }
        self.submit()?;
        let pushed = unsafe { self.uring.submission().push(entry) };
        pushed.map_err(|_| io::Error::other("the ring's submission queue is full after a submit"))
    }

    fn submit(&mut self) -> io::Result<()> {
        loop {
            match self.uring.submit() {
                Ok(_) => {
                    self.retry_budget.succeeded();
                    return Ok(());
                }
                Err(error) => thread::sleep(self.retry_budget.pause_after(error)?),
            }
        }
    }

    fn watch_inbox(&mut self) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(self.inbox.descriptor()), libc::POLLIN as u32)
            .multi(true)
            .build()
            .user_data(WAKE);
        // SAFETY: the command points to no memory; the descriptor is open as long as `inbox`.
        unsafe { self.push(&poll.into()) }
    }

    /// Runs woken handlers, submits written replies, waits for completions, and passes each new request to `handle`. `run_next`
    /// polls one woken handler and returns how many are left; None if there was none. Returns false when the connection has
    /// ended.
    pub fn run_once(
        &mut self,
        mut run_next: impl FnMut() -> Option<usize>,
        mut handle: impl FnMut(IncomingRequest),
    ) -> io::Result<bool> {
        let mut woken = run_next();
        // Handlers that wake each other repeatedly run between requests, so they cannot block them.
        for _ in 0..woken.unwrap_or(0) {
            self.commit_replies(false)?;
            self.submit()?;
            woken = run_next();
        }
        self.commit_replies(false)?;
        self.wait(woken.is_some_and(|left| left > 0))?;
        let mut arrived = std::mem::take(&mut self.arrived);
        arrived.extend(self.uring.completion());
        let mut left = arrived.len();
        for completion in arrived.drain(..) {
            left -= 1;
            if completion.user_data() == WAKE {
                if !cqueue::more(completion.flags()) {
                    self.watch_inbox()?;
                }
                self.commit_replies(true)?;
            } else if completion.user_data() & READ != 0 {
                let number = (completion.user_data() - READ) as usize;
                // SAFETY: this is the completion of the command with this number.
                unsafe { self.reads.complete(number, completion.result()) };
            } else {
                self.handle_completion(
                    completion.user_data() as usize,
                    completion.result(),
                    &mut handle,
                )?;
            }
            // The reply to one request is not delayed by the handling of the next.
            if left > 0 {
                self.commit_replies(false)?;
                self.submit()?;
            }
        }
        self.arrived = arrived;
        let ended =
            (self.disconnected && !self.with_kernel.contains(&true)) || self.inbox.is_closed();
        Ok(!ended)
    }

    fn handle_completion(
        &mut self,
        number: usize,
        result: i32,
        handle: &mut impl FnMut(IncomingRequest),
    ) -> io::Result<()> {
        self.with_kernel[number] = false;
        let queue_number = self.entries[number].queue;
        let queue = self
            .queues
            .iter()
            .position(|queue| queue.number == queue_number);
        if result < 0 {
            return match is_disconnected(result) {
                true => {
                    self.disconnected = true;
                    Ok(())
                }
                false => self.entry_refused(number, queue, result),
            };
        }
        let mut crowded = false;
        if let Some(index) = queue {
            let queue = &mut self.queues[index];
            queue.in_use += 1;
            // Requests that wait long occupy their entries, and requests that the kernel has queued already are not assigned to
            // new entries: new ones must exist before they are needed.
            if 4 * queue.in_use >= queue.entries && queue.entries < RING_ENTRIES_MAX && !queue.full
            {
                self.grow(index)?;
            }
            crowded = 2 * self.queues[index].in_use > RING_ENTRIES_MAX;
        }
        // SAFETY: the kernel has completed the entry's command, and this completion is used only here.
        handle(unsafe { IncomingRequest::new(&self.entries[number], crowded) });
        Ok(())
    }

    /// Handles an entry that the kernel rejected. Later entries are not needed; if an initial entry is rejected, the ring has
    /// failed.
    fn entry_refused(
        &mut self,
        number: usize,
        queue: Option<usize>,
        result: i32,
    ) -> io::Result<()> {
        let error = io::Error::from_raw_os_error(-result);
        if number < self.initial_entries || self.entries[number].commit_id() != 0 {
            return Err(error);
        }
        warn!(%error, "the kernel rejected an additional ring entry; continuing with fewer requests in flight");
        if let Some(index) = queue {
            self.queues[index].entries -= 1;
            self.queues[index].full = true;
        }
        Ok(())
    }

    /// Waits for a completion, unless handlers are ready to run (`busy`). After an idle period, releases memory that was used
    /// at peak load.
    fn wait(&mut self, busy: bool) -> io::Result<()> {
        let timeout = Timespec::from(if busy { Duration::ZERO } else { RING_IDLE });
        let bounded = SubmitArgs::new().timespec(&timeout);
        loop {
            let waited = match self.idle && !busy {
                true => self.uring.submit_and_wait(1),
                false => self.uring.submitter().submit_with_args(1, &bounded),
            };
            match waited {
                Ok(_) => {
                    self.retry_budget.succeeded();
                    self.idle = false;
                    return Ok(());
                }
                Err(error) if error.raw_os_error() == Some(libc::ETIME) && busy => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::ETIME) => {
                    self.release_pages();
                    self.idle = true;
                }
                // Completions are taken before the next try.
                Err(error) => {
                    thread::sleep(self.retry_budget.pause_after(error)?);
                    return Ok(());
                }
            }
        }
    }

    /// The kernel reuses the same few entries: the others, used only at peak load, need no memory.
    fn release_pages(&self) {
        let mut kept = 0;
        for (entry, with_kernel) in self.entries.iter().zip(&self.with_kernel) {
            let touched = entry.touched.load(Ordering::Relaxed) as usize;
            if touched == 0 || !with_kernel {
                continue;
            }
            let keep = match kept < KEPT_RING_ENTRIES {
                true => KEPT_ENTRY_BYTES,
                false => 0,
            };
            kept += 1;
            if touched > keep {
                // SAFETY: the kernel has the entry, so no reference exists and its reply was taken: nothing in this process
                // accesses its bytes. The kernel writes to it only while this thread is in `wait`.
                unsafe { entry.memory.release_pages(keep) };
                entry.touched.store(keep as u32, Ordering::Relaxed);
            }
        }
    }
}
