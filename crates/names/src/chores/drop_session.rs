use crate::key::{Key, KeyRange};
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::limits::SLOTS;
use gupfs_proto::{SessionId, VirtualShard};

/// Nobody will ask this session's requests again. Its orphans and writers are forgotten before, one by one.
pub(crate) fn drop_session(
    view: &mut View,
    session: SessionId,
    shard: VirtualShard,
) -> Outcome<()> {
    for (key, _) in view.scan(KeyRange::replies(shard, session), usize::from(SLOTS))? {
        view.remove(key);
    }
    if shard == VirtualShard(0) {
        view.remove(Key::session(session));
    }
    Ok(())
}
