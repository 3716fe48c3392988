//! The files of objects: looks them up, opens, creates, moves, removes and closes them.

use super::closing::ClosingState;
use super::counters::ObjectCount;
use super::dirs::Dirs;
use super::limits::SEGMENT;
use super::object::Object;
use super::paths::{dir_path, file_path, parse_file_name};
use super::segment_file::SegmentFile;
use super::table::ObjectTable;
use gupfs_platform::{Disk, DiskError, DiskErrorKind, DiskFile, DiskStat, OpenHow};
use gupfs_proto::ObjectId;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) struct ObjectFiles {
    disk: Disk,
    table: Arc<ObjectTable>,
    dirs: Arc<Dirs>,
    /// A removal of an object's last file does not count it: its caller does.
    pub count: Arc<ObjectCount>,
    closing: Arc<ClosingState>,
}

impl ObjectFiles {
    pub fn new(
        disk: Disk,
        table: Arc<ObjectTable>,
        dirs: Arc<Dirs>,
        count: Arc<ObjectCount>,
        closing: Arc<ClosingState>,
    ) -> ObjectFiles {
        ObjectFiles {
            disk,
            table,
            dirs,
            count,
            closing,
        }
    }

    /// The segments that an object has on disk.
    pub async fn stat_segments(&self, id: ObjectId) -> Result<BTreeMap<u32, DiskStat>, DiskError> {
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
            self.count.add_one();
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
            self.dirs.note_modified(&dir_path(object.id));
            if let Err(error) = self.disk.sync_dir(&dir_path(object.id)).await {
                self.closing.sync_failed(&error);
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
        self.dirs.note_modified(&dir);
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

    /// Removes the files of all segments from `first` on.
    pub async fn remove_segments(&self, object: &Object, first: u32) -> Result<(), DiskError> {
        let _guard = object.files_lock.lock().await;
        let gone: Vec<u32> = {
            let state = object.state();
            state
                .segments
                .range(first..)
                .map(|(number, _)| *number)
                .collect()
        };
        // In descending order: the object exists as long as segment 0 does.
        for number in gone.into_iter().rev() {
            match self.disk.remove_file(&file_path(object.id, number)).await {
                Err(error) if error.kind != DiskErrorKind::NotFound => return Err(error),
                _ => {}
            }
            object.state().segments.remove(&number);
            self.dirs.note_modified(&dir_path(object.id));
        }
        Ok(())
    }

    /// Moves the files of all segments to another directory; durable when this returns. The caller syncs the names in the
    /// old directory.
    pub async fn move_segments(&self, object: &Object, to: &str) -> Result<(), DiskError> {
        let _guard = object.files_lock.lock().await;
        let segments: Vec<u32> = object.state().segments.keys().copied().collect();
        // In descending order: the object exists as long as segment 0 does.
        for number in segments.into_iter().rev() {
            let file = file_path(object.id, number);
            let name = file.rsplit('/').next().unwrap_or(&file);
            match self.disk.rename(&file, &format!("{to}/{name}")).await {
                Err(error) if error.kind != DiskErrorKind::NotFound => return Err(error),
                _ => {}
            }
            object.state().segments.remove(&number);
        }
        self.dirs.note_modified(&dir_path(object.id));
        // Syncs the new name before the removal of the old one: a power loss leaves at least one of them.
        self.disk.sync_dir(to).await
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
fn vanished(id: ObjectId, segment: u32) -> DiskError {
    let source = std::io::Error::from(std::io::ErrorKind::NotFound);
    DiskError::new("find", file_path(id, segment), source)
}
