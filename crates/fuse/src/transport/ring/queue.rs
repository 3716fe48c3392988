//! One ring, and the queues of the kernel that it serves.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use gupfs_uring::Here;
use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use tracing::warn;

use super::hold::{Incoming, Place};
use super::home::Home;
use super::layout::{COMMIT_AND_FETCH, PIECES, REGISTER, command};
use super::memory::Memory;
use super::patience::Patience;
use crate::limits::{
    PLACES_AT_FIRST, PLACES_MAX, RING_ENTRIES, RING_PLACES_KEPT, RING_QUIET, RING_TOUCHED,
};

type Uring = IoUring<squeue::Entry128, cqueue::Entry>;

/// Completions of commands carry their place's number, this one the descriptor that wakes.
const WAKE: u64 = u64::MAX;

/// ... and those of reads of files this and the read's number.
const READ: u64 = 1 << 32;

/// The fuse device is the only registered file.
const DEVICE: Fixed = Fixed(0);

/// A ring and the places of its queues.
///
/// Field order is drop order: the ring is closed before the places' memory goes. (What the kernel still has to do for it then,
/// it does without touching that memory: into a place it writes only from this thread, while the thread asks for completions.)
pub(crate) struct Ring {
    uring: Uring,
    places: Vec<Arc<Place>>,
    home: Arc<Home>,
    /// How many places each queue has, and how many of them are ours.
    queues: Vec<Queue>,
    payload: usize,
    /// The first places of the queues; those that came later the ring can do without.
    first: usize,
    /// Which places the kernel has.
    with_kernel: Vec<bool>,
    arrived: Vec<cqueue::Entry>,
    answered: Vec<u32>,
    /// A place was given back because there is no connection any more.
    over: bool,
    quiet: bool,
    patience: Patience,
    reads: Here,
}

#[derive(Default)]
struct Queue {
    number: u16,
    places: usize,
    ours: usize,
    /// It gets no more.
    full: bool,
}

fn build(entries: u32) -> io::Result<Uring> {
    // One thread submits, and completions are made when it asks for them: no interrupts, no locks between.
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_cqsize(4 * entries)
        .build(entries)
}

/// Why this process cannot have rings, if so.
pub(crate) fn unavailable() -> Option<io::Error> {
    build(8).err()
}

/// CPUs that this machine may ever have: the kernel has a queue for each.
pub(crate) fn possible_cpus() -> io::Result<usize> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    count_cpus(&list)
        .ok_or_else(|| io::Error::other(format!("cannot read the list of possible CPUs {list:?}")))
}

/// `0-3,8`: how many are in it.
pub(crate) fn count_cpus(list: &str) -> Option<usize> {
    list.trim().split(',').try_fold(0usize, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse().ok()?, last.parse::<usize>().ok()?);
        count.checked_add(last.checked_sub(first)?)?.checked_add(1)
    })
}

impl Ring {
    /// A ring of the calling thread for these queues of the connection of `device`. The kernel has no place yet.
    pub fn new(
        device: BorrowedFd<'_>,
        home: Arc<Home>,
        queues: &[u16],
        payload: usize,
    ) -> io::Result<Ring> {
        let uring = build(RING_ENTRIES)?;
        uring.submitter().register_files(&[device.as_raw_fd()])?;
        home.enter();
        let queues = queues.iter().map(|number| Queue {
            number: *number,
            ..Queue::default()
        });
        let queues = queues.collect();
        let mut ring = Ring {
            uring,
            places: Vec::new(),
            home,
            queues,
            payload,
            first: 0,
            with_kernel: Vec::new(),
            arrived: Vec::new(),
            answered: Vec::new(),
            over: false,
            quiet: false,
            patience: Patience::default(),
            reads: Here::begin(),
        };
        for queue in 0..ring.queues.len() {
            ring.make_places(queue, PLACES_AT_FIRST)?;
        }
        ring.first = ring.places.len();
        ring.watch_home()?;
        Ok(ring)
    }

    /// Gives the kernel the first places of every queue. When all queues of the connection have some, requests come.
    pub fn register(&mut self) -> io::Result<()> {
        for number in 0..self.first {
            self.give(number)?;
        }
        self.submit()
    }

    /// So many more places for a queue.
    fn make_places(&mut self, queue: usize, count: usize) -> io::Result<()> {
        for memory in Memory::map(count, self.payload)? {
            let number = self.places.len() as u32;
            let of = self.queues[queue].number;
            let place = Place::new(memory, self.home.clone(), of, number);
            self.places.push(Arc::new(place));
            self.with_kernel.push(false);
        }
        self.queues[queue].places += count;
        Ok(())
    }

    /// Twice as many places for a queue; without them it goes on with what it has.
    fn grow(&mut self, queue: usize) -> io::Result<()> {
        let (first, now) = (self.places.len(), self.queues[queue].places);
        let more = now.min(PLACES_MAX - now);
        if let Err(error) = self.make_places(queue, more) {
            warn!(%error, places = now, "no memory for more requests at a time");
            self.queues[queue].full = true;
            return Ok(());
        }
        (first..self.places.len()).try_for_each(|number| self.give(number))
    }

    /// Shows the kernel a new place.
    fn give(&mut self, number: usize) -> io::Result<()> {
        let place = &self.places[number];
        let command = opcode::UringCmd80::new(DEVICE, REGISTER)
            .cmd(command(0, place.queue))
            .addr(Some(place.vectors.as_ptr() as u64))
            .build()
            .user_data(number as u64);
        // SAFETY: what the command points to, the place's vectors and the memory in them, lives in `self.places` until the
        // ring is closed. The kernel has the place from here on: it has no hold yet.
        unsafe { self.push(&with_length(command, PIECES)) }?;
        self.with_kernel[number] = true;
        Ok(())
    }

    /// Gives the places that were answered back to the kernel, with their answers; and reads that were asked for.
    fn commit(&mut self, woken: bool) -> io::Result<()> {
        let mut answered = std::mem::take(&mut self.answered);
        self.home.collect(woken, &mut answered);
        for number in answered.drain(..) {
            let place = &self.places[number as usize];
            let command = opcode::UringCmd80::new(DEVICE, COMMIT_AND_FETCH)
                .cmd(command(place.commit_id(), place.queue))
                .build()
                .user_data(u64::from(number));
            let of = place.queue;
            // SAFETY: the command points to nothing. Its place was answered, so it has no hold: nobody has bytes of it, and
            // nobody can get any before the kernel completes this.
            unsafe { self.push(&command) }?;
            self.with_kernel[number as usize] = true;
            if let Some(queue) = self.queues.iter_mut().find(|queue| queue.number == of) {
                queue.ours -= 1;
            }
        }
        self.answered = answered;
        while let Some((number, command)) = self.reads.to_submit() {
            let command = command.user_data(READ | number as u64);
            // SAFETY: `self.reads` keeps what it points to until it is told of the completion.
            unsafe { self.push(&command.into()) }?;
        }
        Ok(())
    }

    /// # Safety
    /// What the entry points to lives until it is completed or the ring is closed.
    unsafe fn push(&mut self, entry: &squeue::Entry128) -> io::Result<()> {
        // SAFETY: the caller's promise, here and below.
        if unsafe { self.uring.submission().push(entry) }.is_ok() {
            return Ok(());
        }
        self.submit()?;
        let pushed = unsafe { self.uring.submission().push(entry) };
        pushed.map_err(|_| io::Error::other("the ring takes no more commands"))
    }

    fn submit(&mut self) -> io::Result<()> {
        loop {
            match self.uring.submit() {
                Ok(_) => {
                    self.patience.succeeded();
                    return Ok(());
                }
                Err(error) => thread::sleep(self.patience.after(error)?),
            }
        }
    }

    fn watch_home(&mut self) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(self.home.descriptor()), libc::POLLIN as u32)
            .multi(true)
            .build()
            .user_data(WAKE);
        // SAFETY: it points to nothing; the descriptor is open as long as `home`.
        unsafe { self.push(&poll.into()) }
    }

    /// Goes on with who was woken, hands over what was answered, waits, and gives what came to `each`, one after the other.
    /// `go_on` does so with one, and says how many are left; None if there was none. False when the connection has ended.
    pub fn turn(
        &mut self,
        mut go_on: impl FnMut() -> Option<usize>,
        mut each: impl FnMut(Incoming),
    ) -> io::Result<bool> {
        let mut woken = go_on();
        // Those that wake each other again and again get their turns between requests.
        for _ in 0..woken.unwrap_or(0) {
            self.commit(false)?;
            self.submit()?;
            woken = go_on();
        }
        self.commit(false)?;
        self.wait(woken.is_some_and(|left| left > 0))?;
        let mut arrived = std::mem::take(&mut self.arrived);
        arrived.extend(self.uring.completion());
        let mut left = arrived.len();
        for completion in arrived.drain(..) {
            left -= 1;
            if completion.user_data() == WAKE {
                if !cqueue::more(completion.flags()) {
                    self.watch_home()?;
                }
                self.commit(true)?;
            } else if completion.user_data() & READ != 0 {
                let number = (completion.user_data() - READ) as usize;
                // SAFETY: it is the completion of the command that had this number.
                unsafe { self.reads.completed(number, completion.result()) };
            } else {
                self.completed(
                    completion.user_data() as usize,
                    completion.result(),
                    &mut each,
                )?;
            }
            // Nobody waits for the answer of one while another is handled.
            if left > 0 {
                self.commit(false)?;
                self.submit()?;
            }
        }
        self.arrived = arrived;
        let ended = (self.over && !self.with_kernel.contains(&true)) || self.home.is_closed();
        Ok(!ended)
    }

    fn completed(
        &mut self,
        number: usize,
        result: i32,
        each: &mut impl FnMut(Incoming),
    ) -> io::Result<()> {
        self.with_kernel[number] = false;
        let of = self.places[number].queue;
        let queue = self.queues.iter().position(|queue| queue.number == of);
        if result < 0 {
            return match is_end(result) {
                true => {
                    self.over = true;
                    Ok(())
                }
                false => self.refused(number, queue, result),
            };
        }
        let mut crowded = false;
        if let Some(index) = queue {
            let queue = &mut self.queues[index];
            queue.ours += 1;
            // Requests that wait long keep their places, and what the kernel has queued does not go to new ones: there must
            // be some before they are needed.
            if 4 * queue.ours >= queue.places && queue.places < PLACES_MAX && !queue.full {
                self.grow(index)?;
            }
            crowded = 2 * self.queues[index].ours > PLACES_MAX;
        }
        // SAFETY: the kernel has completed the place's command, and this is the only look at that completion.
        each(unsafe { Incoming::new(&self.places[number], crowded) });
        Ok(())
    }

    /// A place that the kernel did not take. Those that came later are not needed; without a first one something is wrong.
    fn refused(&mut self, number: usize, queue: Option<usize>, result: i32) -> io::Result<()> {
        let error = io::Error::from_raw_os_error(-result);
        if number < self.first || self.places[number].commit_id() != 0 {
            return Err(error);
        }
        warn!(%error, "the kernel takes no more requests at a time");
        if let Some(index) = queue {
            self.queues[index].places -= 1;
            self.queues[index].full = true;
        }
        Ok(())
    }

    /// Waits for something, unless there is something to do (`busy`). After a while of nothing, memory that was used much is given
    /// back.
    fn wait(&mut self, busy: bool) -> io::Result<()> {
        let timeout = Timespec::from(if busy { Duration::ZERO } else { RING_QUIET });
        let bounded = SubmitArgs::new().timespec(&timeout);
        loop {
            let waited = match self.quiet && !busy {
                true => self.uring.submit_and_wait(1),
                false => self.uring.submitter().submit_with_args(1, &bounded),
            };
            match waited {
                Ok(_) => {
                    self.patience.succeeded();
                    self.quiet = false;
                    return Ok(());
                }
                Err(error) if error.raw_os_error() == Some(libc::ETIME) && busy => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::ETIME) => {
                    self.release_pages();
                    self.quiet = true;
                }
                // What came is taken before the next try.
                Err(error) => {
                    thread::sleep(self.patience.after(error)?);
                    return Ok(());
                }
            }
        }
    }

    /// The kernel uses the same few places again and again: those that were used only when it was busy need no memory.
    fn release_pages(&self) {
        let mut kept = 0;
        for (place, with_kernel) in self.places.iter().zip(&self.with_kernel) {
            let touched = place.touched.load(Ordering::Relaxed) as usize;
            if touched == 0 || !with_kernel {
                continue;
            }
            let keep = match kept < RING_PLACES_KEPT {
                true => RING_TOUCHED,
                false => 0,
            };
            kept += 1;
            if touched > keep {
                // SAFETY: the kernel has it, so it has no hold and its answer was taken: nobody has bytes of it. The kernel writes
                // into it while this thread is in `wait`, no other time.
                unsafe { place.memory.release_pages(keep) };
                place.touched.store(keep as u32, Ordering::Relaxed);
            }
        }
    }
}

/// The library cannot say how many vectors a command points to.
fn with_length(entry: squeue::Entry128, length: u32) -> squeue::Entry128 {
    /// `len` of `struct io_uring_sqe`.
    const LENGTH: usize = 24;
    const SIZE: usize = 128;
    const _: () = assert!(size_of::<squeue::Entry128>() == SIZE);
    // SAFETY: both are 128 bytes without a bit pattern that is not allowed: the entry is what the kernel's header says,
    // integers throughout.
    let mut bytes = unsafe { std::mem::transmute::<squeue::Entry128, [u8; SIZE]>(entry) };
    bytes[LENGTH..LENGTH + 4].copy_from_slice(&length.to_ne_bytes());
    // SAFETY: the same.
    unsafe { std::mem::transmute::<[u8; SIZE], squeue::Entry128>(bytes) }
}

/// The mount is gone.
fn is_end(result: i32) -> bool {
    matches!(
        -result,
        libc::ENOTCONN | libc::ECONNABORTED | libc::ENODEV | libc::ECANCELED
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_counted_or_refused() {
        for (list, count) in [("0", 1), ("0-1\n", 2), ("0-3,8,10-11", 7)] {
            assert_eq!(count_cpus(list), Some(count), "{list}");
        }
        let all = format!("0-{}", usize::MAX);
        for list in ["", "-", "3-0", "x", "0-1,", &all] {
            assert_eq!(count_cpus(list), None, "{list}");
        }
    }
}
