//! The conversion of one file.

use super::copy::LayoutCopy;
use super::pace::CopyPace;
use crate::mirrors::owner_of;
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::shard_driver::ShardDriver;
use crate::store::{MetadataStore, damaged_record};
use bytes::Bytes;
use gupfs_namespace::{
    BackgroundOp, FileBody, Inode, PurgeId, Record, RecordKey, choose_layout, first_generation,
};
use gupfs_proto::layout::DefaultLayout;
use gupfs_proto::meta::PlacementTarget;
use gupfs_proto::{
    Component, FsError, Generation, InodeId, Layout, OstId, OwnerEpoch, Presence, PresenceMap, Seq,
};
use std::ops::Range;
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
    /// It has the layout, durably. `former` identifies the removal of the former objects, which is recorded if any existed.
    Done { bytes: u64, former: PurgeId },
    /// It cannot be converted now, for this reason.
    Left(String),
}

/// The targets that one component of a file is to get for its objects, in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ComponentTargets {
    pub index: usize,
    /// Of the component for which they were chosen.
    pub generation: Generation,
    pub targets: Vec<OstId>,
}

/// How the bytes of a file are copied.
#[derive(Clone, Copy)]
struct CopyManner<'a> {
    pace: Option<&'a CopyPace<'a>>,
    keeps_allocations: bool,
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
        let converted = self.try_convert(ino, shape, targets, progress).await;
        leave_unless_store_failed(converted)
    }

    /// Has the objects of these components on other targets, and leaves everything else of the layout as it is.
    ///
    /// # Errors
    /// Of the store. Everything else leaves the file as it is.
    pub async fn move_components(
        &self,
        ino: InodeId,
        chosen: &[ComponentTargets],
        pace: &CopyPace<'_>,
    ) -> Result<FileConversion, FsError> {
        leave_unless_store_failed(self.try_move_components(ino, chosen, pace).await)
    }

    async fn try_convert(
        &self,
        ino: InodeId,
        shape: &DefaultLayout,
        targets: &[PlacementTarget],
        progress: impl Fn(u64, u64),
    ) -> Result<FileConversion, FsError> {
        let Some(found) = self.read(ino).await? else {
            return left("the file was removed");
        };
        if let Some(why) = why_not_at_rest(found.file()?) {
            return left(why);
        }
        let from = first_generation(found.file()?.next_generation, self.owner_epoch);
        let layout = match choose_layout(shape, targets, ino, from) {
            Err(FsError::NoSpace) => {
                return left("no OSTs with space are up in as many failure domains as it needs");
            }
            layout => layout?,
        };
        if layout.has_stale_member() {
            return left("the OSTs of a failure domain that it needs are down");
        }
        let generations = from..from + layout.components.len() as u32;
        let manner = CopyManner {
            pace: None,
            keeps_allocations: false,
        };
        self.replace_layout(found, (layout, generations), manner, progress)
            .await
    }

    async fn try_move_components(
        &self,
        ino: InodeId,
        chosen: &[ComponentTargets],
        pace: &CopyPace<'_>,
    ) -> Result<FileConversion, FsError> {
        let Some(found) = self.read(ino).await? else {
            return left("the file was removed");
        };
        let file = found.file()?;
        if let Some(why) = why_not_at_rest(file) {
            return left(why);
        }
        if !file.layout.components.iter().all(Component::is_settled) {
            return left("it is not known yet which of its objects are durable and complete");
        }
        let from = first_generation(file.next_generation, self.owner_epoch);
        let mut layout = file.layout.clone();
        for (generation, chosen) in (from..).zip(chosen) {
            let component = layout.components.get_mut(chosen.index);
            let same = |it: &&mut Component| {
                it.generation == chosen.generation && it.targets.len() == chosen.targets.len()
            };
            let Some(component) = component.filter(same) else {
                return left("the file has changed meanwhile");
            };
            component.targets = chosen.targets.clone();
            component.presence = PresenceMap::new(chosen.targets.len());
            component.generation = Generation(generation);
        }
        let generations = from..from + chosen.len() as u32;
        let manner = CopyManner {
            pace: Some(pace),
            keeps_allocations: true,
        };
        self.replace_layout(found, (layout, generations), manner, |_, _| {})
            .await
    }

    /// Gives the file this layout. Its components that the former layout has not have these generations.
    async fn replace_layout(
        &self,
        found: FoundFile,
        (layout, generations): (Layout, Range<u32>),
        manner: CopyManner<'_>,
        progress: impl Fn(u64, u64),
    ) -> Result<FileConversion, FsError> {
        let ino = found.ino;
        if let Some(down) = self.first_down([&found.file()?.layout, &layout], ino) {
            return left(&format!("ost{down} is not up"));
        }
        // Until the layout names the objects, the sweep would take them for leftovers of a power loss.
        let _no_sweep = self.targets.unnamed_objects.read().await;
        if let Some(ost) = self.drained_target(&found.file()?.layout, &layout) {
            return left(&format!("ost{ost} is being drained"));
        }
        let Some(found) = self.reserve(found, generations).await? else {
            return left("the file has changed meanwhile");
        };
        let former = &found.file()?.layout;
        let (size, owner) = (found.inode.size, owner_of(&found.inode));
        let mut copy = LayoutCopy::new(&self.targets, ino, (former, &layout), size, owner);
        (copy.pace, copy.keeps_allocations) = (manner.pace, manner.keeps_allocations);
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
                let number = found.file()?.next_generation;
                Ok(FileConversion::Done {
                    bytes: copied.bytes,
                    former: PurgeId { ino, number },
                })
            }
            None => {
                copy.undo().await;
                left("the file has changed meanwhile")
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

    /// Reserves these generations, durably, and returns the file's record after it; None if the record has changed otherwise.
    async fn reserve(
        &self,
        found: FoundFile,
        generations: Range<u32>,
    ) -> Result<Option<FoundFile>, FsError> {
        let ino = found.ino;
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

    /// A target of the new components that is being drained: no file may get objects there that the drain does not find.
    fn drained_target(&self, former: &Layout, new: &Layout) -> Option<OstId> {
        let draining = self.targets.draining();
        let components = (new.components.iter()).filter(|it| !former.components.contains(it));
        let mut targets = components.flat_map(|component| &component.targets);
        targets.find(|ost| draining.contains_key(ost)).copied()
    }

    /// The first target that is down of those that the copy needs: of components that only one of the layouts has, and the first copies of the
    /// others, whose blocks are counted.
    fn first_down(&self, [former, new]: [&Layout; 2], ino: InodeId) -> Option<OstId> {
        let is_kept = |layout: &Layout, number: usize| {
            let component = &layout.components[number];
            former.components.contains(component) && new.components.contains(component)
        };
        let needed_of_former = former.objects(ino).filter(|(number, index, ..)| {
            let component = &former.components[*number];
            // Of the former members one is enough.
            !is_kept(former, *number)
                && (!component.is_mirrored() || component.is_first_full_member(*index))
        });
        let needed_of_new = new
            .objects(ino)
            .filter(|(number, ..)| !is_kept(new, *number));
        let counted = new.objects(ino).filter(|(number, index, .., presence)| {
            let stripes = new.components[*number].stripes();
            is_kept(new, *number) && *index < stripes && *presence == Presence::Present
        });
        let mut needed = needed_of_former.chain(needed_of_new).chain(counted);
        let down = needed.find(|(_, _, ost, ..)| !self.targets.is_up(*ost))?;
        Some(down.2)
    }
}

fn left(why: &str) -> Result<FileConversion, FsError> {
    Ok(FileConversion::Left(why.to_owned()))
}

/// An error that is not of the store leaves the file as it is.
fn leave_unless_store_failed(
    converted: Result<FileConversion, FsError>,
) -> Result<FileConversion, FsError> {
    match converted {
        Err(error @ FsError::StoreFailed(_)) => Err(error),
        Err(error) => left(&error.to_string()),
        done => done,
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
