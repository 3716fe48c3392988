//! Reads of many parts of files at the same time.

use crate::entries::{FileRange, OpenRequest};
use crate::file::FileHandle;
use crate::limits::{CONCURRENT_BYTES, CONCURRENT_CALLS, PIECE};
use crate::run_to_end::RunToEnd;
use crate::user_files::UserFiles;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use gupfs_proto::FsError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The bytes of each range, as segments, or why they could not be read.
pub type RangeResults = Vec<Result<Vec<Bytes>, FsError>>;

impl UserFiles {
    /// Reads all ranges; each file is opened once. A range beyond the end of its file is short. One that fails leaves the others.
    ///
    /// # Errors
    /// None of its own, except a missed deadline.
    pub fn read_ranges(&self, ranges: Vec<FileRange>) -> RunToEnd<RangeResults> {
        let this = self.clone();
        self.run(async move {
            let files = open_all(&this, &ranges).await;
            let reads = ranges.iter().map(|range| {
                let file = &files[&range.path];
                async move {
                    match file {
                        Ok(file) => file.read_range(range.offset, range.len).await,
                        Err(error) => Err(error.clone()),
                    }
                }
            });
            let longest = ranges.iter().map(|range| range.len.min(PIECE)).max();
            let at_once = CONCURRENT_BYTES / longest.unwrap_or(1).max(1);
            let at_once = at_once.clamp(1, CONCURRENT_CALLS as u64) as usize;
            let reads: Vec<_> = reads.collect();
            let results: RangeResults = stream::iter(reads).buffered(at_once).collect().await;
            Ok(results)
        })
    }
}

type OpenedFiles = BTreeMap<Vec<u8>, Result<Arc<FileHandle>, FsError>>;

async fn open_all(user: &UserFiles, ranges: &[FileRange]) -> OpenedFiles {
    let mut paths: Vec<&Vec<u8>> = ranges.iter().map(|range| &range.path).collect();
    paths.sort_unstable();
    paths.dedup();
    let opening = paths.into_iter().map(|path| async move {
        let opened = user.open(path, OpenRequest::read()).await;
        (path.clone(), opened.map(Arc::new))
    });
    let opening: Vec<_> = opening.collect();
    let opened = stream::iter(opening).buffer_unordered(CONCURRENT_CALLS);
    opened.collect().await
}
