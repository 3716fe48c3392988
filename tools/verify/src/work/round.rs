//! Carrying out orders.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::RoundDirectory;
use super::held::{self, HeldObjects};
use super::look::looks;
use super::progress::{SharedProgress, now};
use super::protocol::{Order, Report, RoundPlan};
use crate::frame;
use crate::history::{Answer, Call, Flavour, Nanos, Record};
use crate::mix::{self, Mix, WorkerMemory};
use crate::rng::Rng;
use crate::subject::{Subject, UNPUBLISHED, subjects};

/// How often a worker says what it is doing.
const BEAT: Duration = Duration::from_millis(100);

/// Carries out orders until there are no more.
pub fn serve(orders: impl Read, reports: impl Write + Send + 'static) -> io::Result<()> {
    let progress = Arc::new(SharedProgress::default());
    let out = Arc::new(Mutex::new(reports));
    let (stop, stopped) = channel();
    let beat = {
        let (progress, out) = (progress.clone(), out.clone());
        std::thread::Builder::new().spawn(move || {
            while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                if tell(&progress, &out).is_err() {
                    return;
                }
            }
        })?
    };
    let served = obey(orders, &progress, &out);
    drop::<Sender<()>>(stop);
    // A thread that has ended in a panic has said so itself.
    let _ = beat.join();
    served
}

type Out<W> = Arc<Mutex<W>>;

/// Says what was done and what is being done.
fn tell(progress: &SharedProgress, out: &Out<impl Write>) -> io::Result<()> {
    // Taken with the pipe in hand: reports leave in their order.
    let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
    let reported = progress.take();
    if !reported.done.is_empty() {
        frame::write(&mut *out, &Report::Did(reported.done))?;
    }
    if let Some(running) = reported.running {
        frame::write(&mut *out, &Report::Doing(Box::new(running)))?;
    }
    Ok(())
}

fn obey(mut orders: impl Read, progress: &SharedProgress, out: &Out<impl Write>) -> io::Result<()> {
    let mut worker = None;
    while let Some(order) = frame::read::<Order>(&mut orders)? {
        let answer = match (order, &mut worker) {
            (
                Order::Be {
                    worker: who,
                    directory,
                },
                _,
            ) => {
                worker = Some(Worker::new(who, directory));
                Report::Finished
            }
            (Order::Clock, _) => Report::Clock(now()),
            (order, Some(worker)) => worker
                .carry_out(order, progress)
                .unwrap_or_else(Report::Unable),
            (_, None) => Report::Unable("it was not told who it is".into()),
        };
        tell(progress, out)?;
        let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
        frame::write(&mut *out, &answer)?;
    }
    Ok(())
}

struct Worker {
    number: u16,
    directory: PathBuf,
    room: Option<(u32, RoundDirectory)>,
    held: Option<Rc<HeldObjects>>,
    /// What it last worked on.
    mix: Option<Mix>,
    /// Of the next operation.
    next: u32,
    memory: WorkerMemory,
}

/// Errors that say something of the machine and nothing of agreement.
const UNABLE: [i32; 8] = [
    libc::ENOSPC,
    libc::EDQUOT,
    libc::EROFS,
    libc::EMFILE,
    libc::ENFILE,
    libc::ENOMEM,
    libc::EFBIG,
    libc::EACCES,
];

impl Worker {
    fn new(number: u16, directory: PathBuf) -> Worker {
        Worker {
            number,
            // The working directory will be another. (Absolute, unless it is empty.)
            directory: std::path::absolute(&directory).unwrap_or(directory),
            room: None,
            held: None,
            mix: None,
            next: 0,
            memory: WorkerMemory::default(),
        }
    }

    fn carry_out(&mut self, order: Order, progress: &SharedProgress) -> Result<Report, String> {
        match order {
            Order::Be { .. } | Order::Clock => {}
            Order::MakeDirectory => {
                let made = std::fs::create_dir(&self.directory);
                made.map_err(|error| self.cannot("make", &self.directory, &error))?;
            }
            Order::Probe => {
                let stat = rustix::fs::stat(&self.directory);
                return Ok(Report::Found(stat.ok().map(|stat| stat.st_ino)));
            }
            Order::Furnish { round } => {
                let room = RoundDirectory::new(self.round_directory(round), self.number, None);
                let made = room.furnish();
                made.map_err(|errno| {
                    self.cannot("furnish", &self.round_directory(round), &errno.into())
                })?;
            }
            Order::FurnishHeld => {
                let made = held::furnish(&self.directory);
                made.map_err(|errno| self.cannot("furnish", &self.directory, &errno.into()))?;
            }
            Order::Hold { mapped } => {
                let held = HeldObjects::open(&self.directory, mapped);
                let held = held
                    .map_err(|errno| self.cannot("hold files of", &self.directory, &errno.into()));
                self.held = Some(Rc::new(held?));
            }
            Order::LookAtHeld { round } => {
                self.enter(round);
                self.look(Subject::is_held, progress)?;
            }
            Order::Release => {
                (self.room, self.held) = (None, None);
                held::leave();
            }
            Order::Work(plan) => self.work(&plan, progress)?,
            Order::LookAround { round } => {
                self.enter(round);
                self.look(|_| true, progress)?;
            }
            Order::Do { round, record } => {
                self.enter(round);
                // Numbers stay unique where an opening comes in between.
                self.next = self.next.max(record.number);
                self.one(record.subject, record.call, progress)?;
            }
            Order::Clean { round } => {
                self.room = None;
                // A failure shows at the end of the run, when the directory of the run is removed.
                let _ = std::fs::remove_dir_all(self.round_directory(round));
            }
            Order::RemoveDirectory => {
                self.room = None;
                let removed = std::fs::remove_dir_all(&self.directory);
                removed.map_err(|error| self.cannot("remove", &self.directory, &error))?;
            }
        }
        Ok(Report::Finished)
    }

    fn cannot(&self, what: &str, path: &std::path::Path, error: &io::Error) -> String {
        format!("cannot {what} {}: {error}", path.display())
    }

    fn round_directory(&self, round: u32) -> PathBuf {
        self.directory.join(format!("round{round}"))
    }

    fn enter(&mut self, round: u32) {
        if self
            .room
            .as_ref()
            .is_none_or(|(number, _)| *number != round)
        {
            self.room = Some((
                round,
                RoundDirectory::new(self.round_directory(round), self.number, self.held.clone()),
            ));
            self.memory = WorkerMemory::default();
        }
    }

    fn work(&mut self, plan: &RoundPlan, progress: &SharedProgress) -> Result<(), String> {
        self.enter(plan.round);
        self.mix = Some(plan.mix.clone());
        let subjects = plan.mix.subjects();
        let mut rng = Rng::of(&[plan.seed, u64::from(plan.round), u64::from(self.number) + 1]);
        let mut turn = 0;
        loop {
            sleep_until(plan.start + turn * plan.turn);
            let since = now().saturating_sub(plan.start);
            if since >= plan.length {
                break;
            }
            // A worker that is late joins the others.
            turn = turn.max(since / plan.turn);
            let mut common = Rng::of(&[plan.seed, u64::from(plan.round), 0, turn]);
            let subject = common.weighted(&subjects);
            for _ in 0..plan.burst {
                let next = mix::next(&mut rng, subject, self.number, self.next, &mut self.memory);
                self.one(subject, next, progress)?;
                if now() >= plan.start + plan.length {
                    break;
                }
            }
            turn += 1;
        }
        self.let_go(progress)
    }

    /// Closes and frees all that is open and locked.
    fn let_go(&mut self, progress: &SharedProgress) -> Result<(), String> {
        let open = self.room.as_ref().map(|(_, room)| room.sessions());
        for subject in open.unwrap_or_default() {
            self.one(subject, Call::Close, progress)?;
        }
        for (subject, (first, last)) in self.memory.held.clone() {
            self.one(subject, Call::Unlock { first, last }, progress)?;
        }
        Ok(())
    }

    /// Reads what was worked on, of these subjects.
    fn look(
        &mut self,
        of: impl Fn(Subject) -> bool,
        progress: &SharedProgress,
    ) -> Result<(), String> {
        for subject in subjects().into_iter().filter(|subject| of(*subject)) {
            let is_there = match &self.held {
                Some(held) if subject.is_held() => held.has(subject),
                _ => !subject.is_held() && self.mix.as_ref().is_none_or(|mix| mix.has(subject)),
            };
            let calls = if is_there { looks(subject) } else { Vec::new() };
            for call in calls {
                self.one(subject, call, progress)?;
            }
        }
        Ok(())
    }

    /// One operation, with the opening it needs before.
    fn one(
        &mut self,
        subject: Subject,
        call: Call,
        progress: &SharedProgress,
    ) -> Result<(), String> {
        let open = self
            .room
            .as_ref()
            .is_some_and(|(_, room)| room.has_session(subject));
        match (needs_session(&call), open) {
            (true, false) if call == Call::Close => {
                return self.record(subject, Call::Open, progress);
            }
            (true, false) => self.record(subject, Call::Open, progress)?,
            (false, true) if call == Call::Open => self.record(subject, Call::Close, progress)?,
            _ => {}
        }
        self.record(subject, call, progress)
    }

    fn record(
        &mut self,
        subject: Subject,
        call: Call,
        progress: &SharedProgress,
    ) -> Result<(), String> {
        let number = self.next;
        self.next += 1;
        let call = retagged(call, self.number, number);
        let Some((_, room)) = &mut self.room else {
            return Err("no round has begun".into());
        };
        if let Err(errno) = room.prepare(subject, &call, number) {
            return match UNABLE.contains(&errno.raw_os_error()) {
                true => Err(format!("{} below {UNPUBLISHED}: {errno}", call.name())),
                // An operation that never began is no part of the history.
                false => Ok(()),
            };
        }
        let mut record = Record {
            worker: self.number,
            number,
            subject,
            call,
            start: now(),
            end: None,
            answer: Answer::None,
        };
        progress.begin(record.clone());
        record.start = now();
        record.answer = room.act(subject, &call);
        record.end = Some(now());
        self.remember(&record);
        let unable = record
            .answer
            .errno()
            .filter(|errno| UNABLE.contains(errno) && !matches!(call, Call::Lock { .. }));
        let asked = unable.map(|errno| (record.asked(), errno));
        progress.end(record);
        match asked {
            Some((asked, errno)) => {
                Err(format!("{asked}: {}", io::Error::from_raw_os_error(errno)))
            }
            None => Ok(()),
        }
    }

    fn remember(&mut self, record: &Record) {
        let subject = record.subject;
        match (&record.call, &record.answer) {
            (Call::Lock { first, last, .. }, Answer::Done) => {
                self.memory.held.insert(subject, (*first, *last));
            }
            (Call::Unlock { .. }, _) => drop(self.memory.held.remove(&subject)),
            (Call::ReadLog, Answer::Log(tags)) => {
                self.memory.records.insert(subject, tags.len());
            }
            (Call::CutLog, _) => drop(self.memory.records.insert(subject, 0)),
            _ => {}
        }
    }
}

fn needs_session(call: &Call) -> bool {
    match call {
        Call::Write { flavour, .. }
        | Call::Read { flavour, .. }
        | Call::Splice { flavour, .. }
        | Call::Size { flavour } => *flavour == Flavour::Session,
        Call::Truncate { .. } | Call::Allocate { .. } | Call::Sync | Call::Close => true,
        _ => false,
    }
}

/// The call with its tag, now that its number is known: an opening may have come before.
fn retagged(call: Call, worker: u16, number: u32) -> Call {
    let new = crate::history::tag::of(worker, number);
    match call {
        Call::Write { range, flavour, .. } => Call::Write {
            range,
            tag: new,
            flavour,
        },
        Call::MapWrite { range, .. } => Call::MapWrite { range, tag: new },
        Call::Symlink { at, .. } => Call::Symlink { at, tag: new },
        Call::Publish { at, .. } => Call::Publish { at, tag: new },
        Call::Append { .. } => Call::Append { tag: new },
        Call::SetXattr { .. } => Call::SetXattr { tag: new },
        other => other,
    }
}

fn sleep_until(time: Nanos) {
    let left = time.saturating_sub(now());
    if left > 0 {
        std::thread::sleep(Duration::from_nanos(left));
    }
}
