//! opendir(3), readdir(3) and closedir(3) in one.

use crate::entries::DirectoryEntry;
use crate::limits::CONCURRENT_CALLS;
use crate::run_to_end::RunToEnd;
use crate::shared_session::SharedSession;
use crate::user_files::{FollowLinks, UserFiles};
use crate::walk::{self, again_while_stale};
use futures_util::stream::{self, StreamExt};
use gupfs_client::{EntryName, ListedEntry};
use gupfs_proto::limits::READDIR_ENTRIES_MAX;
use gupfs_proto::{Caller, FileKind, FsError, InodeId};
use std::sync::Arc;

impl UserFiles {
    /// All entries of a directory but "." and "..", in no order. With attributes if `attributes`: the servers send them with the names.
    ///
    /// # Errors
    /// `NotDirectory`, `Denied`, and those of `stat`.
    pub fn list(&self, path: &[u8], attributes: bool) -> RunToEnd<Vec<DirectoryEntry>> {
        let (this, path) = (self.clone(), path.to_vec());
        self.run(async move {
            again_while_stale(async || {
                let (core, caller) = (&this.core, &this.caller);
                let dir = walk::to_inode(core, caller, &path, FollowLinks::Yes).await?;
                if dir.kind() != FileKind::Directory {
                    return Err(FsError::NotDirectory);
                }
                core.client.open_dir(caller, dir.ino()).await?;
                let open = OpenDirectory {
                    core: core.clone(),
                    ino: dir.ino(),
                };
                read_all(&open, attributes).await
            })
            .await
        })
    }
}

/// An open directory; a drop closes it.
struct OpenDirectory {
    core: Arc<SharedSession>,
    ino: InodeId,
}

impl Drop for OpenDirectory {
    fn drop(&mut self) {
        self.core.client.close_dir(self.ino);
    }
}

/// Read permission was checked at the open, and a later chmod does not revoke it. So the requests have root's credentials and the directory's
/// open capability.
async fn read_all(dir: &OpenDirectory, attributes: bool) -> Result<Vec<DirectoryEntry>, FsError> {
    let (client, root) = (&dir.core.client, Caller::root());
    let (mut entries, mut cookie) = (Vec::new(), 0);
    loop {
        let limit = READDIR_ENTRIES_MAX as u32;
        let listing = client.readdir(&root, dir.ino, cookie, limit, attributes);
        let listing = listing.await?;
        let Some(last) = listing.entries.last() else {
            break;
        };
        cookie = last.cookie;
        entries.extend(listing.entries.into_iter().filter_map(named));
        if listing.end {
            break;
        }
    }
    if attributes {
        add_attributes(dir, &mut entries).await?;
    }
    Ok(entries)
}

fn named(listed: ListedEntry) -> Option<DirectoryEntry> {
    let EntryName::Name(name) = listed.name else {
        return None;
    };
    Some(DirectoryEntry {
        name,
        ino: listed.ino,
        kind: listed.kind,
        attr: listed.attr,
    })
}

/// Asks for the attributes that the server did not send: of files that other clients write.
async fn add_attributes(
    dir: &OpenDirectory,
    entries: &mut [DirectoryEntry],
) -> Result<(), FsError> {
    let root = Caller::root();
    let lacking = entries.iter_mut().filter(|entry| entry.attr.is_none());
    let requests = lacking.map(|entry| async {
        match dir.core.client.getattr(&root, entry.ino).await {
            Ok(attr) => entry.attr = Some(attr),
            // Removed meanwhile.
            Err(FsError::NotFound | FsError::Stale) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    });
    let requests: Vec<_> = requests.collect();
    let mut running = stream::iter(requests).buffer_unordered(CONCURRENT_CALLS);
    while let Some(done) = running.next().await {
        done?;
    }
    Ok(())
}
