use crate::key::{Key, KeyRange};
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::limits::CHORE_BATCH;
use gupfs_proto::{SessionId, VirtualShard};

/// Nobody will ask this session's requests again. Its orphans and writers are forgotten before, one by one.
pub(crate) fn drop_session(
    view: &mut View,
    session: SessionId,
    shard: VirtualShard,
) -> Outcome<()> {
    // More than a session has slots: before that had a bound there could be some. What is left is found by the next start.
    for (key, _) in view.scan(KeyRange::replies(shard, session), CHORE_BATCH)? {
        view.remove(key);
    }
    if shard == VirtualShard(0) {
        view.remove(Key::session(session));
    }
    Ok(())
}
