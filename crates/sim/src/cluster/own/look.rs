//! Looks at everything after a fault that may have changed it: whatever was promised to stay must be there.

use super::eras::Eras;
use super::names::{Entry, Tree};
use super::{LONGEST, Own, With};
use crate::cluster::arguments::{both_ways, flags, me};
use crate::cluster::machine::Failure;
use crate::cluster::troubles::SYNCED;
use gupfs_client::{EntryName, ReadOptions};
use gupfs_proto::{Attr, FileKind, InodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The names and bytes found.
struct Found {
    tree: Tree,
    attrs: BTreeMap<InodeId, Attr>,
    bytes: BTreeMap<InodeId, Vec<u8>>,
}

impl Own {
    /// A failed look is repeated later.
    pub(super) async fn look(&mut self, with: &With<'_>) {
        let (cuts, since) = (self.site.troubles.cuts(), self.site.millis());
        let found = match self.find(with).await {
            Ok(found) => found,
            Err(failure) => {
                self.say(format_args!("cannot look: {failure:?}"));
                return self.excuse("look", &failure, since, true);
            }
        };
        if self.site.troubles.cuts() != cuts || with.client.session() != self.session {
            return; // again
        }
        // While the client lives, and its session, a power loss of the metadata server undoes nothing.
        let cut = match self.begins_anew {
            true => self.site.troubles.metadata_cut_after(self.cuts.metadata),
            false => None,
        };
        let (names_cut, bytes_cut) = (
            cut.map(|at| at.saturating_sub(SYNCED)),
            cut.is_some() || cuts.objects != self.cuts.objects,
        );
        if cuts.metadata != self.cuts.metadata && !self.begins_anew {
            self.site
                .watch
                .count("power loss of the metadata server that took nothing of a program");
        }
        self.say(format_args!(
            "looks: names cut since {names_cut:?}, bytes cut {bytes_cut}, {} names",
            found.tree.len()
        ));
        self.judge(found, names_cut, bytes_cut);
        self.cuts = cuts;
        self.must_look = false;
        self.begins_anew = false;
        self.holds_no_more = false;
        self.publish_all();
    }

    /// `names_cut`: since when names may have been undone, in milliseconds.
    fn judge(&mut self, found: Found, names_cut: Option<u64>, bytes_cut: bool) {
        if names_cut.is_some() && self.names.depth() > 1 {
            self.site.watch.count("unsynced names at a power loss");
        }
        let tree = found.tree.clone();
        if let Err(wrong) = self.names.found(found.tree, names_cut) {
            panic!("c{}: {wrong}", self.machine);
        }
        for (ino, bytes) in found.bytes {
            let attr = &found.attrs[&ino];
            let links = tree.values().filter(|entry| entry.ino == ino).count();
            assert_eq!(
                attr.nlink as usize, links,
                "c{}: names of {ino}",
                self.machine
            );
            if attr.size != bytes.len() as u64 {
                self.is_otherwise(
                    ino,
                    format_args!("{} bytes, size {}", bytes.len(), attr.size),
                );
            }
            let known = self.contents.entry(ino).or_default();
            if bytes_cut && known.is_unsynced() {
                self.site.watch.count("unsynced bytes at a power loss");
            }
            // The lease holder reported the file's size, also where an object server's power loss had taken the end;
            // now the objects decide.
            let by_objects = self.holds_no_more && known.is_unsynced();
            let possible = match bytes_cut || by_objects {
                true => known.check_after_partial_power_loss(bytes),
                false => known.check_after_kill(bytes),
            };
            if let Err(wrong) = possible {
                self.is_otherwise(ino, format_args!("power loss {bytes_cut}: {wrong}"));
            }
        }
        // A file without a name is gone, unless it is certainly still open here.
        let open = &self.open;
        self.contents.retain(|ino, known| {
            let has_name = tree.values().any(|entry| entry.ino == *ino);
            has_name || (open.contains_key(ino) && !bytes_cut && !known.is_unanswered())
        });
    }

    async fn find(&self, with: &With<'_>) -> Result<Found, Failure> {
        let mut found = Found {
            tree: Tree::new(),
            attrs: BTreeMap::new(),
            bytes: BTreeMap::new(),
        };
        let client = with.client;
        let mut dirs = vec![self.dir];
        while let Some(dir) = dirs.pop() {
            let me = me();
            let listing = client.readdir(&me, dir, 0, 1000, true);
            for entry in self.call(with, listing).await?.entries {
                let EntryName::Name(text) = entry.name else {
                    continue;
                };
                let attr = self.call(with, client.lookup(&me, dir, &text)).await?;
                client.forget([(attr.ino, 1)]);
                let is_dir = attr.kind == FileKind::Directory;
                let ino = attr.ino;
                let place = (dir, text.as_bytes()[0] - b'a');
                found.tree.insert(place, Entry { ino, is_dir });
                match is_dir {
                    true => dirs.push(ino),
                    false => {
                        let bytes = self.read_all(with, ino).await?;
                        found.bytes.insert(ino, bytes);
                        // Only now: a truncation that failed because an object server blocked it may be completed
                        // while we look. A reader waits for it; a request for the size does not.
                        let attr = self.call(with, client.getattr(&me, ino)).await?;
                        found.attrs.insert(ino, attr);
                    }
                }
            }
        }
        Ok(found)
    }

    /// Reads the current content by inode number.
    async fn read_all(&self, with: &With<'_>, ino: InodeId) -> Result<Vec<u8>, Failure> {
        let client = with.client;
        let me = me();
        let opened = client.open(&me, ino, both_ways(), flags());
        let file = self.call(with, opened).await?.file;
        let read = self
            .call(
                with,
                client.read(&file, 0, 2 * LONGEST, ReadOptions::default()),
            )
            .await;
        let closed = self.call(with, client.release(file.id())).await;
        let bytes = read?.concat();
        closed?;
        Ok(bytes)
    }

    fn publish_all(&mut self) {
        let now = self.site.moment();
        let mut shown = self.shown.lock();
        shown.names = Eras::since(now, self.names.now().clone());
        let bytes = self.contents.iter().map(|(ino, bytes)| {
            let content = Arc::new(bytes.bytes().to_vec());
            (*ino, Eras::since(now, content))
        });
        shown.bytes = bytes.collect();
        shown.unsure = false;
        shown.cuts = self.cuts;
        shown.looks += 1;
        shown.session = self.session;
    }
}
