//! # judged: two files that all programs change without order, and a history of what they were told
//!
//! Owns   what was asked and answered, in the words of `gupfs verify`; when a history ends.
//! Never  knows what must come of a call: the checker of `gupfs verify` says whether the history can have happened.
//! Enter  at `History::judge` (the verdict), `Judge::work` (a program).
//!
//! A power cut may take what nobody synced, of which the checker knows nothing: each ends the history, and the next has new
//! files. One of the metadata server takes nothing while all clients live, but for what nobody was answered for yet: only then it
//! ends the history.

mod act;

use super::machine::{Failure, With};
use super::own::{both_ways, flags, make, me};
use super::site::Site;
use super::troubles::Cuts;
use gupfs_client::OpenFile;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::meta::{SetAttr, SetTime};
use gupfs_proto::{InodeId, Name, SessionId, Timestamp};
use gupfs_verify::check::{ATTRIBUTES, Bound, Model, judge};
use gupfs_verify::history::{Answer, Call, Record, Subject, tag};
use std::sync::Arc;
use std::time::Duration;

/// Between two calls, at most, in microseconds.
const THINK: u64 = 400_000;

const BYTES: Subject = Subject::Data(0);
const ATTRS: Subject = Subject::Attr(0);

/// The files, and what was asked of them.
#[derive(Default)]
pub struct History {
    /// None: they are to be made.
    files: Option<Files>,
    /// Somebody makes them.
    making: bool,
    records: Vec<Record>,
    /// Of these, under way.
    open: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Files {
    bytes: InodeId,
    attrs: InodeId,
    /// The power cuts before they were made: with one more the history is over.
    cuts: Cuts,
}

/// Where a record is, while it has no answer.
struct Asked {
    of: Files,
    at: usize,
}

impl History {
    /// What was asked so far and answered so can have happened.
    ///
    /// # Panics
    /// When it cannot: with the fewest records that show it.
    pub fn judge(&mut self, site: &Site) {
        let records = std::mem::take(&mut self.records);
        if records.is_empty() {
            return;
        }
        let mounts = 0..site.machines.len() as u16;
        let history = gupfs_verify::history::History::new(mounts.collect(), records);
        let judgement = judge(&history, Model::Posix, Bound::default());
        site.watch.saw("judged history");
        if judgement.undecided > 0 {
            site.watch.saw("history that was not decided");
        }
        let Some(finding) = judgement.findings.first() else {
            return;
        };
        let shown = finding.records.iter().map(|index| {
            let record = &history.records[*index];
            let (who, end) = (record.worker, record.end.unwrap_or_default());
            let (asked, answered) = (record.asked(), record.answered());
            format!(
                "  {:6} to {end:6} c{who} {asked}: {answered}\n",
                record.start
            )
        });
        let shown: String = shown.collect();
        panic!("no order explains {}:\n{shown}", finding.about);
    }

    /// The metadata server loses power.
    pub fn cut_names(&mut self) {
        if self.open > 0 {
            self.files = None;
        }
    }

    /// A call begins; `ended` is to follow. What a write writes names it: the call is returned with its tag. None if this history is over.
    fn ask(
        &mut self,
        files: Files,
        (worker, start): (u16, u64),
        call: Call,
    ) -> Option<(Asked, Call)> {
        if self.files != Some(files) {
            return None;
        }
        let at = self.records.len();
        // A worker's numbers rise, and that is all that is asked of them.
        let number = at as u32;
        let call = match call {
            Call::Write { range, flavour, .. } => Call::Write {
                range,
                tag: tag::of(worker, number),
                flavour,
            },
            other => other,
        };
        self.records.push(Record {
            worker,
            number,
            subject: subject_of(&call),
            call,
            start,
            end: None,
            answer: Answer::None,
        });
        self.open += 1;
        Some((Asked { of: files, at }, call))
    }

    /// However it ended.
    fn ended(&mut self) {
        self.open -= 1;
    }

    /// Unless its history is over.
    fn answered(&mut self, asked: &Asked, answer: Answer, end: u64) {
        if self.files == Some(asked.of) {
            let record = &mut self.records[asked.at];
            (record.answer, record.end) = (answer, Some(end));
        }
    }
}

/// Which of the files a call is about.
fn subject_of(call: &Call) -> Subject {
    match call {
        Call::SetMode { .. } | Call::SetTime { .. } | Call::Stat => ATTRS,
        _ => BYTES,
    }
}

/// A program.
pub struct Judge {
    site: Arc<Site>,
    machine: usize,
    dice: FakeRandom,
    open: Option<Arc<OpenFile>>,
    life: u64,
    session: SessionId,
}

impl Judge {
    pub fn new(site: &Arc<Site>, machine: usize, dice: FakeRandom) -> Judge {
        Judge {
            site: site.clone(),
            machine,
            dice,
            open: None,
            life: 0,
            session: SessionId(0),
        }
    }

    /// Until the site ends.
    ///
    /// # Panics
    /// When a promise is broken.
    pub async fn work(&mut self) {
        let machine = self.site.machines[self.machine].clone();
        while !self.site.ends() {
            let think = Duration::from_micros(self.dice.below(THINK));
            self.site.sleep(think).await;
            let (life, client) = machine.alive().await;
            let with = With {
                client: &client,
                life,
            };
            self.meet(with);
            let files = self.site.judged.lock().files;
            match files {
                Some(files) if self.are_there(files) => {
                    self.act(with, files).await;
                }
                _ => self.begin(with).await,
            }
        }
        if let Some(file) = self.open.take() {
            let (life, client) = machine.alive().await;
            let _ = machine.run(life, client.release(file.id())).await; // it may be stale
        }
    }

    /// No power cut may have taken them.
    fn are_there(&self, files: Files) -> bool {
        self.site.troubles.cuts().undo_nothing_since(files.cuts)
    }

    /// What was open in another life or session is stale.
    fn meet(&mut self, with: With<'_>) {
        let session = with.client.session();
        if with.life == self.life && session == self.session {
            return;
        }
        if with.life == self.life {
            self.let_go(with);
        }
        self.open = None;
        (self.life, self.session) = (with.life, session);
    }

    /// Closes what is open, some time.
    fn let_go(&mut self, with: With<'_>) {
        if let Some(file) = self.open.take() {
            self.site.close_late(self.machine, with, &file);
        }
    }

    /// A new history, unless somebody else begins it.
    async fn begin(&mut self, with: With<'_>) {
        self.let_go(with);
        let site = self.site.clone();
        let cuts = site.troubles.cuts();
        {
            let mut history = site.judged.lock();
            if history.making {
                return;
            }
            history.judge(&site);
            history.making = true;
            history.files = None;
        }
        let since = site.millis();
        let made = self.make_files(with, cuts).await;
        let mut history = site.judged.lock();
        history.making = false;
        match made {
            // A power cut may have taken them already.
            _ if !site.troubles.cuts().undo_nothing_since(cuts) => {}
            Ok(files) => history.files = Some(files),
            Err(failure) => {
                drop(history);
                self.excuse("beginning of a history", &failure, since);
            }
        }
    }

    async fn make_files(&self, with: With<'_>, cuts: Cuts) -> Result<Files, Failure> {
        let mut made = Vec::new();
        for what in ["bytes", "attrs"] {
            let name = format!("{what}{}", self.site.moment());
            let name = Name::new(name.as_bytes()).expect("a short name");
            let (me, root) = (me(), with.client.root());
            let file = with
                .client
                .create(&me, root, &name, make(), true, both_ways(), flags());
            let file = self.call(with, file).await?.file;
            made.push(file.ino());
            self.call(with, with.client.release(file.id())).await?;
        }
        let (mode, seconds) = ATTRIBUTES;
        self.set(with, made[1], mode_of(mode)).await?;
        self.set(with, made[1], time_of(seconds)).await?;
        Ok(Files {
            bytes: made[0],
            attrs: made[1],
            cuts,
        })
    }

    async fn set(&self, with: With<'_>, ino: InodeId, set: SetAttr) -> Result<(), Failure> {
        let me = me();
        self.call(with, with.client.setattr(&me, ino, set)).await?;
        Ok(())
    }

    async fn call<T>(
        &self,
        with: With<'_>,
        call: impl Future<Output = Result<T, gupfs_proto::FsError>>,
    ) -> Result<T, Failure> {
        self.site.machines[self.machine].run(with.life, call).await
    }

    /// # Panics
    /// When nothing excuses it.
    fn excuse(&self, what: &str, failure: &Failure, since: u64) {
        let machine = self.machine;
        self.site
            .say(format_args!("c{machine} judged {what}: {failure:?}"));
        let who = (machine, self.session);
        let excused = self.site.excuses(failure, who, since, false);
        assert!(excused, "c{machine} {what}: {failure:?} without an excuse");
    }
}

fn mode_of(mode: u32) -> SetAttr {
    SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    }
}

fn time_of(seconds: u64) -> SetAttr {
    SetAttr {
        mtime: Some(SetTime::To(Timestamp::new(seconds as i64, 0))),
        ..SetAttr::default()
    }
}
