//! The files of an object: looks them up, opens, creates and closes them.

use super::limits::SEGMENT;
use super::object::{Object, SegmentFile};
use super::paths::{dir_path, file_path, parse_file_name};
use super::target::Target;
use gupfs_platform::{DiskError, DiskErrorKind, DiskFile, DiskStat, OpenHow};
use gupfs_proto::data::ObjectExistence;
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::{FsError, ObjectId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Target {
    /// The object, loaded from disk, whether or not it exists there.
    pub async fn load_object(&self, id: ObjectId) -> Result<Arc<Object>, FsError> {
        self.sync_if_many_open().await?;
        let object = self.table.get(id);
        self.load(&object).await?;
        Ok(object)
    }

    /// The same, but fails with `Missing` if the object does not exist although the requester or the object's record
    /// says that it does.
    pub async fn expect_object(
        &self,
        id: ObjectId,
        existing: ObjectExistence,
    ) -> Result<Arc<Object>, FsError> {
        let object = self.load_object(id).await?;
        let lost = {
            let state = object.state();
            let had_bytes = state.regions_end() > 0;
            !state.exists() && (existing == ObjectExistence::MustExist || had_bytes)
        };
        match lost {
            true => Err(self.report_damage(id, ObjectDamage::Missing)),
            false => Ok(object),
        }
    }

    /// Loads files and record from disk. State in memory that reaches further stays, since others may be writing.
    pub async fn load(&self, object: &Object) -> Result<(), FsError> {
        if object.state().loaded {
            return Ok(());
        }
        let _guard = object.files_lock.lock().await;
        if object.state().loaded {
            return Ok(());
        }
        let found = self.stat_segments(object.id).await;
        let found = found.map_err(|error| self.fs_error(object.id, &error))?;
        let known = object.state().record;
        // A record in memory is newer than the one on disk.
        let record = match known {
            Some(record) => Some(record),
            None => {
                let record = self.records.object(object.id);
                record.map_err(|error| self.records_failed(&error))?
            }
        };
        let mut state = object.state();
        state
            .segments
            .retain(|number, _| found.contains_key(number));
        for (number, stat) in found {
            state.mtime = state.mtime.max(stat.mtime);
            let segment = state.segments.entry(number).or_default();
            segment.len = segment.len.max(stat.len);
            segment.blocks = stat.allocated / 512;
        }
        if let Some(record) = record {
            state.owner = record.owner;
        }
        state.record = record;
        state.loaded = true;
        Ok(())
    }

    /// The segments that an object has on disk.
    async fn stat_segments(&self, id: ObjectId) -> Result<BTreeMap<u32, DiskStat>, DiskError> {
        let mut found = BTreeMap::new();
        let Some(first) = self.disk.stat(&file_path(id, 0)).await? else {
            return Ok(found);
        };
        found.insert(0, first);
        if first.len >= SEGMENT {
            for number in self.further_segments(id).await? {
                // None: the file was removed since the directory was listed.
                if let Some(stat) = self.disk.stat(&file_path(id, number)).await? {
                    found.insert(number, stat);
                }
            }
        }
        Ok(found)
    }

    /// The segments after the first that have a file. There are some only if the first has its full length (which may
    /// be a hole).
    async fn further_segments(&self, id: ObjectId) -> Result<Vec<u32>, DiskError> {
        let entries = match self.disk.list(&dir_path(id)).await {
            Ok(entries) => entries,
            Err(error) if error.kind == DiskErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let segments = entries
            .iter()
            .filter_map(|entry| match parse_file_name(&entry.name) {
                Some((of, segment)) if of == id && segment > 0 => Some(segment),
                _ => None,
            });
        Ok(segments.collect())
    }

    /// The open file of a segment; None if the object has no such segment.
    pub async fn open_segment(
        &self,
        object: &Object,
        segment: u32,
    ) -> Result<Option<DiskFile>, DiskError> {
        {
            let mut state = object.state();
            if !state.segments.contains_key(&segment) {
                return Ok(None);
            }
            if let Some(file) = state.open_file(segment) {
                return Ok(Some(file));
            }
        }
        let file = match self.open_file(object.id, segment, OpenHow::write()).await {
            Ok(file) => file,
            Err(error) if error.kind == DiskErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if let Some(known) = object.state().segments.get_mut(&segment) {
            known.used = true;
            match &known.file {
                // Another task opened it meanwhile: all tasks write through the same descriptor, so that it gets the
                // error of a failed write-back.
                Some(open) => return Ok(Some(open.clone())),
                None => known.file = Some(file.clone()),
            }
        }
        self.table.note_opened(object.id, segment);
        Ok(Some(file))
    }

    /// The open file of a segment; creates the segment if it does not exist.
    pub async fn open_or_create_segment(
        &self,
        object: &Object,
        segment: u32,
    ) -> Result<DiskFile, DiskError> {
        if let Some(file) = self.open_segment(object, segment).await? {
            return Ok(file);
        }
        let _guard = object.files_lock.lock().await;
        if let Some(file) = self.open_segment(object, segment).await? {
            return Ok(file); // another writer created it meanwhile
        }
        if !object.state().exists() {
            let first = self.create_segment(object, 0).await?;
            self.object_count.fetch_add(1, Ordering::Relaxed);
            if segment == 0 {
                return Ok(first);
            }
        }
        self.extend_first_segment(object).await?;
        self.create_segment(object, segment).await
    }

    /// Extends the first segment to its full length, as a hole: `further_segments` is called only for an object whose
    /// first segment has that length.
    async fn extend_first_segment(&self, object: &Object) -> Result<(), DiskError> {
        let len = object.state().segments.get(&0).map_or(0, |first| first.len);
        if len >= SEGMENT {
            return Ok(());
        }
        // Further segments that a crash left of a write beyond the end, never synced, must not become part of the
        // object.
        let stale = self.further_segments(object.id).await?;
        if !stale.is_empty() {
            for number in stale {
                self.disk.remove_file(&file_path(object.id, number)).await?;
            }
            self.dirs.note_change(&dir_path(object.id));
            if let Err(error) = self.disk.sync_dir(&dir_path(object.id)).await {
                self.sync_failed(&error);
                return Err(error);
            }
        }
        let first = self.open_segment(object, 0).await?;
        let first = first.ok_or_else(|| vanished(object.id, 0))?;
        first.set_len(SEGMENT).await?;
        if let Some(known) = object.state().segments.get_mut(&0) {
            known.len = SEGMENT;
        }
        Ok(())
    }

    /// Creates a segment's file; the caller holds the object's `files_lock`.
    async fn create_segment(&self, object: &Object, segment: u32) -> Result<DiskFile, DiskError> {
        let dir = dir_path(object.id);
        let how = OpenHow::write().create();
        let file = match self.open_file(object.id, segment, how).await {
            Err(error) if error.kind == DiskErrorKind::NotFound => {
                self.dirs.create(&dir).await?;
                self.open_file(object.id, segment, how).await?
            }
            other => other?,
        };
        self.dirs.note_change(&dir);
        let stat = file.stat().await?;
        let new = SegmentFile::new(&stat, Some(file.clone()));
        object.state().segments.insert(segment, new);
        self.table.note_opened(object.id, segment);
        Ok(file)
    }

    /// Opens a file; closes others first if the process has no descriptors left.
    async fn open_file(
        &self,
        id: ObjectId,
        segment: u32,
        how: OpenHow,
    ) -> Result<DiskFile, DiskError> {
        let path = file_path(id, segment);
        match self.disk.open(&path, how).await {
            Err(error) if error.kind == DiskErrorKind::OutOfHandles => {
                self.table.close_half();
                self.disk.open(&path, how).await
            }
            other => other,
        }
    }

    /// Reads length and allocated space of a segment from its file.
    pub async fn refresh_segment(&self, object: &Object, segment: u32) -> Result<(), DiskError> {
        let Some(file) = self.open_segment(object, segment).await? else {
            object.state().segments.remove(&segment);
            return Ok(());
        };
        let stat = file.stat().await?;
        if let Some(known) = object.state().segments.get_mut(&segment) {
            known.len = known.len.max(stat.len); // other tasks may have written since
            known.blocks = stat.allocated / 512;
        }
        Ok(())
    }
}

/// The error for a file that existed a moment ago.
pub(super) fn vanished(id: ObjectId, segment: u32) -> DiskError {
    let source = std::io::Error::from(std::io::ErrorKind::NotFound);
    DiskError::new("find", file_path(id, segment), source)
}
