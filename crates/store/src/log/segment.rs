//! One segment's file: making it, emptying it, reading it.

use super::format::{HEADER, SegmentHeader, segment_name};
use bytes::{Bytes, BytesMut};
use gupfs_platform::{Disk, DiskError, DiskFile, OpenHow, ReadHow};

/// An open segment, of `bytes` length, all of it allocated.
pub struct Segment {
    pub number: u64,
    pub name: String,
    pub file: DiskFile,
    pub bytes: u64,
}

impl Segment {
    /// Makes an empty segment that survives a power cut: space taken, zeros written, name durable. Writing into it
    /// later needs no space, and syncing it no block map.
    pub async fn make(disk: &Disk, number: u64, bytes: u64) -> Result<Segment, DiskError> {
        let name = segment_name(number);
        let file = disk.open(&name, OpenHow::write().create()).await?;
        let segment = Segment {
            number,
            name,
            file,
            bytes,
        };
        let made = segment.fill(disk).await;
        if made.is_err() {
            // Half a segment is of no use and takes space others need; what made it fail is what counts.
            let _ = disk.remove_file(&segment.name).await;
        }
        made.map(|()| segment)
    }

    async fn fill(&self, disk: &Disk) -> Result<(), DiskError> {
        self.file.allocate(0, self.bytes).await?; // in one piece, and refused before anything is written
        self.file.zero_fill(0, self.bytes).await?;
        self.file.sync_all().await?;
        disk.sync_dir(".").await
    }

    pub async fn open(disk: &Disk, number: u64) -> Result<Segment, DiskError> {
        Segment::open_as(disk, number, OpenHow::write()).await
    }

    pub async fn open_to_read(disk: &Disk, number: u64) -> Result<Segment, DiskError> {
        Segment::open_as(disk, number, OpenHow::read()).await
    }

    async fn open_as(disk: &Disk, number: u64, how: OpenHow) -> Result<Segment, DiskError> {
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

    /// Turns a segment nobody needs into an empty one of another number, without giving its space back in between.
    pub async fn reuse(&self, disk: &Disk, number: u64) -> Result<Segment, DiskError> {
        // Zeros before the new name: a file of that name with an old header would be taken for a live segment.
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

    /// Durable when it returns: segments go in the order of their numbers, or a crash would leave a gap.
    pub async fn remove(&self, disk: &Disk) -> Result<(), DiskError> {
        disk.remove_file(&self.name).await?;
        disk.sync_dir(".").await
    }

    pub async fn write_header(&self, header: &SegmentHeader) -> Result<(), DiskError> {
        self.file.write_at(&header.encode(), 0).await
    }

    pub async fn read_header(&self) -> Result<[u8; HEADER], DiskError> {
        let (bytes, _) = self
            .file
            .read_owned([0; HEADER], 0, ReadHow::MayWait)
            .await?;
        Ok(bytes)
    }

    pub async fn read_all(&self) -> Result<Bytes, DiskError> {
        let len = self.bytes as usize;
        let all = BytesMut::with_capacity(len);
        let all = self.file.read_append(all, len, 0, ReadHow::MayWait).await?;
        Ok(all.freeze())
    }

    /// Leaves the buffer as it is if the disk cannot read there.
    pub async fn read_piece(&self, piece: &mut [u8], at: u64) -> Result<(), DiskError> {
        let empty = BytesMut::with_capacity(piece.len());
        let read = self
            .file
            .read_append(empty, piece.len(), at, ReadHow::MayWait);
        let read = read.await?;
        let len = read.len().min(piece.len());
        piece[..len].copy_from_slice(&read[..len]);
        Ok(())
    }

    /// Whether nothing was ever written to it: records begin right behind the header, so a look there tells.
    pub async fn is_untouched(&self) -> Result<bool, DiskError> {
        const LOOK: usize = 64 << 10;
        let look = BytesMut::with_capacity(LOOK);
        let look = self
            .file
            .read_append(look, LOOK, 0, ReadHow::MayWait)
            .await?;
        Ok(look.iter().all(|byte| *byte == 0))
    }

    /// Whether it has all the space it will need.
    pub async fn is_whole(&self, bytes: u64) -> Result<bool, DiskError> {
        let stat = self.file.stat().await?;
        Ok(stat.len == bytes && stat.allocated >= bytes)
    }
}
