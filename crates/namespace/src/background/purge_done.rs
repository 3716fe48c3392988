use crate::driver::OpResult;
use crate::key::{PurgeId, RecordKey};
use crate::record::{Purge, PurgeAction};
use crate::view::OpView;

/// The objects were removed: removes the `P` record. Idempotent.
pub(crate) fn purge_done(view: &mut OpView, id: PurgeId) -> OpResult<()> {
    let key = RecordKey::purge(id);
    let Some(purge) = view.get::<Purge>(&key)? else {
        return Ok(());
    };
    view.remove(key);
    if purge.action == PurgeAction::Remove {
        view.adjust_purge_count(id.ino.shard(), purge.volume, -1);
    }
    Ok(())
}
