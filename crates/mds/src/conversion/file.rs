//! The conversion of one file.

use super::copy::LayoutCopy;
use crate::mirrors::owner_of;
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::shard_driver::ShardDriver;
use crate::store::{MetadataStore, damaged_record};
use bytes::Bytes;
use gupfs_namespace::{
    BackgroundOp, FileBody, Inode, Record, RecordKey, choose_layout, first_generation,
};
use gupfs_proto::layout::DefaultLayout;
use gupfs_proto::meta::PlacementTarget;
use gupfs_proto::{FsError, InodeId, Layout, OstId, OwnerEpoch, Seq};
use std::sync::Arc;

pub struct FileConverter {
    pub store: Arc<MetadataStore>,
    pub driver: Arc<ShardDriver>,
    pub targets: Arc<Targets>,
    pub owner_epoch: OwnerEpoch,
}

/// The result for one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileConversion {
    /// It has the layout, durably.
    Done { bytes: u64 },
    /// It cannot be converted now, for this reason.
    Left(String),
}

/// A file's record, as it was read.
struct FoundFile {
    ino: InodeId,
    value: Bytes,
    inode: Inode,
}

impl FoundFile {
    fn file(&self) -> Result<&FileBody, FsError> {
        self.inode.file()
    }
}

impl FileConverter {
    /// Gives the file a layout of this shape, on some of these targets. `progress` gets the offset up to which the file was copied, and its
    /// size.
    ///
    /// # Errors
    /// Of the store. Everything else leaves the file as it is.
    pub async fn convert(
        &self,
        ino: InodeId,
        shape: &DefaultLayout,
        targets: &[PlacementTarget],
        progress: impl Fn(u64, u64),
    ) -> Result<FileConversion, FsError> {
        match self.try_convert(ino, shape, targets, progress).await {
            Err(error @ FsError::StoreFailed(_)) => Err(error),
            Err(error) => Ok(FileConversion::Left(error.to_string())),
            done => done,
        }
    }

    async fn try_convert(
        &self,
        ino: InodeId,
        shape: &DefaultLayout,
        targets: &[PlacementTarget],
        progress: impl Fn(u64, u64),
    ) -> Result<FileConversion, FsError> {
        let left = |why: String| Ok(FileConversion::Left(why));
        let changed = || left("the file has changed meanwhile".into());
        let Some(found) = self.read(ino).await? else {
            return left("the file was removed".into());
        };
        if let Some(why) = why_not_at_rest(found.file()?) {
            return left(why.into());
        }
        let from = first_generation(found.file()?.next_generation, self.owner_epoch);
        let layout = match choose_layout(shape, targets, ino, from) {
            Err(FsError::NoSpace) => {
                return left(
                    "no OSTs with space are up in as many failure domains as it needs".into(),
                );
            }
            layout => layout?,
        };
        if layout.has_stale_member() {
            return left("the OSTs of a failure domain that it needs are down".into());
        }
        if let Some(down) = self.first_down([&found.file()?.layout, &layout], ino) {
            return left(format!("ost{down} is not up"));
        }
        // Until the layout names the objects, the sweep would take them for leftovers of a power loss.
        let _no_sweep = self.targets.unnamed_objects.lock().await;
        let Some(found) = self.reserve(found, from, &layout).await? else {
            return changed();
        };
        let former = &found.file()?.layout;
        let (size, owner) = (found.inode.size, owner_of(&found.inode));
        let mut copy = LayoutCopy::new(&self.targets, ino, (former, &layout), size, owner);
        let copied = match copy.run(|at| progress(at, size)).await {
            Ok(copied) => copied,
            Err(error) => {
                copy.undo().await;
                return Err(error);
            }
        };
        let op = BackgroundOp::ReplaceLayout {
            ino,
            layout: copied.layout,
            blocks: copied.blocks,
        };
        match self.apply(&op, &found).await? {
            Some(seq) => {
                self.durable(seq).await?;
                Ok(FileConversion::Done {
                    bytes: copied.bytes,
                })
            }
            None => {
                copy.undo().await;
                changed()
            }
        }
    }

    async fn read(&self, ino: InodeId) -> Result<Option<FoundFile>, FsError> {
        let key = RecordKey::inode(ino);
        let Some(value) = self.store.get_now(&key).await? else {
            return Ok(None);
        };
        let inode = Inode::decode(&value).map_err(|error| damaged_record(&key, error))?;
        Ok(Some(FoundFile { ino, value, inode }))
    }

    /// Reserves the generations of the layout, durably, and returns the file's record after it; None if the record has changed otherwise.
    async fn reserve(
        &self,
        found: FoundFile,
        from: u32,
        layout: &Layout,
    ) -> Result<Option<FoundFile>, FsError> {
        let ino = found.ino;
        let generations = from..from + layout.components.len() as u32;
        let end = generations.end;
        let op = BackgroundOp::ReserveGenerations { ino, generations };
        let Some(seq) = self.apply(&op, &found).await? else {
            return Ok(None);
        };
        self.durable(seq).await?;
        let Some(reserved) = self.read(ino).await? else {
            return Ok(None);
        };
        let file = reserved.file()?;
        let is_same = file.next_generation == end
            && file.layout == found.file()?.layout
            && why_not_at_rest(file).is_none();
        Ok(is_same.then_some(reserved))
    }

    /// Applies an operation if the file's record is as it was found; None if it is not.
    async fn apply(&self, op: &BackgroundOp, found: &FoundFile) -> Result<Option<Seq>, FsError> {
        let expected = (RecordKey::inode(found.ino), found.value.clone());
        let applied = self.driver.apply_if_unchanged(op, Some(&expected)).await?;
        let Some(applied) = applied else {
            return Ok(None);
        };
        applied.result?;
        Ok(Some(applied.seq))
    }

    async fn durable(&self, seq: Seq) -> Result<(), FsError> {
        let origin = RequestOrigin::server("convert layout");
        self.store.durable(origin, seq).await
    }

    fn first_down(&self, layouts: [&Layout; 2], ino: InodeId) -> Option<OstId> {
        let osts = layouts
            .into_iter()
            .enumerate()
            .flat_map(|(number, layout)| {
                layout
                    .objects(ino)
                    .filter_map(move |(component, index, ost, ..)| {
                        let component = &layout.components[component];
                        // Of the former members one is enough.
                        (number == 1
                            || !component.is_mirrored()
                            || component.is_first_full_member(index))
                        .then_some(ost)
                    })
            });
        osts.into_iter().find(|ost| !self.targets.is_up(*ost))
    }
}

/// Why the file's bytes cannot be copied now; None if they cannot change without a change of the record.
fn why_not_at_rest(file: &FileBody) -> Option<&'static str> {
    match file {
        file if file.layout.is_empty() => Some("the file has no objects"),
        file if !file.inline.is_empty() => {
            Some("the file's first bytes are being moved to objects")
        }
        file if file.write_leases > 0 => Some("the file is being written"),
        file if file.truncating.is_some() => Some("the file is being truncated"),
        _ => None,
    }
}
