//! The file of one segment: creating, zeroing and reading it.

use super::format::{HEADER_LEN, SegmentHeader, segment_name};
use bytes::{Bytes, BytesMut};
use gupfs_platform::{Disk, DiskError, DiskFile, OnCacheMiss, OpenHow};
use gupfs_proto::Seq;
use std::sync::Arc;

/// An open segment of `bytes` length; all its space is allocated.
pub struct Segment {
    pub number: u64,
    pub name: String,
    pub file: DiskFile,
    pub bytes: u64,
}

/// A segment that has records, or that receives the first ones.
#[derive(Clone)]
pub struct LiveSegment {
    pub segment: Arc<Segment>,
    /// The first batch in this segment, or the next batch to be written if the segment has none.
    pub first: Seq,
    /// Offset at which its records end; the length of the segment if recovery has not read it.
    pub end: u64,
}

/// A segment's file, with its header if that is valid.
pub type FoundSegment = (Segment, Option<SegmentHeader>);

impl Segment {
    /// Creates an empty segment that survives a power loss: its space is allocated, its zeros are written, its name is
    /// durable. So a later write to it needs no space, and a sync of it writes no block map.
    pub async fn create(disk: &Disk, number: u64, bytes: u64) -> Result<Segment, DiskError> {
        let name = segment_name(number);
        let file = disk.open(&name, OpenHow::write().create()).await?;
        let segment = Segment {
            number,
            name,
            file,
            bytes,
        };
        let made = segment.allocate_and_zero(disk).await;
        if made.is_err() {
            // A partial segment is useless and takes space; the error to report is the first one, not that of this
            // removal.
            let _ = disk.remove_file(&segment.name).await;
        }
        made.map(|()| segment)
    }

    async fn allocate_and_zero(&self, disk: &Disk) -> Result<(), DiskError> {
        self.file.allocate(0, self.bytes).await?; // contiguous if possible; a full disk fails here, before anything is written
        self.file.zero_fill(0, self.bytes).await?;
        self.file.sync_all().await?;
        disk.sync_dir(".").await
    }

    pub async fn open(disk: &Disk, number: u64) -> Result<Segment, DiskError> {
        Segment::open_with(disk, number, OpenHow::write()).await
    }

    pub async fn open_to_read(disk: &Disk, number: u64) -> Result<Segment, DiskError> {
        Segment::open_with(disk, number, OpenHow::read()).await
    }

    async fn open_with(disk: &Disk, number: u64, how: OpenHow) -> Result<Segment, DiskError> {
        let name = segment_name(number);
        let file = disk.open(&name, how).await?;
        let bytes = file.len().await?;
        Ok(Segment {
            number,
            name,
            file,
            bytes,
        })
    }

    /// Turns a retired segment into an empty one with another number, and keeps its space allocated meanwhile.
    pub async fn reuse(&self, disk: &Disk, number: u64) -> Result<Segment, DiskError> {
        // Zeroes come before the new name: recovery would take a file of that name with an old header for a live
        // segment.
        self.file.zero_fill(0, self.bytes).await?;
        self.file.sync_all().await?;
        let name = segment_name(number);
        disk.rename(&self.name, &name).await?;
        disk.sync_dir(".").await?;
        Ok(Segment {
            number,
            name,
            file: self.file.clone(),
            bytes: self.bytes,
        })
    }

    /// The removal is durable when this returns. Segments must be removed in the order of their numbers, or a crash
    /// would leave a gap.
    pub async fn remove(&self, disk: &Disk) -> Result<(), DiskError> {
        disk.remove_file(&self.name).await?;
        disk.sync_dir(".").await
    }

    pub async fn write_header(&self, header: &SegmentHeader) -> Result<(), DiskError> {
        self.file.write_at(&header.encode(), 0).await
    }

    pub async fn read_header(&self) -> Result<[u8; HEADER_LEN], DiskError> {
        let (bytes, _) = self
            .file
            .read_owned([0; HEADER_LEN], 0, OnCacheMiss::HandOff)
            .await?;
        Ok(bytes)
    }

    pub async fn read_all(&self) -> Result<Bytes, DiskError> {
        let len = self.bytes as usize;
        let all = BytesMut::with_capacity(len);
        let all = self
            .file
            .read_append(all, len, 0, OnCacheMiss::HandOff)
            .await?;
        Ok(all.freeze())
    }

    /// Reads into `part`. Leaves the buffer unchanged if the disk cannot read there.
    pub async fn read_part(&self, part: &mut [u8], at: u64) -> Result<(), DiskError> {
        let empty = BytesMut::with_capacity(part.len());
        let read = self
            .file
            .read_append(empty, part.len(), at, OnCacheMiss::HandOff);
        let read = read.await?;
        let len = read.len().min(part.len());
        part[..len].copy_from_slice(&read[..len]);
        Ok(())
    }

    /// Whether no record was ever written to this segment. Records begin right after the header, so reading its first
    /// part is enough.
    pub async fn is_unused(&self) -> Result<bool, DiskError> {
        const LOOK: usize = 64 << 10;
        let look = BytesMut::with_capacity(LOOK);
        let look = self
            .file
            .read_append(look, LOOK, 0, OnCacheMiss::HandOff)
            .await?;
        Ok(look.iter().all(|byte| *byte == 0))
    }

    /// Whether the segment has `bytes` length and all its space is allocated.
    pub async fn is_fully_allocated(&self, bytes: u64) -> Result<bool, DiskError> {
        let stat = self.file.stat().await?;
        Ok(stat.len == bytes && stat.allocated >= bytes)
    }
}
