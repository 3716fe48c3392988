//! # own: a program with a directory that it alone changes
//!
//! Owns   the exact expected state after each of its calls; what a crash may undo; what other programs may see of it.
//! Never  accepts an error that no fault excuses.
//! Enter  at `Own::work`; other programs compare with `Published`.

mod act;
mod eras;
mod look;
mod names;

use super::machine::{Failure, With};
use super::site::Site;
use super::troubles::Cuts;
use crate::process::file_content::FileContent;
use eras::Eras;
use gupfs_client::OpenFile;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::{InodeId, SessionId};
use names::Names;
pub use names::Tree;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The longest file: short, so that many can be compared.
const LONGEST: u64 = 400_000;

/// Longest pause between two calls, in microseconds.
const THINK: u64 = 500_000;

/// What other programs may see of a program's directory.
pub struct Published {
    pub dir: InodeId,
    pub names: Eras<Tree>,
    pub bytes: BTreeMap<InodeId, Eras<Arc<Vec<u8>>>>,
    /// Files that another program synced, with the bytes that they had during the sync: not yet noticed by the owning
    /// program.
    pub synced: Vec<(InodeId, Arc<Vec<u8>>)>,
    /// A change has no reply, or may be lost: no other program can judge.
    pub unsure: bool,
    /// Rises with each look of the owning program.
    pub looks: u64,
    /// Its client's session, at the last look.
    pub session: SessionId,
    /// Power losses that it has judged.
    pub cuts: Cuts,
}

pub struct Own {
    site: Arc<Site>,
    machine: usize,
    dir: InodeId,
    random: FakeRandom,
    names: Names,
    contents: BTreeMap<InodeId, FileContent>,
    open: BTreeMap<InodeId, Arc<OpenFile>>,
    /// The instance of the client, and its session, in which the files were opened.
    life: u64,
    session: SessionId,
    /// Power losses that it has judged.
    cuts: Cuts,
    must_look: bool,
    /// The client has another instance or session than at the last look: nothing replays its unsynced changes.
    begins_anew: bool,
    /// Files that another program synced since this one last did: its client does not know of it.
    synced_by_others: BTreeSet<InodeId>,
    /// Since the last look the write leases have left this session, and an object server has lost power at some time.
    holds_no_more: bool,
    shown: Arc<Mutex<Published>>,
}

impl Own {
    pub fn new(site: &Arc<Site>, machine: usize, dir: InodeId, random: FakeRandom) -> Own {
        let shown = Published {
            dir,
            names: Eras::since(0, Tree::new()),
            bytes: BTreeMap::new(),
            synced: Vec::new(),
            unsure: false,
            looks: 0,
            session: SessionId(0),
            cuts: site.troubles.cuts(),
        };
        Own {
            site: site.clone(),
            machine,
            dir,
            random,
            names: Names::new(),
            contents: BTreeMap::new(),
            open: BTreeMap::new(),
            life: 0,
            session: SessionId(0),
            cuts: site.troubles.cuts(),
            must_look: false,
            begins_anew: false,
            synced_by_others: BTreeSet::new(),
            holds_no_more: false,
            shown: Arc::new(Mutex::new(shown)),
        }
    }

    pub fn shown(&self) -> Arc<Mutex<Published>> {
        self.shown.clone()
    }

    /// Runs until the simulation ends; then looks a last time.
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
            self.notice_syncs();
            self.meet(&with);
            if self.must_look && !(self.random.one_in(3) && self.fsync_blindly(&with).await) {
                self.look(&with).await;
                continue;
            }
            self.act(&with).await;
        }
        self.must_look = true;
        while self.must_look {
            self.notice_syncs();
            let (life, client) = machine.alive().await;
            let with = With {
                client: &client,
                life,
            };
            self.meet(&with);
            self.look(&with).await;
        }
        self.close_all().await;
    }

    /// Files opened in an earlier instance or session are stale; after a power loss the program must look at
    /// everything.
    fn meet(&mut self, with: &With<'_>) {
        let cuts = self.site.troubles.cuts();
        if with.life != self.life || with.client.session() != self.session {
            let new_life = with.life != self.life;
            self.open.retain(|_, file| {
                if !new_life {
                    self.site.close_late(self.machine, *with, file);
                }
                false
            });
            self.say(format_args!(
                "goes on in life {}, session {}",
                with.life,
                with.client.session()
            ));
            self.life = with.life;
            self.session = with.client.session();
            self.holds_no_more = cuts.objects > 0;
            self.begins_anew = true;
            self.must_look = true;
        }
        if cuts != self.cuts {
            self.must_look = true;
        }
        if self.must_look {
            self.shown.lock().unsure = true;
        }
    }

    /// Bytes that other programs synced are durable, whichever program wrote them.
    fn notice_syncs(&mut self) {
        let synced = std::mem::take(&mut self.shown.lock().synced);
        for (ino, bytes) in synced {
            if let Some(known) = self.contents.get_mut(&ino)
                && known.bytes() == bytes.as_slice()
            {
                self.site.watch.count("sync of another's bytes");
                known.synced_if_answered();
                self.synced_by_others.insert(ino);
            }
        }
    }

    async fn close_all(&mut self) {
        let machine = self.site.machines[self.machine].clone();
        let (life, client) = machine.alive().await;
        for (_, file) in std::mem::take(&mut self.open) {
            let _ = machine.run(life, client.release(file.id())).await;
        }
    }

    /// One call of the client, unless the client dies before.
    async fn call<T>(
        &self,
        with: &With<'_>,
        call: impl Future<Output = Result<T, gupfs_proto::FsError>>,
    ) -> Result<T, Failure> {
        self.site.machines[self.machine].run(with.life, call).await
    }

    /// # Panics
    /// When no fault excuses the failure.
    fn excuse(&self, what: &str, failure: &Failure, since: u64, late: bool) {
        let who = (self.machine, self.session);
        let excused = self.site.excuses(failure, who, since, late);
        assert!(
            excused,
            "c{} {what}: {failure:?}, which no fault explains",
            self.machine
        );
    }

    /// No power loss since can have taken anything that this program was answered: no object server's; the metadata server's
    /// take nothing while the client lives, and its session.
    fn is_as_told_since(&self, cuts: Cuts) -> bool {
        let now = self.site.troubles.cuts();
        now.objects == cuts.objects && (now.metadata == cuts.metadata || self.lives())
    }

    /// The session is not known to have ended.
    fn lives(&self) -> bool {
        self.site.watch.ended(self.session).is_none()
    }

    fn is_otherwise(&self, ino: InodeId, what: impl std::fmt::Display) -> ! {
        panic!("c{}: {ino} is otherwise: {what}", self.machine);
    }

    fn say(&self, what: impl std::fmt::Display) {
        self.site.say(format_args!("c{} own {what}", self.machine));
    }
}
