//! Changing and looking at names that others change.

use super::{LATE, Sharer, With};
use crate::cluster::arguments::{both_ways, flags, make, me, name};
use crate::cluster::machine::Failure;
use crate::cluster::shared_state::blocks::fill;
use crate::cluster::shared_state::entries::{Change, Names, Out, Thing};
use gupfs_client::{EntryName, OpenFile, WriteOptions};
use gupfs_proto::meta::{RenameMode, WritePosition};
use gupfs_proto::{FileKind, FsError, InodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

const NAMES: u64 = 4;

/// What a change gave besides its outcome.
#[derive(Default)]
struct Given {
    ino: Option<InodeId>,
    file: Option<Arc<OpenFile>>,
}

impl Sharer {
    fn any_name(&self) -> u8 {
        self.random.below(NAMES) as u8
    }

    pub(super) async fn change_names(&mut self, with: With<'_>) {
        let thing = |is_dir| Thing {
            made_by: self.site.moment(),
            is_dir,
        };
        let name = self.any_name();
        let change = match self.random.below(10) {
            0..4 => Change::Create {
                name,
                thing: thing(false),
            },
            4 => Change::Create {
                name,
                thing: thing(true),
            },
            5 | 6 => Change::Unlink { name },
            7 => Change::Rmdir { name },
            8 => Change::Rename {
                from: name,
                to: self.any_name(),
            },
            _ => return self.link(with).await,
        };
        self.change(with, change, None).await;
    }

    async fn link(&mut self, with: With<'_>) {
        let known = {
            let commons = self.commons();
            let files = commons.things.iter().filter(|(_, thing)| !thing.is_dir);
            let files: Vec<(InodeId, Thing)> = files.map(|(ino, thing)| (*ino, *thing)).collect();
            let recent = files.len().saturating_sub(4);
            files[recent..].to_vec()
        };
        if known.is_empty() {
            return;
        }
        let (ino, thing) = known[self.random.below(known.len() as u64) as usize];
        let name = self.any_name();
        self.change(with, Change::Link { thing, name }, Some(ino))
            .await;
    }

    async fn change(&mut self, with: With<'_>, change: Change, linked: Option<InodeId>) {
        let (since, asked) = (self.site.millis(), self.site.moment());
        let cuts = self.site.troubles.cuts().metadata;
        let dir = self.commons().dir;
        let ticket = self.commons().names().ask(change);
        let answer = self.call(with, ask(with, dir, change, linked)).await;
        let now = self.site.moment();
        self.say(format_args!("{change:?}: {:?}", answer.as_ref().map(drop)));
        let (answer, failure) = match answer {
            Ok(given) => (Ok(given), None),
            Err(Failure::Killed) => {
                // The change may still be made: the server goes on with it after its client has died.
                let site = self.site.clone();
                self.site.spawn("what was asked late", async move {
                    site.sleep(LATE).await;
                    let now = site.moment();
                    site.commons.lock().names().unanswered(now, ticket);
                });
                return;
            }
            Err(Failure::Refused(refusal)) => {
                (Err(refusal.clone()), Some(Failure::Refused(refusal)))
            }
        };
        // A file that lost its last name before it is linked is not found, or stale.
        let out = match (&answer, change) {
            (Err(FsError::Stale), Change::Link { .. }) => Some(Out::Missing),
            (answer, _) => Out::of(answer),
        };
        let Some(out) = out else {
            self.commons().names().unanswered(now, ticket);
            if let Some(failure) = failure {
                self.excuse("change of names", &failure, since, false);
            }
            return;
        };
        self.last_change = Some((asked, cuts));
        let (fits, may_be) = {
            let mut commons = self.commons();
            let names = commons.names();
            let may_be: Vec<Names> = names.states().cloned().collect();
            (names.answered(now, ticket, |it| *it == out), may_be)
        };
        assert!(
            fits || self.is_lost_link(with, change, &answer),
            "c{} {change:?} gave {out:?}, which no order of what was asked does; it was one of {may_be:?}",
            self.machine
        );
        if let Ok(given) = answer {
            self.took(with, change, given, cuts).await;
        }
    }

    /// A link in a session that was ended is stale, too.
    fn is_lost_link(
        &self,
        with: With<'_>,
        change: Change,
        answer: &Result<Given, FsError>,
    ) -> bool {
        let is_link = matches!(change, Change::Link { .. });
        is_link && matches!(answer, Err(FsError::Stale)) && with.client.session() != self.session
    }

    /// What was made is known from now on.
    async fn took(&mut self, with: With<'_>, change: Change, given: Given, cuts: u64) {
        let Some(ino) = given.ino else { return };
        with.client.forget([(ino, 1)]);
        let Change::Create { thing, .. } = change else {
            return;
        };
        self.site.given(ino);
        self.commons().things.insert(ino, thing);
        let Some(file) = given.file else { return };
        self.open.insert(ino, file.clone());
        if self.random.one_in(2) {
            return;
        }
        let len = [512, 9_216, 100 << 10][self.random.below(3) as usize];
        let bytes = fill(self.site.value(), len);
        let (since, objects) = (self.site.millis(), self.site.troubles.cuts().objects);
        let write = with.client.write(
            &file,
            WritePosition::Offset(0),
            bytes.clone().into(),
            WriteOptions::default(),
        );
        match self.call(with, write).await {
            Ok(done) => {
                let now = self.site.troubles.cuts();
                if done.written == len as u64 && (now.metadata, now.objects) == (cuts, objects) {
                    self.commons().kept.insert(ino, Arc::new(bytes));
                }
            }
            Err(failure) => self.excuse("write of a new file", &failure, since, false),
        }
    }

    pub(super) async fn look_at_names(&mut self, with: With<'_>) {
        if self.random.one_in(2) {
            return self.list(with).await;
        }
        let (text, me) = (self.any_name(), me());
        let dir = self.commons().dir;
        let (since, begun) = (self.site.millis(), self.site.moment());
        let name = name(text);
        let found = self.call(with, with.client.lookup(&me, dir, &name)).await;
        let now = self.site.moment();
        let found = match found {
            Ok(attr) => {
                with.client.forget([(attr.ino, 1)]);
                Some((attr.ino, attr.kind == FileKind::Directory))
            }
            Err(Failure::Refused(FsError::NotFound)) => None,
            Err(failure) => return self.excuse("lookup", &failure, since, false),
        };
        self.say(format_args!("lookup {text}: {found:?}"));
        let mut commons = self.site.commons.lock();
        let things = commons.things.clone();
        let names = commons.names();
        let fits = names.looked(begun, now, |names| is_it(&things, names.get(&text), found));
        let may_be: Vec<&Names> = names.states().collect();
        assert!(
            fits,
            "c{} found {text} to be {found:?}, and it is one of {may_be:?}; {things:?}",
            self.machine
        );
    }

    pub(super) async fn list(&mut self, with: With<'_>) {
        let me = me();
        let dir = self.commons().dir;
        let (since, begun) = (self.site.millis(), self.site.moment());
        let listing = with.client.readdir(&me, dir, 0, 1000, false);
        let listing = match self.call(with, listing).await {
            Ok(listing) => listing,
            Err(failure) => return self.excuse("readdir", &failure, since, false),
        };
        let now = self.site.moment();
        let entries = listing.entries.iter();
        let found: BTreeMap<u8, (InodeId, bool)> = entries
            .filter_map(|entry| match &entry.name {
                EntryName::Name(text) => {
                    let is_dir = entry.kind == FileKind::Directory;
                    Some((text.as_bytes()[0] - b'a', (entry.ino, is_dir)))
                }
                _ => None,
            })
            .collect();
        self.say(format_args!("readdir: {found:?}"));
        let mut commons = self.site.commons.lock();
        let things = commons.things.clone();
        let names = commons.names();
        let fits = names.looked(begun, now, |names| {
            (0..NAMES as u8).all(|name| is_it(&things, names.get(&name), found.get(&name).copied()))
        });
        let may_be: Vec<&Names> = names.states().collect();
        assert!(
            fits,
            "c{} lists {found:?}, and there is one of {may_be:?}; {things:?}",
            self.machine
        );
    }

    pub(super) async fn sync_names(&mut self, with: With<'_>) {
        let since = self.site.millis();
        match self.call(with, with.client.fsync_dir()).await {
            Ok(()) => {
                self.say("fsync of the directory");
                let cuts = self.site.troubles.cuts().metadata;
                if let Some((asked, then)) = self.last_change
                    && then == cuts
                {
                    self.commons().names().synced(asked);
                }
            }
            Err(failure) => self.excuse("fsync of the directory", &failure, since, true),
        }
    }
}

/// Asks the client for a change.
async fn ask(
    with: With<'_>,
    dir: InodeId,
    change: Change,
    linked: Option<InodeId>,
) -> Result<Given, FsError> {
    let (client, me) = (with.client, me());
    let nothing = Given::default();
    match change {
        Change::Create { name: text, thing } if thing.is_dir => {
            let attr = client.mkdir(&me, dir, &name(text), make()).await?;
            let ino = Some(attr.ino);
            Ok(Given { ino, file: None })
        }
        Change::Create { name: text, .. } => {
            let text = name(text);
            let made = client.create(&me, dir, &text, make(), true, both_ways(), flags());
            let file = made.await?.file;
            Ok(Given {
                ino: Some(file.ino()),
                file: Some(file),
            })
        }
        Change::Unlink { name: text } => {
            client.unlink(&me, dir, &name(text)).await.map(|_| nothing)
        }
        Change::Rmdir { name: text } => client.rmdir(&me, dir, &name(text)).await.map(|_| nothing),
        Change::Rename { from, to } => {
            let (old, new) = (name(from), name(to));
            let how = RenameMode::Replace;
            let renamed = client.rename(&me, (dir, &old), (dir, &new), how);
            renamed.await.map(|_| nothing)
        }
        Change::Link { name: text, .. } => {
            let ino = linked.unwrap_or_default();
            client.link(&me, ino, dir, &name(text)).await?;
            let ino = Some(ino);
            Ok(Given { ino, file: None })
        }
    }
}

/// Whether the inode found may be this thing. No program knows the number of a file whose create has no reply.
fn is_it(
    things: &BTreeMap<InodeId, Thing>,
    thing: Option<&Thing>,
    found: Option<(InodeId, bool)>,
) -> bool {
    match (thing, found) {
        (None, None) => true,
        (Some(thing), Some((ino, is_dir))) => match things.get(&ino) {
            Some(known) => known == thing,
            None => thing.is_dir == is_dir && !things.values().any(|known| known == thing),
        },
        _ => false,
    }
}
