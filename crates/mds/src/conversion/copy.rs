//! Copies the bytes of a file from the objects of one layout to those of another. Components that both layouts have stay as they are.

use super::pace::CopyPace;
use crate::join;
use crate::limits::{CONVERSION_PIECE, CONVERSION_PIECES, OST_CALLS};
use crate::osts::{Targets, unexpected_reply};
use bytes::{Bytes, BytesMut};
use gupfs_proto::data::{
    BlockChecksums, DataOp, DataReplyBody, ObjectExistence, ObjectOwner, ObjectStat, SeekWhence,
};
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::layout::StripeChunk;
use gupfs_proto::{
    Component, FileOffset, FsError, InodeId, Layout, ObjectId, ObjectOffset, OstId, Presence,
    WriteVerifier,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

/// Where a component's stripe is: (component, stripe).
type StripeAt = (usize, usize);

pub struct LayoutCopy<'a> {
    pub targets: &'a Targets,
    pub ino: InodeId,
    pub from: &'a Layout,
    pub to: &'a Layout,
    pub size: u64,
    pub owner: ObjectOwner,
    /// An object whose space was allocated gets its space allocated again. Both layouts have the same components.
    pub keeps_allocations: bool,
    /// None: as fast as it can.
    pub pace: Option<&'a CopyPace<'a>>,
    /// The objects that were written, as (component, object index), and the write verifier of each OST then.
    written: BTreeSet<StripeAt>,
    verifiers: BTreeMap<OstId, WriteVerifier>,
    sources: BTreeMap<StripeAt, StripeSource>,
}

/// The members of a stripe that have its bytes, and where the next data after the last question is.
#[derive(Default)]
struct StripeSource {
    members: Vec<usize>,
    next: NextData,
}

#[derive(Clone, Copy, Default)]
enum NextData {
    #[default]
    NotAsked,
    At(u64),
    NoMore,
}

/// A piece that was copied: the objects written, and the verifiers of the writes.
type CopiedPiece = Vec<(StripeAt, OstId, WriteVerifier)>;

/// What the new objects have.
pub struct CopiedLayout {
    /// With the presence of each object.
    pub layout: Layout,
    pub bytes: u64,
    /// Blocks of 512 bytes in the first copies.
    pub blocks: u64,
}

impl<'a> LayoutCopy<'a> {
    pub fn new(
        targets: &'a Targets,
        ino: InodeId,
        (from, to): (&'a Layout, &'a Layout),
        size: u64,
        owner: ObjectOwner,
    ) -> LayoutCopy<'a> {
        LayoutCopy {
            targets,
            ino,
            from,
            to,
            size,
            owner,
            keeps_allocations: false,
            pace: None,
            written: BTreeSet::new(),
            verifiers: BTreeMap::new(),
            sources: BTreeMap::new(),
        }
    }

    /// When this returns, every byte of the file is in the new objects, on disk. Pieces of zeros become holes.
    ///
    /// # Errors
    /// Of an OST; `ObjectDamaged` if bytes of the file are lost or damaged on all of its members that are up; of the pace.
    pub async fn run(&mut self, progress: impl Fn(u64)) -> Result<CopiedLayout, FsError> {
        self.find_sources().await?;
        let (mut at, mut bytes) = (0, 0);
        while at < self.size {
            let Some(next) = self.next_data(at).await? else {
                break;
            };
            // All is a hole before it.
            at = at.max(next / CONVERSION_PIECE * CONVERSION_PIECE);
            if at >= self.size {
                break;
            }
            let starts = (0..CONVERSION_PIECES).map(|number| at + number * CONVERSION_PIECE);
            let starts = starts.filter(|start| *start < self.size);
            let pieces = starts.map(|start| self.copy_piece(start));
            let copied = join::all(pieces.collect(), CONVERSION_PIECES as usize).await;
            for piece in copied {
                self.note_written(piece?)?;
            }
            let end = (at + CONVERSION_PIECES * CONVERSION_PIECE).min(self.size);
            if let Some(pace) = self.pace {
                pace.spend(end - at).await?;
            }
            bytes += end - at;
            at = end;
            progress(at);
        }
        if self.keeps_allocations {
            self.allocate().await?;
        }
        self.sync().await?;
        let mut layout = self.to.clone();
        for (component, index) in &self.written {
            layout.components[*component]
                .presence
                .set(*index, Presence::Present);
        }
        Ok(CopiedLayout {
            blocks: self.count_blocks(&layout).await?,
            layout,
            bytes,
        })
    }

    /// Removes the objects that were made, as far as their OSTs answer.
    pub async fn undo(&self) {
        for (number, _, ost, object, _) in self.to.objects(self.ino) {
            if is_in(self.from, &self.to.components[number]) {
                continue;
            }
            if let Err(error) = self.targets.remove_object(ost, object).await {
                tracing::warn!(%ost, %object, %error, "an object of a conversion that was given up stays until the next sweep");
                self.targets.leaves_objects.store(true, Relaxed);
            }
        }
    }

    /// Finds the members that have the bytes of each stripe.
    ///
    /// # Errors
    /// `ObjectDamaged` if the record says that an object exists, and no member that is up has it.
    async fn find_sources(&mut self) -> Result<(), FsError> {
        let components = self.from.components.iter().enumerate();
        let components = components.filter(|(_, component)| !is_in(self.to, component));
        let stripes = components.flat_map(|(number, component)| {
            (0..component.stripes()).map(move |stripe| (number, stripe))
        });
        let this = &*self;
        let found = stripes.map(|at| async move { Ok((at, this.find_source(at).await?)) });
        let found = join::all(found.collect(), OST_CALLS).await;
        self.sources = found.into_iter().collect::<Result<_, FsError>>()?;
        Ok(())
    }

    async fn find_source(&self, (number, stripe): StripeAt) -> Result<StripeSource, FsError> {
        let component = &self.from.components[number];
        let mut source = StripeSource::default();
        let mut missing = None;
        for index in component.full_members(stripe) {
            let presence = component.presence.get(index);
            if presence == Presence::Never {
                continue;
            }
            let (ost, object) = (component.targets[index], component.object(self.ino, index));
            match self.targets.stat_object(ost, object).await {
                Ok(Some(_)) => source.members.push(index),
                Ok(None) if presence == Presence::Maybe => {}
                Ok(None) => {
                    let damage = ObjectDamage::Missing;
                    missing = Some(FsError::ObjectDamaged {
                        ost,
                        object,
                        damage,
                    });
                }
                Err(error) => missing = Some(error),
            }
        }
        match missing {
            Some(error) if source.members.is_empty() => Err(error),
            _ => Ok(source),
        }
    }

    /// The offset in the file of the first data at or after `at`.
    async fn next_data(&mut self, at: u64) -> Result<Option<u64>, FsError> {
        let (from, ino, targets) = (self.from, self.ino, self.targets);
        let mut first = None;
        for ((number, stripe), source) in &mut self.sources {
            let component = &from.components[*number];
            let Some(index) = source.members.first().copied() else {
                continue;
            };
            if component.to.0 <= at {
                continue;
            }
            // The object's bytes before `at`.
            let position = component.object_size(index, at);
            let is_known = match source.next {
                NextData::NotAsked => false,
                NextData::At(next) => next >= position,
                NextData::NoMore => true,
            };
            if !is_known {
                let op = DataOp::Seek {
                    object: component.object(ino, index),
                    at: ObjectOffset(position),
                    whence: SeekWhence::Data,
                };
                let ost = component.targets[index];
                source.next = match targets.call(ost, op).await? {
                    DataReplyBody::Position(Some(found)) => NextData::At(found.0),
                    DataReplyBody::Position(None) => NextData::NoMore,
                    other => return Err(unexpected_reply(ost, &other)),
                };
            }
            let found = match source.next {
                NextData::At(next) => component.file_offset(*stripe, next),
                _ => None,
            };
            first = [first, found].into_iter().flatten().min();
        }
        Ok(first)
    }

    async fn copy_piece(&self, at: u64) -> Result<CopiedPiece, FsError> {
        let len = CONVERSION_PIECE.min(self.size - at);
        let mut piece = BytesMut::zeroed(len as usize);
        let chunks = chunks_not_in(self.to, self.from, self.ino, at, len);
        let reads = chunks.iter().map(|chunk| self.read_chunk(chunk));
        let reads = join::all(reads.collect(), OST_CALLS).await;
        for (chunk, read) in chunks.iter().zip(reads) {
            let (start, read) = (chunk.buffer_offset as usize, read?);
            piece[start..start + read.len()].copy_from_slice(&read);
        }
        let piece = piece.freeze();
        let chunks = chunks_not_in(self.from, self.to, self.ino, at, len);
        let mut writes = Vec::with_capacity(chunks.len());
        for chunk in &chunks {
            let start = chunk.buffer_offset as usize;
            let data = piece.slice(start..start + chunk.len as usize);
            if data.iter().all(|byte| *byte == 0) {
                continue;
            }
            let component = &self.to.components[chunk.component];
            let members = component.members(component.stripe_of(chunk.index));
            writes.extend(members.map(|member| {
                self.write_chunk(component, (chunk.component, member), chunk.at, data.clone())
            }));
        }
        let written = join::all(writes, OST_CALLS).await;
        written.into_iter().collect()
    }

    /// The bytes of a chunk, from a member whose bytes match their checksums; fewer at the object's end.
    async fn read_chunk(&self, chunk: &StripeChunk) -> Result<Bytes, FsError> {
        let component = &self.from.components[chunk.component];
        let stripe = component.stripe_of(chunk.index);
        let source = &self.sources[&(chunk.component, stripe)];
        let mut outcome = Ok(Bytes::new());
        for index in &source.members {
            let object = (
                component.targets[*index],
                component.object(self.ino, *index),
            );
            outcome = (self.targets)
                .read_verified(object, chunk.at.0, chunk.len)
                .await;
            if !matches!(outcome, Err(FsError::ObjectDamaged { .. })) {
                break;
            }
        }
        outcome
    }

    async fn write_chunk(
        &self,
        component: &Component,
        (number, index): StripeAt,
        at: ObjectOffset,
        data: Bytes,
    ) -> Result<((usize, usize), OstId, WriteVerifier), FsError> {
        let ost = component.targets[index];
        let op = DataOp::Write {
            object: component.object(self.ino, index),
            at,
            checksums: BlockChecksums::of_blocks(at.0, &data),
            data,
            existence: ObjectExistence::MayExist,
            owner: self.owner,
        };
        match self.targets.call(ost, op).await? {
            DataReplyBody::Written(_, verifier) => Ok(((number, index), ost, verifier)),
            other => Err(unexpected_reply(ost, &other)),
        }
    }

    /// # Errors
    /// `TimedOut` if an OST may have lost what was written before.
    fn note_written(&mut self, piece: CopiedPiece) -> Result<(), FsError> {
        for (at, ost, verifier) in piece {
            self.written.insert(at);
            self.check_verifier(ost, verifier)?;
        }
        Ok(())
    }

    fn check_verifier(&mut self, ost: OstId, verifier: WriteVerifier) -> Result<(), FsError> {
        match *self.verifiers.entry(ost).or_insert(verifier) == verifier {
            true => Ok(()),
            false => {
                let why = format!("ost{ost} was restarted during a conversion");
                Err(FsError::TimedOut(why))
            }
        }
    }

    async fn sync(&mut self) -> Result<(), FsError> {
        let objects = self.written.iter().map(|(component, index)| {
            let part = &self.to.components[*component];
            (part.targets[*index], part.object(self.ino, *index))
        });
        let synced = self.targets.sync_objects(objects).await?;
        for (ost, verifier) in synced {
            self.check_verifier(ost, verifier)?;
        }
        Ok(())
    }

    /// Allocates the space of those objects whose former ones were allocated as a whole, so that writes there do not meet a full disk.
    async fn allocate(&mut self) -> Result<(), FsError> {
        for (number, component) in self.to.components.iter().enumerate() {
            for index in 0..component.targets.len() {
                let at = (number, component.stripe_of(index));
                let source = self.sources.get(&at).and_then(|it| it.members.first());
                let Some(source) = source.copied() else {
                    continue;
                };
                let former = &self.from.components[number];
                let found = self
                    .stat(former.targets[source], former.object(self.ino, source))
                    .await?;
                let (ost, object) = (component.targets[index], component.object(self.ino, index));
                let copied = self.stat(ost, object).await?;
                let is_allocated = found.blocks.saturating_mul(512) >= found.size;
                if !is_allocated || found.size == 0 || copied.blocks >= found.blocks {
                    continue;
                }
                let op = DataOp::Allocate {
                    object,
                    at: ObjectOffset(0),
                    len: found.size,
                    keep_size: true,
                    existence: ObjectExistence::MayExist,
                    owner: self.owner,
                };
                match self.targets.call(ost, op).await? {
                    DataReplyBody::Written(_, verifier) => {
                        self.written.insert((number, index));
                        self.check_verifier(ost, verifier)?;
                    }
                    other => return Err(unexpected_reply(ost, &other)),
                }
            }
        }
        Ok(())
    }

    /// What the first copies of all objects occupy.
    async fn count_blocks(&self, layout: &Layout) -> Result<u64, FsError> {
        let mut blocks = 0;
        for (number, index, ost, object, presence) in layout.objects(self.ino) {
            if index < layout.components[number].stripes() && presence == Presence::Present {
                blocks += self.stat(ost, object).await?.blocks;
            }
        }
        Ok(blocks)
    }

    /// Nothing for an object that does not exist.
    async fn stat(&self, ost: OstId, object: ObjectId) -> Result<ObjectStat, FsError> {
        let found = self.targets.stat_object(ost, object).await?;
        Ok(found.unwrap_or_default())
    }
}

/// Whether a layout has this component: no other component of the file ever had its generation.
fn is_in(layout: &Layout, component: &Component) -> bool {
    let mut generations = layout.components.iter().map(|it| it.generation);
    generations.any(|generation| generation == component.generation)
}

/// The chunks of a range in components of `layout` that `other` does not have.
fn chunks_not_in(
    other: &Layout,
    layout: &Layout,
    ino: InodeId,
    at: u64,
    len: u64,
) -> Vec<StripeChunk> {
    let mut chunks = layout.stripe_chunks(ino, FileOffset(at), len);
    chunks.retain(|chunk| !is_in(other, &layout.components[chunk.component]));
    chunks
}
