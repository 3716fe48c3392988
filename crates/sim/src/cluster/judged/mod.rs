//! # judged: two files that all programs change concurrently, and a history of their calls
//!
//! Owns   the programs that make the calls; when a history ends (`history` has the requests and replies).
//! Never  decides the result of a call: the checker of `gupfs verify` says whether the history is possible.
//! Enter  at `Judge::work` (a program).
//!
//! A power loss may undo unsynced changes, and the checker does not know of power losses: each ends the history, and the next has
//! new files. A power loss of the metadata server while all clients live undoes no answered change: it ends the history only if
//! clients may be absent, or a client has seen an unanswered change.

mod act;

use super::arguments::{both_ways, flags, make, me};
use super::history::Files;
use super::machine::{Failure, With};
use super::site::Site;
use super::troubles::Cuts;
use gupfs_client::OpenFile;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::meta::{SetAttr, SetTime};
use gupfs_proto::{InodeId, Name, SessionId, Timestamp};
use gupfs_verify::check::ATTRIBUTES;
use std::sync::Arc;
use std::time::Duration;

/// Longest pause between two calls, in microseconds.
const THINK: u64 = 400_000;

/// A program.
pub struct Judge {
    site: Arc<Site>,
    machine: usize,
    random: FakeRandom,
    open: Option<Arc<OpenFile>>,
    life: u64,
    session: SessionId,
}

impl Judge {
    pub fn new(site: &Arc<Site>, machine: usize, random: FakeRandom) -> Judge {
        Judge {
            site: site.clone(),
            machine,
            random,
            open: None,
            life: 0,
            session: SessionId(0),
        }
    }

    /// Runs until the simulation ends.
    ///
    /// # Panics
    /// When a promise is broken.
    pub async fn work(&mut self) {
        let machine = self.site.machines[self.machine].clone();
        while !self.site.ends() {
            let think = Duration::from_micros(self.random.below(THINK));
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

    /// Whether no power loss may have taken the files.
    fn are_there(&self, files: Files) -> bool {
        self.site.troubles.cuts().undo_nothing_since(files.cuts)
    }

    /// Notices a new instance or session of the client: files opened in an earlier one are stale.
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

    /// Closes the open files, in the background.
    fn let_go(&mut self, with: With<'_>) {
        if let Some(file) = self.open.take() {
            self.site.close_late(self.machine, with, &file);
        }
    }

    /// Begins a new history, unless another program does.
    async fn begin(&mut self, with: With<'_>) {
        self.let_go(with);
        let site = self.site.clone();
        let cuts = site.troubles.cuts();
        {
            let mut history = site.judged.lock();
            if history.making {
                return;
            }
            history.judge(site.machines.len(), &site.watch);
            history.making = true;
            history.files = None;
        }
        let since = site.millis();
        let made = self.make_files(with, cuts).await;
        let mut history = site.judged.lock();
        history.making = false;
        match made {
            // A power loss may have taken them already.
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
    /// When no fault excuses the failure.
    fn excuse(&self, what: &str, failure: &Failure, since: u64) {
        let machine = self.machine;
        self.site
            .say(format_args!("c{machine} judged {what}: {failure:?}"));
        let who = (machine, self.session);
        let excused = self.site.excuses(failure, who, since, false);
        assert!(
            excused,
            "c{machine} {what}: {failure:?}, which no fault explains"
        );
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
