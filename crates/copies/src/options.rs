//! What a copy is started with.

use crate::files::CopyFiles;
use gupfs_platform::{Arbiter, Platform};
use gupfs_proto::{CopyId, CopyRun, VirtualShards};
use gupfs_rpc::{LocalIdentity, ProcessIdentity, SendDeadline};
use gupfs_store::kv::KvOptions;
use std::sync::Arc;

pub struct CopyOptions {
    pub platform: Platform,
    pub identity: ProcessIdentity,
    /// This process in the role of a metadata server.
    pub local: LocalIdentity,
    pub id: CopyId,
    pub run: CopyRun,
    /// "host:port", where other hosts reach this process.
    pub address: String,
    pub shards: VirtualShards,
    pub arbiter: Arbiter,
    pub files: Arc<dyn CopyFiles>,
    /// Of the store; the copies and the epoch are filled in here.
    pub kv: KvOptions,
    /// The process sends answers only while this allows it.
    pub send_deadline: SendDeadline,
    /// This directory may begin the cluster's register: it has the metadata, or is to be initialised with it.
    pub may_begin: bool,
}
