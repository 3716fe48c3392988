use crate::driver::OpResult;
use crate::key::{KeyRange, RecordKey};
use crate::view::OpView;
use gupfs_proto::limits::BACKGROUND_BATCH;
use gupfs_proto::{SessionId, VirtualShard};

/// Removes the session's stored replies: no client sends its requests again. The driver has removed its orphans and write leases
/// before, one by one.
pub(crate) fn drop_session(
    view: &mut OpView,
    session: SessionId,
    shard: VirtualShard,
) -> OpResult<()> {
    // The limit is above the number of slots of a session, but stores from before that bound may have more. The next start finds
    // the rest.
    for (key, _) in view.scan(KeyRange::replies(shard, session), BACKGROUND_BATCH)? {
        view.remove(key);
    }
    if shard == VirtualShard(0) {
        view.remove(RecordKey::session(session));
    }
    Ok(())
}
