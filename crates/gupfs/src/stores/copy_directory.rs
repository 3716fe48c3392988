//! The log and the index of a copy of the metadata, in a store directory.

use super::DescriptorBudget;
use crate::cluster::replace_key_list;
use crate::store_dir::{StoreDir, make_dir};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use gupfs_copies::CopyFiles;
use gupfs_mds::allows_growth;
use gupfs_platform::{Disk, Platform};
use gupfs_store::index::Index;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub struct CopyDirectory {
    mds: PathBuf,
    log: PathBuf,
    index: PathBuf,
    key_list: PathBuf,
    budget: DescriptorBudget,
    platform: Platform,
}

impl CopyDirectory {
    pub fn new(store_dir: &StoreDir, budget: DescriptorBudget, platform: &Platform) -> Self {
        CopyDirectory {
            mds: store_dir.mds(),
            log: store_dir.mds_log(),
            index: store_dir.mds_index(),
            key_list: store_dir.client_keys(),
            budget,
            platform: platform.clone(),
        }
    }
}

impl CopyFiles for CopyDirectory {
    fn log_disk(&self) -> Result<Disk, String> {
        Disk::real(&self.log).map_err(|error| format!("'{}': {error}", self.log.display()))
    }

    fn open_index(&self) -> Result<Index, String> {
        Index::open_fjall(&self.index, self.budget.metadata)
            .map_err(|error| format!("'{}': {error}", self.index.display()))
    }

    fn clear(&self) -> BoxFuture<'static, Result<(), String>> {
        let (mds, log, index) = (self.mds.clone(), self.log.clone(), self.index.clone());
        let tasks = self.platform.tasks.clone();
        Box::pin(async move { tasks.blocking(move || clear(&mds, &[log, index])).await })
    }

    fn has_room(&self) -> BoxFuture<'static, bool> {
        let mds = self.mds.clone();
        Box::pin(async move {
            let space = async { Disk::real(&mds)?.space().await }.await;
            space.map_or(true, |space| allows_growth(&space))
        })
    }

    fn read_key_list(&self) -> Result<Option<Bytes>, String> {
        match std::fs::read(&self.key_list) {
            Ok(list) => Ok(Some(list.into())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("'{}': {error}", self.key_list.display())),
        }
    }

    fn write_key_list(&self, list: &[u8]) -> Result<(), String> {
        replace_key_list(&self.key_list, list)
            .map_err(|error| format!("'{}': {error}", self.key_list.display()))
    }
}

/// The directories are empty afterwards, also after a power loss.
fn clear(parent: &Path, directories: &[PathBuf]) -> Result<(), String> {
    let failed =
        |path: &Path, error: &dyn std::fmt::Display| format!("'{}': {error}", path.display());
    for directory in directories {
        match std::fs::remove_dir_all(directory) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(directory, &error)),
        }
        make_dir(directory).map_err(|error| failed(directory, &error))?;
    }
    let synced = std::fs::File::open(parent).and_then(|parent| parent.sync_all());
    synced.map_err(|error| failed(parent, &error))
}
