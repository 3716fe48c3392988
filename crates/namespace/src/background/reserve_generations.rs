use crate::driver::{FollowUp, OpResult};
use crate::view::OpView;
use gupfs_proto::InodeId;
use std::ops::Range;

/// No layout of this file gets a generation in this range: the server copies its bytes to objects with these generations. They may
/// be made as soon as the batch is durable.
pub(crate) fn reserve_generations(
    view: &mut OpView,
    ino: InodeId,
    generations: &Range<u32>,
) -> OpResult<()> {
    view.change_file(ino, |_, file| {
        file.next_generation = file.next_generation.max(generations.end);
    })?;
    view.add_follow_up(FollowUp::AwaitDurable);
    Ok(())
}
