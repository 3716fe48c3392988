//! Reads bytes of objects, and finds where their data and holes begin.

use super::damage_list::DamageList;
use super::files::ObjectFiles;
use super::limits::SEGMENT;
use super::object::Object;
use super::paths::{segment_of, split_by_segment};
use bytes::BytesMut;
use gupfs_platform::{DiskError, OnCacheMiss};
use gupfs_proto::FsError;
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::limits::CHECKSUM_BLOCK;
use std::ops::Range;
use std::sync::Arc;

pub(super) struct ObjectReader {
    files: Arc<ObjectFiles>,
    pub damage: Arc<DamageList>,
}

impl ObjectReader {
    pub fn new(files: Arc<ObjectFiles>, damage: Arc<DamageList>) -> ObjectReader {
        ObjectReader { files, damage }
    }

    /// The bytes of a range, up to the object's end.
    pub async fn read_bytes(
        &self,
        object: &Object,
        range: Range<u64>,
    ) -> Result<BytesMut, FsError> {
        let (last_change, size) = {
            let state = object.state();
            (state.in_flight.last_begun(), state.size())
        };
        let end = range.end.min(size);
        self.read_bytes_since(object, range.start.min(end)..end, last_change)
            .await
    }

    /// The bytes of a range within the object. Fewer bytes than there were at change `last_change` are damage, unless a
    /// truncate began since.
    pub async fn read_bytes_since(
        &self,
        object: &Object,
        range: Range<u64>,
        last_change: u64,
    ) -> Result<BytesMut, FsError> {
        let len = range.end - range.start;
        let mut read = BytesMut::with_capacity(len as usize);
        for part in split_by_segment(range.start, len) {
            let part_len = part.range.end - part.range.start;
            let done = async {
                let Some(file) = self.files.open_segment(object, part.segment).await? else {
                    return Ok((read, 0));
                };
                let before = read.len() as u64;
                let read = file
                    .read_append(read, part_len as usize, part.at, OnCacheMiss::HandOff)
                    .await?;
                let got = read.len() as u64 - before;
                Ok((read, got))
            };
            let (more, got) = done
                .await
                .map_err(|error| self.damage.fs_error(object.id, &error))?;
            read = more;
            if got < part_len {
                let at = range.start + part.range.start + got;
                if object.state().had_byte(at, last_change) {
                    return Err(self.damage.report(object.id, ObjectDamage::Short));
                }
            }
            // The bytes after a segment's end are a hole up to the next segment.
            read.resize(part.range.end as usize, 0);
        }
        Ok(read)
    }

    /// The bytes of a block, with zeros where the object has none.
    pub async fn read_block(
        &self,
        object: &Object,
        block: u64,
    ) -> Result<[u8; CHECKSUM_BLOCK as usize], DiskError> {
        let mut bytes = [0; CHECKSUM_BLOCK as usize];
        // No block crosses a segment boundary.
        for part in split_by_segment(block * CHECKSUM_BLOCK, CHECKSUM_BLOCK) {
            if let Some(file) = self.files.open_segment(object, part.segment).await? {
                file.read_at(&mut bytes, part.at, OnCacheMiss::HandOff)
                    .await?;
            }
        }
        Ok(bytes)
    }

    pub async fn seek_data(&self, object: &Object, at: u64) -> Result<Option<u64>, DiskError> {
        let first = segment_of(at);
        let segments: Vec<u32> = object
            .state()
            .segments
            .range(first..)
            .map(|(number, _)| *number)
            .collect();
        for segment in segments {
            let start = u64::from(segment) * SEGMENT;
            let Some(file) = self.files.open_segment(object, segment).await? else {
                continue;
            };
            if let Some(found) = file.seek_data(at.saturating_sub(start)).await? {
                return Ok(Some(start + found));
            }
        }
        Ok(None)
    }

    pub async fn seek_hole(&self, object: &Object, at: u64, size: u64) -> Result<u64, DiskError> {
        let mut at = at;
        while at < size {
            let segment = segment_of(at);
            let start = u64::from(segment) * SEGMENT;
            let Some(file) = self.files.open_segment(object, segment).await? else {
                return Ok(at); // a segment without a file is a hole
            };
            match file.seek_hole(at - start).await? {
                // The segment has data up to its end: the next one may begin with data.
                Some(SEGMENT) => at = start + SEGMENT,
                Some(found) => return Ok((start + found).min(size)),
                None => return Ok(at), // after the file's end
            }
        }
        Ok(size)
    }

    /// Reads the length and the allocated space of an object's files.
    pub async fn refresh(&self, object: &Object) -> Result<(), DiskError> {
        let segments: Vec<u32> = object.state().segments.keys().copied().collect();
        for segment in segments {
            self.files.refresh_segment(object, segment).await?;
        }
        Ok(())
    }
}
