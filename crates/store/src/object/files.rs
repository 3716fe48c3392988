//! The files behind an object: looked up, opened, created, closed.

use super::limits::SEGMENT;
use super::object::{Object, Segment};
use super::place::{dir_of, file_of, parse};
use super::target::Target;
use gupfs_platform::{DiskError, DiskErrorKind, DiskFile, OpenHow, Stat};
use gupfs_proto::data::Existing;
use gupfs_proto::refusal::ObjectDamage;
use gupfs_proto::{ObjectId, Refusal};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Target {
    /// The object as it stands on disk, whether or not it exists.
    pub async fn object(&self, id: ObjectId) -> Result<Arc<Object>, Refusal> {
        self.sync_if_many_open().await?;
        let object = self.table.get(id);
        self.load(&object).await?;
        Ok(object)
    }

    /// The same, and it is lost if it should exist and does not, by the asker's word or by its record.
    pub async fn expect(&self, id: ObjectId, existing: Existing) -> Result<Arc<Object>, Refusal> {
        let object = self.object(id).await?;
        let lost = {
            let state = object.state();
            let had_bytes = state.regions_end() > 0;
            !state.exists() && (existing == Existing::Certain || had_bytes)
        };
        match lost {
            true => Err(self.damaged(id, ObjectDamage::Missing)),
            false => Ok(object),
        }
    }

    /// Looks up what is on disk. What is known already stays if it reaches further: others may be writing.
    pub async fn load(&self, object: &Object) -> Result<(), Refusal> {
        if object.state().loaded {
            return Ok(());
        }
        let _gate = object.gate.lock().await;
        if object.state().loaded {
            return Ok(());
        }
        let found = self.segments(object.id).await;
        let found = found.map_err(|error| self.refused(object.id, &error))?;
        let known = object.state().record;
        // Once it is known here it is kept up to date here.
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
    async fn segments(&self, id: ObjectId) -> Result<BTreeMap<u32, Stat>, DiskError> {
        let mut found = BTreeMap::new();
        let Some(first) = self.disk.stat(&file_of(id, 0)).await? else {
            return Ok(found);
        };
        found.insert(0, first);
        if first.len >= SEGMENT {
            for number in self.further_segments(id).await? {
                // None: removed since the directory was listed.
                if let Some(stat) = self.disk.stat(&file_of(id, number)).await? {
                    found.insert(number, stat);
                }
            }
        }
        Ok(found)
    }

    /// Segments beyond the first that have a file. There are some only if the first is full (perhaps of holes).
    async fn further_segments(&self, id: ObjectId) -> Result<Vec<u32>, DiskError> {
        let entries = match self.disk.list(&dir_of(id)).await {
            Ok(entries) => entries,
            Err(error) if error.kind == DiskErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let segments = entries.iter().filter_map(|entry| match parse(&entry.name) {
            Some((of, segment)) if of == id && segment > 0 => Some(segment),
            _ => None,
        });
        Ok(segments.collect())
    }

    /// An open file of a segment; None if the object has no such segment.
    pub async fn file(&self, object: &Object, segment: u32) -> Result<Option<DiskFile>, DiskError> {
        {
            let mut state = object.state();
            if !state.segments.contains_key(&segment) {
                return Ok(None);
            }
            if let Some(file) = state.file(segment) {
                return Ok(Some(file));
            }
        }
        let file = match self.open(object.id, segment, OpenHow::write()).await {
            Ok(file) => file,
            Err(error) if error.kind == DiskErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if let Some(known) = object.state().segments.get_mut(&segment) {
            known.used = true;
            match &known.file {
                // Opened by another meanwhile: all write through one descriptor, which is told what failed.
                Some(theirs) => return Ok(Some(theirs.clone())),
                None => known.file = Some(file.clone()),
            }
        }
        self.table.opened(object.id, segment);
        Ok(Some(file))
    }

    /// An open file of a segment, which is made if it is not there.
    pub async fn file_to_write(
        &self,
        object: &Object,
        segment: u32,
    ) -> Result<DiskFile, DiskError> {
        if let Some(file) = self.file(object, segment).await? {
            return Ok(file);
        }
        let _gate = object.gate.lock().await;
        if let Some(file) = self.file(object, segment).await? {
            return Ok(file); // made by another writer meanwhile
        }
        if !object.state().exists() {
            let first = self.create(object, 0).await?;
            self.objects.fetch_add(1, Ordering::Relaxed);
            if segment == 0 {
                return Ok(first);
            }
        }
        self.fill_first(object).await?;
        self.create(object, segment).await
    }

    /// Lengthens the first segment to its full length, as a hole: only then others are looked for.
    async fn fill_first(&self, object: &Object) -> Result<(), DiskError> {
        let len = object.state().segments.get(&0).map_or(0, |first| first.len);
        if len >= SEGMENT {
            return Ok(());
        }
        // What a crash left of a write far behind the end that was never synced must not come back.
        let stale = self.further_segments(object.id).await?;
        if !stale.is_empty() {
            for number in stale {
                self.disk.remove_file(&file_of(object.id, number)).await?;
            }
            self.dirs.changed(&dir_of(object.id));
            if let Err(error) = self.disk.sync_dir(&dir_of(object.id)).await {
                self.sync_failed(&error);
                return Err(error);
            }
        }
        let first = self.file(object, 0).await?;
        let first = first.ok_or_else(|| vanished(object.id, 0))?;
        first.set_len(SEGMENT).await?;
        if let Some(known) = object.state().segments.get_mut(&0) {
            known.len = SEGMENT;
        }
        Ok(())
    }

    /// Makes a segment's file; the caller holds the object's gate.
    async fn create(&self, object: &Object, segment: u32) -> Result<DiskFile, DiskError> {
        let dir = dir_of(object.id);
        let how = OpenHow::write().create();
        let file = match self.open(object.id, segment, how).await {
            Err(error) if error.kind == DiskErrorKind::NotFound => {
                self.dirs.make(&dir).await?;
                self.open(object.id, segment, how).await?
            }
            other => other?,
        };
        self.dirs.changed(&dir);
        let stat = file.stat().await?;
        let new = Segment::new(&stat, Some(file.clone()));
        object.state().segments.insert(segment, new);
        self.table.opened(object.id, segment);
        Ok(file)
    }

    /// Opens a file; when there are no descriptors left, closes others first.
    async fn open(&self, id: ObjectId, segment: u32, how: OpenHow) -> Result<DiskFile, DiskError> {
        let path = file_of(id, segment);
        match self.disk.open(&path, how).await {
            Err(error) if error.kind == DiskErrorKind::OutOfHandles => {
                self.table.close_some();
                self.disk.open(&path, how).await
            }
            other => other,
        }
    }

    /// Asks the file how long a segment is and how much space it takes.
    pub async fn look_again(&self, object: &Object, segment: u32) -> Result<(), DiskError> {
        let Some(file) = self.file(object, segment).await? else {
            object.state().segments.remove(&segment);
            return Ok(());
        };
        let stat = file.stat().await?;
        if let Some(known) = object.state().segments.get_mut(&segment) {
            known.len = known.len.max(stat.len); // others may have written since
            known.blocks = stat.allocated / 512;
        }
        Ok(())
    }
}

/// A file that was there a moment ago.
pub(super) fn vanished(id: ObjectId, segment: u32) -> DiskError {
    let source = std::io::Error::from(std::io::ErrorKind::NotFound);
    DiskError::new("find", file_of(id, segment), source)
}
