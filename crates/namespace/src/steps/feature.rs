//! Features of the store: the first use of one is recorded, so that a program which does not know it refuses the store.

use crate::driver::OpResult;
use crate::key::RecordKey;
use crate::record::StoreFormat;
use crate::view::OpView;

/// Records that the store uses a feature.
pub(crate) fn require(view: &mut OpView, feature: u64) -> OpResult<()> {
    let format = view.get::<StoreFormat>(&RecordKey::format())?;
    match format {
        Some(format) if format.features & feature != feature => {
            let features = format.features | feature;
            let format = StoreFormat { features, ..format };
            view.put(RecordKey::format(), &format);
        }
        _ => {}
    }
    Ok(())
}
