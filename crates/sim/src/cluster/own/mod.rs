//! # own: a program with a directory that only it changes
//!
//! Owns   what must be there, exactly, after each of its calls; what a crash may have taken; what others may see of it.
//! Never  forgives a refusal that nothing excuses.
//! Enter  at `Own::work`; others look by `Published`.

mod act;
mod eras;
mod look;
mod names;

use super::machine::{Failure, With};
use super::site::Site;
use super::troubles::Cuts;
use crate::whole::content::Content;
use eras::Eras;
use gupfs_client::{OpenFile, OpenFileFlags};
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::meta::{AccessMode, CreateMode, OpenMode};
use gupfs_proto::{Caller, InodeId, Name, SessionId};
use names::Names;
pub use names::Tree;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The longest file, so that many can be compared.
const LONGEST: u64 = 400_000;

/// Between two calls, at most, in microseconds.
const THINK: u64 = 500_000;

/// What others may see of a program's directory.
pub struct Published {
    pub dir: InodeId,
    pub names: Eras<Tree>,
    pub bytes: BTreeMap<InodeId, Eras<Arc<Vec<u8>>>>,
    /// Files that another program synced, and what was in them all that time: not yet noticed by the program itself.
    pub synced: Vec<(InodeId, Arc<Vec<u8>>)>,
    /// Something was not answered, or may be lost: nobody else can judge.
    pub unsure: bool,
    /// Rises with each look of the program itself.
    pub looks: u64,
    /// Its client's, at the last of them.
    pub session: SessionId,
    /// Power cuts that it has judged.
    pub cuts: Cuts,
}

pub struct Own {
    site: Arc<Site>,
    machine: usize,
    dir: InodeId,
    dice: FakeRandom,
    names: Names,
    contents: BTreeMap<InodeId, Content>,
    open: BTreeMap<InodeId, Arc<OpenFile>>,
    /// The life of the client, and its session, in which they were opened.
    life: u64,
    session: SessionId,
    /// Power cuts that it has judged.
    cuts: Cuts,
    must_look: bool,
    /// Another life, or another session, than at the last look: what it had not synced nobody says again.
    begins_anew: bool,
    /// Files that another program synced since this one did so last: its client does not know of it.
    synced_by_others: BTreeSet<InodeId>,
    /// What was held is another session's, or nobody's, since the last look, and an object server lost power some time.
    holds_no_more: bool,
    shown: Arc<Mutex<Published>>,
}

pub fn me() -> Caller {
    Caller::new(1000, 1000, [])
}

pub fn name(number: u8) -> Name {
    Name::new(&[b'a' + number]).expect("a short name")
}

pub fn make() -> CreateMode {
    CreateMode {
        mode: 0o755,
        umask: 0,
    }
}

pub fn both_ways() -> OpenMode {
    OpenMode {
        access: AccessMode::READ | AccessMode::WRITE,
        truncate: false,
        kill_privileges: false,
    }
}

pub fn flags() -> OpenFileFlags {
    OpenFileFlags::default()
}

impl Own {
    pub fn new(site: &Arc<Site>, machine: usize, dir: InodeId, dice: FakeRandom) -> Own {
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
            dice,
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

    /// Until the site ends; then it looks a last time.
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
            self.notice_syncs();
            self.meet(&with);
            if self.must_look && !(self.dice.one_in(3) && self.fsync_blindly(&with).await) {
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

    /// What was open in another life or session is stale; what a power cut may have taken is to be looked at.
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

    /// What others synced is durable, whoever wrote it.
    fn notice_syncs(&mut self) {
        let synced = std::mem::take(&mut self.shown.lock().synced);
        for (ino, bytes) in synced {
            if let Some(known) = self.contents.get_mut(&ino)
                && known.bytes() == bytes.as_slice()
            {
                self.site.watch.saw("sync of another's bytes");
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

    /// One call of the client, unless that dies before.
    async fn call<T>(
        &self,
        with: &With<'_>,
        call: impl Future<Output = Result<T, gupfs_proto::FsError>>,
    ) -> Result<T, Failure> {
        self.site.machines[self.machine].run(with.life, call).await
    }

    /// # Panics
    /// When nothing excuses it.
    fn excuse(&self, what: &str, failure: &Failure, since: u64, late: bool) {
        let who = (self.machine, self.session);
        let excused = self.site.excuses(failure, who, since, late);
        assert!(
            excused,
            "c{} {what}: {failure:?} without an excuse",
            self.machine
        );
    }

    /// No power cut since can have taken anything that this program was answered: no object server's; the metadata server's
    /// take nothing while the client lives, and its session.
    fn is_as_told_since(&self, cuts: Cuts) -> bool {
        let now = self.site.troubles.cuts();
        now.objects == cuts.objects && (now.metadata == cuts.metadata || self.lives())
    }

    /// The session that it counts on was not found to have ended.
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
