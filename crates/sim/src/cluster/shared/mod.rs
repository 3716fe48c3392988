//! # shared: a directory and files that all programs change at once
//!
//! Owns   the programs that make the calls; `shared_state` has the possible states.
//! Never  guesses an order: each reply must fit one.
//! Enter  at `Sharer::work` (a program).

mod bytes;
mod names;
mod peek;

use super::machine::{Failure, With};
use super::own::Published;
use super::shared_state::{Commons, PLACES};
use super::site::Site;
use gupfs_client::OpenFile;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::{InodeId, SessionId};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Between two calls, at most, in microseconds.
const THINK: u64 = 700_000;

/// A change requested by a client that has died may wait at a server for this long before the server makes it.
const LATE: Duration = Duration::from_secs(100);

/// A program that changes the shared files.
pub struct Sharer {
    site: Arc<Site>,
    machine: usize,
    random: FakeRandom,
    open: BTreeMap<InodeId, Arc<OpenFile>>,
    life: u64,
    session: SessionId,
    /// When its last answered change of names was asked, and how many power losses the metadata server had had.
    last_change: Option<(u64, u64)>,
    /// The programs' own directories, to be looked at.
    others: Vec<Arc<Mutex<Published>>>,
}

impl Sharer {
    pub fn new(
        site: &Arc<Site>,
        machine: usize,
        random: FakeRandom,
        others: Vec<Arc<Mutex<Published>>>,
    ) -> Sharer {
        Sharer {
            site: site.clone(),
            machine,
            random,
            open: BTreeMap::new(),
            life: 0,
            session: SessionId(0),
            last_change: None,
            others,
        }
    }

    /// Runs until the simulation ends.
    ///
    /// # Panics
    /// When a promise is broken.
    pub async fn work(&mut self) {
        let machine = self.site.machines[self.machine].clone();
        while !self.site.ends() {
            self.site
                .sleep(Duration::from_micros(self.random.below(THINK)))
                .await;
            let (life, client) = machine.alive().await;
            let with = With {
                client: &client,
                life,
            };
            self.meet(with);
            self.act(with).await;
        }
        let (life, client) = machine.alive().await;
        let with = With {
            client: &client,
            life,
        };
        self.meet(with);
        self.look_at_all(with).await;
        for (_, file) in std::mem::take(&mut self.open) {
            let _ = machine.run(life, client.release(file.id())).await;
        }
    }

    async fn act(&mut self, with: With<'_>) {
        match self.random.below(100) {
            0..32 => self.change_names(with).await,
            32..40 => self.look_at_names(with).await,
            40..44 => self.sync_names(with).await,
            44..58 => self.write_block(with).await,
            58..68 => self.read_block(with).await,
            68..72 => self.sync_file(with).await,
            72..77 => self.append(with).await,
            77..80 => self.read_log(with).await,
            80..89 => self.use_kept(with).await,
            _ => self.peek(with).await,
        }
    }

    /// Looks at everything at the end, when nothing fails any more.
    async fn look_at_all(&mut self, with: With<'_>) {
        self.list(with).await;
        self.read_log(with).await;
        let files = self.site.commons.lock().files.len();
        for file in 0..files {
            for place in PLACES {
                self.read_one_block(with, file, place).await;
            }
        }
        for number in 0..self.others.len() {
            self.peek_at(with, number).await;
        }
    }

    fn meet(&mut self, with: With<'_>) {
        let session = with.client.session();
        if with.life == self.life && session == self.session {
            return;
        }
        let same_life = with.life == self.life;
        for (_, file) in std::mem::take(&mut self.open) {
            if same_life {
                self.site.close_late(self.machine, with, &file);
            }
        }
        (self.life, self.session) = (with.life, session);
        self.last_change = None;
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
    fn excuse(&self, what: &str, failure: &Failure, since: u64, late: bool) {
        self.say(format_args!("{what}: {failure:?}"));
        let who = (self.machine, self.session);
        let excused = self.site.excuses(failure, who, since, late);
        assert!(
            excused,
            "c{} {what}: {failure:?} without an excuse",
            self.machine
        );
    }

    fn say(&self, what: impl std::fmt::Display) {
        self.site
            .say(format_args!("c{} shared {what}", self.machine));
    }

    /// What may be there, as all know it now.
    fn commons(&self) -> parking_lot::MutexGuard<'_, Commons> {
        self.site.commons.lock()
    }
}
