use crate::key::{Key, PurgeId};
use crate::record::{Purge, PurgeWhat};
use crate::step::Outcome;
use crate::view::View;

/// The objects are gone: so is the record of it. Said twice, the second time does nothing.
pub(crate) fn purge_done(view: &mut View, id: PurgeId) -> Outcome<()> {
    let key = Key::purge(id);
    let Some(purge) = view.get::<Purge>(&key)? else {
        return Ok(());
    };
    view.remove(key);
    if purge.what == PurgeWhat::Remove {
        view.count_purges(id.ino.shard(), purge.volume, -1);
    }
    Ok(())
}
