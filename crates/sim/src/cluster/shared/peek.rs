//! Looking at what another program does in its own directory: what was answered to it is seen from then on.

use super::{Sharer, With};
use crate::cluster::arguments::{both_ways, flags, me};
use crate::cluster::machine::Failure;
use crate::cluster::own::Tree;
use crate::cluster::troubles::Cuts;
use gupfs_client::{EntryName, OpenFile, ReadOptions};
use gupfs_proto::{FsError, InodeId};
use std::sync::Arc;

/// How often the other program has looked, and the power losses it has judged: if they are as before, so is what it knows.
type Sure = (u64, Cuts);

/// More than any file has.
const ALL: u64 = 1 << 20;

impl Sharer {
    pub(super) async fn peek(&mut self, with: With<'_>) {
        let number = self.random.below(self.others.len() as u64) as usize;
        self.peek_at(with, number).await;
    }

    pub(super) async fn peek_at(&mut self, with: With<'_>, number: usize) {
        let files: Vec<InodeId> = self.others[number].lock().bytes.keys().copied().collect();
        match self.random.below(files.len() as u64 + 1) as usize {
            0 => self.peek_at_names(with, number).await,
            file => self.peek_at_file(with, number, files[file - 1]).await,
        }
    }

    /// The looks of the other program so far, if what it knows is sure.
    fn is_sure(&self, number: usize) -> Option<Sure> {
        let (shown, cuts) = (self.others[number].lock(), self.site.troubles.cuts());
        // What it holds is its own word, also of bytes that an object server has lost; once its session has ended the objects'.
        let lives = |session| {
            let mds = self.site.metadata.mds();
            mds.is_some_and(|mds| mds.has_session(session))
        };
        let counts = cuts.objects == 0 || lives(shown.session);
        (!shown.unsure && shown.cuts == cuts && counts).then_some((shown.looks, cuts))
    }

    async fn peek_at_names(&mut self, with: With<'_>, number: usize) {
        let Some(sure) = self.is_sure(number) else {
            return;
        };
        let (since, begun, me) = (self.site.millis(), self.site.moment(), me());
        let dir = self.others[number].lock().dir;
        let listing = with.client.readdir(&me, dir, 0, 1000, false);
        let listing = match self.call(with, listing).await {
            Ok(listing) => listing,
            Err(failure) => return self.excuse("peek at names", &failure, since, false),
        };
        let now = self.site.moment();
        if self.is_sure(number) != Some(sure) {
            return;
        }
        let entries = listing.entries.iter();
        let mut found: Vec<u8> = entries
            .filter_map(|entry| match &entry.name {
                EntryName::Name(text) => Some(text.as_bytes()[0] - b'a'),
                _ => None,
            })
            .collect();
        found.sort_unstable();
        let shown = self.others[number].lock();
        let Some(states) = shown.names.between(begun, now) else {
            return;
        };
        self.site.watch.count("look at another's names");
        let fits = |tree: &&Tree| {
            let here = tree.keys().filter(|(of, _)| *of == dir);
            here.map(|(_, name)| *name).eq(found.iter().copied())
        };
        assert!(
            states.iter().any(fits),
            "c{} sees {found:?} of c{number}, and there was one of {states:?}",
            self.machine
        );
    }

    async fn peek_at_file(&mut self, with: With<'_>, number: usize, ino: InodeId) {
        let Some(sure) = self.is_sure(number) else {
            return;
        };
        let (since, me) = (self.site.millis(), me());
        let opened = with.client.open(&me, ino, both_ways(), flags());
        let file = match self.call(with, opened).await {
            Ok(opened) => opened.file,
            // Its last name went.
            Err(Failure::Refused(FsError::Stale | FsError::NotFound)) => return,
            Err(failure) => return self.excuse("peek", &failure, since, false),
        };
        if self.random.one_in(2) {
            self.sync_for(with, number, &file, sure).await;
        }
        let begun = self.site.moment();
        let read = with.client.read(&file, 0, ALL, ReadOptions::default());
        let read = self.call(with, read).await;
        let now = self.site.moment();
        let closed = self.call(with, with.client.release(file.id())).await;
        if let Err(failure) = closed {
            self.excuse("close after a peek", &failure, since, true);
        }
        let found = match read {
            Ok(found) => found.concat(),
            Err(failure) => return self.excuse("peek", &failure, since, false),
        };
        if self.is_sure(number) != Some(sure) {
            return;
        }
        let shown = self.others[number].lock();
        let Some(eras) = shown.bytes.get(&ino) else {
            return;
        };
        let Some(states) = eras.between(begun, now) else {
            return;
        };
        self.site.watch.count("look at another's bytes");
        // One read may see a part of a write that goes on beside it.
        let lens = || states.iter().map(|state| state.len());
        let (least, most) = (lens().min().unwrap_or(0), lens().max().unwrap_or(0));
        assert!(
            (least..=most).contains(&found.len()),
            "c{} sees {} bytes of {ino} of c{number}, not {least}..={most}",
            self.machine,
            found.len()
        );
        if states.iter().any(|state| ***state == found) {
            return;
        }
        for (at, byte) in found.iter().enumerate() {
            let as_in = |state: &&Arc<Vec<u8>>| state.get(at).copied().unwrap_or(0) == *byte;
            assert!(
                states.iter().any(as_in),
                "c{} sees byte {at} of {ino} of c{number} as {byte}, which it was not in this time",
                self.machine
            );
        }
    }
    /// Syncs another's file: what it held all that time survives a power loss, and its writer counts on it.
    async fn sync_for(&mut self, with: With<'_>, number: usize, file: &Arc<OpenFile>, sure: Sure) {
        let (since, begun) = (self.site.millis(), self.site.moment());
        let synced = self.call(with, with.client.fsync(file, false)).await;
        let now = self.site.moment();
        if let Err(failure) = synced {
            return self.excuse("fsync of another's file", &failure, since, true);
        }
        if self.is_sure(number) != Some(sure) {
            return;
        }
        let mut shown = self.others[number].lock();
        let states = shown.bytes.get(&file.ino());
        if let Some([state]) = states.and_then(|eras| eras.between(begun, now)).as_deref() {
            let state = Arc::clone(state);
            shown.synced.push((file.ino(), state));
        }
    }
}
