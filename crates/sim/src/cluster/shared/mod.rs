//! # shared: a directory and files that all programs change at once
//!
//! Owns   the states possible after overlapping calls, and the programs that make the calls.
//! Never  guesses an order: each reply must fit one.
//! Enter  at `Commons` (the possible states), `Sharer::work` (a program).

mod blocks;
mod bytes;
mod entries;
mod names;
mod peek;

use super::machine::{Failure, With};
use super::own::Published;
use super::possible::Possible;
use super::site::Site;
use blocks::{Block, Blocks, Log, Records, block_of};
use entries::{Entries, Names, Thing};
use gupfs_client::OpenFile;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::{InodeId, SessionId};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Blocks of the shared files that are written: at the borders of objects and stripe units, and some together.
pub const PLACES: [u64; 7] = [0, 1, 31, 32, 47, 48, 63];

/// Blocks of one shared file.
pub const FILE_BLOCKS: u64 = 64;

/// Records of the log in one block.
pub const RECORDS_OF_BLOCK: usize = blocks::BLOCK / blocks::SECTOR;

/// Between two calls, at most, in microseconds.
const THINK: u64 = 700_000;

/// A change requested by a client that has died may wait at a server for this long before the server makes it.
const LATE: Duration = Duration::from_secs(100);

/// The state that all programs share: the possible states of each object.
#[derive(Default)]
pub struct Commons {
    pub dir: InodeId,
    /// None before the start.
    names: Option<Possible<Entries>>,
    /// The inode number that each create request got.
    things: BTreeMap<InodeId, Thing>,
    files: Vec<Shared>,
    log: Option<(InodeId, Possible<Log>)>,
    /// Files that their only writer has finished: their bytes, until a power loss takes them.
    kept: BTreeMap<InodeId, Arc<Vec<u8>>>,
    /// By machine, when the look at bytes began that is under way: a sync beside it rules nothing out for it.
    looks: BTreeMap<usize, u64>,
}

struct Shared {
    ino: InodeId,
    blocks: BTreeMap<u64, Possible<Blocks>>,
}

impl Commons {
    /// With an empty directory, files whose every block holds one value, and a log of some records of one value; all of it
    /// durable.
    pub fn begin(
        dir: InodeId,
        files: &[(InodeId, u64)],
        (log, value, records): (InodeId, u64, usize),
    ) -> Commons {
        let blocks = |value: u64| {
            let block = |place: &u64| (*place, Possible::<Blocks>::new(block_of(value)));
            PLACES.iter().map(block).collect()
        };
        let shared = |(ino, value): &(InodeId, u64)| Shared {
            ino: *ino,
            blocks: blocks(*value),
        };
        Commons {
            dir,
            names: Some(Possible::new(Names::new())),
            things: BTreeMap::new(),
            files: files.iter().map(shared).collect(),
            log: Some((log, Possible::new(Records::of(value, records)))),
            looks: BTreeMap::new(),
            kept: BTreeMap::new(),
        }
    }

    /// The metadata server loses power while all clients live: they replay their answered changes. False if a program
    /// has seen a change without a reply: that one may be undone until its client replays it.
    pub fn names_are_replayed(&self) -> bool {
        self.names
            .as_ref()
            .is_none_or(Possible::may_be_without_asked)
    }

    /// The metadata server lost power: of what was done since `synced` any may be undone; how long a file was only if its
    /// holder may be gone (`undoes`).
    pub fn cut_names(&mut self, now: u64, synced: u64, undoes: bool) {
        if let Some(names) = &mut self.names {
            names.synced(synced);
            names.cut(now);
        }
        if !undoes {
            return;
        }
        if let Some((_, log)) = &mut self.log {
            log.cut(now);
        }
        self.kept.clear();
    }

    /// An object server lost power.
    pub fn cut_bytes(&mut self, now: u64) {
        for file in &mut self.files {
            file.blocks.values_mut().for_each(|block| block.cut(now));
        }
        if let Some((_, log)) = &mut self.log {
            log.cut(now);
        }
        self.kept.clear();
    }

    fn names(&mut self) -> &mut Possible<Entries> {
        self.names.as_mut().expect("it has begun")
    }

    fn log(&mut self) -> &mut Possible<Log> {
        &mut self.log.as_mut().expect("it has begun").1
    }

    fn block(&mut self, file: usize, place: u64) -> &mut Possible<Blocks> {
        let block = self.files[file].blocks.get_mut(&place);
        block.expect("a place that is written")
    }
}

/// A program that changes the shared files.
pub struct Sharer {
    site: Arc<Site>,
    machine: usize,
    dice: FakeRandom,
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
        dice: FakeRandom,
        others: Vec<Arc<Mutex<Published>>>,
    ) -> Sharer {
        Sharer {
            site: site.clone(),
            machine,
            dice,
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
                .sleep(Duration::from_micros(self.dice.below(THINK)))
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
        match self.dice.below(100) {
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

/// The bytes of so many blocks that all hold one value.
pub fn fill_of(value: u64, blocks: u64) -> Vec<u8> {
    blocks::fill(value, blocks as usize * blocks::BLOCK)
}

/// Text of a block's possible states, for the message of a failure.
fn show_block(block: &Block) -> String {
    format!("{block:?}")
}
