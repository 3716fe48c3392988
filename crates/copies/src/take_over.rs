//! From a register that this host has taken to an open store: the other copies that count get the same end of the log, and this host's
//! copy becomes the owner's log.

use crate::error::CopiesError;
use crate::host::CopyHost;
use crate::limits::{APPEND_TIMEOUT, ASK_TIMEOUT, PART_BYTES, REOPEN_TIMEOUT};
use crate::options::CopyOptions;
use crate::owner::{OwnerShared, Ownership, failure_of};
use crate::peers::{CopyCallError, CopyPeer};
use futures_util::future::join_all;
use gupfs_proto::copy::{CopyLogState, CopyOp};
use gupfs_store::kv::{Kv, KvCopy, KvRecovery};
use gupfs_store::log::LogError;
use std::sync::Arc;

/// Opens the store of the new owner.
///
/// # Errors
/// `Store` if this host's log or index fails; `Deposed` if another host has taken the register meanwhile.
pub async fn take_over(
    options: &CopyOptions,
    host: &CopyHost,
    ownership: &Ownership,
) -> Result<(Arc<Kv>, KvRecovery), CopiesError> {
    let owner = ownership.shared();
    let obeyed = host.obey(owner.epoch);
    obeyed.map_err(|known| CopiesError::Deposed(format!("owner {known} is newer")))?;
    let copy = (host.copy()).ok_or_else(|| CopiesError::Files("the copy is not open".into()))?;
    // Records of a group whose sender gave up may not be written yet.
    copy.make_durable()
        .await
        .map_err(gupfs_store::kv::KvError::from)?;
    let others = owner.counting().into_iter().map(|other| {
        let copy = &copy;
        async move {
            let equal = make_equal(owner, copy, &other).await;
            (other, equal)
        }
    });
    for (other, equal) in join_all(others).await {
        if let Err(error) = equal {
            let failure = failure_of("become equal to the new owner", &error);
            let struck = owner.strike(&other, &failure).await;
            struck.map_err(CopiesError::Deposed)?;
        }
    }
    tracing::info!(copy = %options.id, epoch = owner.epoch.0, end = copy.end().last.0, "the copies that count are equal; the log is opened");
    drop(copy);
    let closed = host.close("this host takes over").await?;
    let mut kv = options.kv.clone();
    kv.log.epoch = Some(owner.epoch);
    kv.log.copies = ownership.copies(closed.end).await;
    let opened = Kv::open(closed.disk, closed.index, kv, options.platform.clone()).await;
    let (kv, found) = opened?;
    let kv = Arc::new(kv);
    host.become_owner();
    ownership.serve(&kv);
    Ok((kv, found))
}

/// Gives another copy the new owner's records, no more and no fewer.
async fn make_equal(
    owner: &OwnerShared,
    ours: &KvCopy,
    other: &CopyPeer,
) -> Result<(), CopyCallError> {
    let epoch = owner.epoch;
    let state = other
        .state(CopyOp::Obey { owner: epoch }, ASK_TIMEOUT)
        .await?;
    let CopyLogState::Open { end: theirs, .. } = state.log else {
        return Err(CopyCallError::Malformed);
    };
    let end = ours.end();
    let mut theirs = theirs;
    while theirs != end {
        let missed = match ours.records_after(theirs).await {
            Ok(Some(missed)) => missed,
            // It has more: no client was answered what is behind this place.
            Err(LogError::NoSuchPosition(_)) | Ok(None) => {
                let cut = CopyOp::CutTo { owner: epoch, end };
                theirs = other.call(cut, REOPEN_TIMEOUT).await?;
                break;
            }
            Err(_) => return Err(CopyCallError::Malformed),
        };
        let parts = missed.into_parts(owner.store, PART_BYTES);
        for part in parts.map_err(|_| CopyCallError::Malformed)? {
            let append = CopyOp::Append {
                owner: epoch,
                after: part.after,
                upto: part.upto,
                records: part.bytes,
            };
            theirs = other.call(append, APPEND_TIMEOUT).await?;
        }
    }
    match theirs == end {
        true => Ok(()),
        false => Err(CopyCallError::Malformed),
    }
}
