//! # lost_files: the files that have lost bytes with an OST that was declared lost
//!
//! Owns   the answer to an administrator's question which files these are, a part of the name space at a time.
//! Never  changes a record.
//! Enter  at `LostFileLister::next_files`.

use crate::limits::{
    LOST_FILES_EXAMINED, LOST_FILES_MAX, LOST_FILES_PATHS, LOST_PATH_MAX, SCAN_STEP,
};
use crate::mirrors::has_lost_bytes;
use crate::osts::Targets;
use crate::store::{MetadataStore, damaged_record};
use bytes::Bytes;
use gupfs_namespace::{
    DentryPosition, EntryRecord, Inode, InodeBody, KeyRange, ParsedKey, Record, RecordKey,
    RecordKind,
};
use gupfs_proto::cluster::{ClusterReply, ClusterReplyBody, LostFile, LostFilePosition};
use gupfs_proto::{FsError, InodeId, OstId, VirtualShard};
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct LostFileLister {
    pub store: Arc<MetadataStore>,
    pub targets: Arc<Targets>,
}

/// One reply while it is made.
#[derive(Default)]
struct LostFilePage {
    files: Vec<LostFile>,
    path_bytes: usize,
    examined: usize,
    /// Paths of directories.
    dirs: BTreeMap<InodeId, Option<String>>,
}

impl LostFilePage {
    fn is_full(&self) -> bool {
        self.files.len() >= LOST_FILES_MAX
            || self.path_bytes >= LOST_FILES_PATHS
            || self.examined >= LOST_FILES_EXAMINED
    }
}

impl LostFileLister {
    /// # Errors
    /// `TargetDown` for a target that was not declared lost; of the store.
    pub async fn next_files(&self, ost: OstId, from: Option<LostFilePosition>) -> ClusterReply {
        if !self.targets.is_lost(ost) {
            let reason = "it was not declared lost".to_owned();
            return Err(FsError::TargetDown { ost, reason });
        }
        let mut page = LostFilePage::default();
        let LostFilePosition { shard, mut after } = from.unwrap_or(LostFilePosition {
            shard: VirtualShard(0),
            after: None,
        });
        let mut next = None;
        for shard in self.store.all_shards().skip(usize::from(shard.0)) {
            let position = LostFilePosition { shard, after };
            after = self.list_shard(ost, position, &mut page).await?;
            if after.is_some() {
                next = Some(LostFilePosition { shard, after });
                break;
            }
        }
        Ok(ClusterReplyBody::LostFiles {
            files: page.files,
            examined: page.examined as u64,
            next,
        })
    }

    /// Adds files of a shard; returns the last inode examined, or None at the shard's end.
    async fn list_shard(
        &self,
        ost: OstId,
        position: LostFilePosition,
        page: &mut LostFilePage,
    ) -> Result<Option<InodeId>, FsError> {
        let mut range = KeyRange::of_kind(position.shard, RecordKind::Inode);
        if let Some(after) = position.after {
            range.from = RecordKey::inode(after).successor();
        }
        loop {
            let records = self.store.scan_now(&range, SCAN_STEP).await?;
            for (key, value) in &records {
                let Some(ParsedKey::Inode(ino)) = key.parse() else {
                    continue;
                };
                self.examine(ost, ino, key, value, page).await?;
                if page.is_full() {
                    return Ok(Some(ino));
                }
            }
            match records.last() {
                Some((last, _)) if records.len() == SCAN_STEP => range.from = last.successor(),
                _ => return Ok(None),
            }
        }
    }

    async fn examine(
        &self,
        ost: OstId,
        ino: InodeId,
        key: &RecordKey,
        value: &Bytes,
        page: &mut LostFilePage,
    ) -> Result<(), FsError> {
        page.examined += 1;
        let inode = Inode::decode(value).map_err(|error| damaged_record(key, error))?;
        let InodeBody::File(file) = &inode.body else {
            return Ok(());
        };
        if !has_lost_bytes(&file.layout, ino, ost, |ost| self.targets.is_lost(ost)) {
            return Ok(());
        }
        let path = self.path_of(ino, inode.parent, &mut page.dirs).await?;
        page.path_bytes += path.as_ref().map_or(0, String::len);
        page.files.push(LostFile { ino, path });
        Ok(())
    }

    /// The path of an inode with this position; None if it has no name.
    async fn path_of(
        &self,
        ino: InodeId,
        position: Option<DentryPosition>,
        dirs: &mut BTreeMap<InodeId, Option<String>>,
    ) -> Result<Option<String>, FsError> {
        let position = match position {
            Some(position) => Some(position),
            None => self.further_name(ino).await?,
        };
        let Some(DentryPosition { dir, hash }) = position else {
            return Ok(None);
        };
        let Some(name) = self.name_in(dir, hash, ino).await? else {
            return Ok(None);
        };
        let dir_path = match dirs.get(&dir) {
            Some(known) => known.clone(),
            None => {
                let path = self.dir_path(dir).await?;
                dirs.insert(dir, path.clone());
                path
            }
        };
        Ok(dir_path.map(|path| format!("{path}/{name}")))
    }

    /// The path of a directory, empty for the root; None if it was removed meanwhile.
    async fn dir_path(&self, dir: InodeId) -> Result<Option<String>, FsError> {
        let (mut path, mut child) = (String::new(), dir);
        while child != InodeId::ROOT {
            let key = RecordKey::inode(child);
            let Some(value) = self.store.get_now(&key).await? else {
                return Ok(None);
            };
            let inode = Inode::decode(&value).map_err(|error| damaged_record(&key, error))?;
            let Some(DentryPosition { dir, hash }) = inode.parent else {
                return Ok(None);
            };
            let Some(name) = self.name_in(dir, hash, child).await? else {
                return Ok(None);
            };
            // Directories may be moved while this goes up, and a path may be longer than a reply.
            if path.len() + name.len() >= LOST_PATH_MAX {
                return Ok(Some(format!("/…{path}")));
            }
            path.insert_str(0, &format!("/{name}"));
            child = dir;
        }
        Ok(Some(path))
    }

    /// The name of an inode among the entries of a directory with this hash.
    async fn name_in(
        &self,
        dir: InodeId,
        hash: u64,
        ino: InodeId,
    ) -> Result<Option<String>, FsError> {
        let range = KeyRange::entries_with_hash(dir, hash);
        for (key, value) in self.store.scan_now(&range, SCAN_STEP).await? {
            let entry = EntryRecord::decode(&value).map_err(|error| damaged_record(&key, error))?;
            if let Some(ParsedKey::Entry { name, .. }) = key.parse()
                && entry.ino == ino
            {
                return Ok(Some(String::from_utf8_lossy(name.as_bytes()).into_owned()));
            }
        }
        Ok(None)
    }

    /// The position of a name of an inode whose first name is removed.
    async fn further_name(&self, ino: InodeId) -> Result<Option<DentryPosition>, FsError> {
        let links = self.store.scan_now(&KeyRange::back_links(ino), 1).await?;
        Ok(match links.first().and_then(|(key, _)| key.parse()) {
            Some(ParsedKey::BackLink { dir, hash, .. }) => Some(DentryPosition { dir, hash }),
            _ => None,
        })
    }
}
