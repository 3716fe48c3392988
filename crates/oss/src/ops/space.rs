//! space: the target's capacity, and the space available to writers.

use crate::Oss;
use gupfs_proto::data::{DataReply, DataReplyBody};
use gupfs_store::object::Objects;

pub async fn run(oss: &Oss, target: &Objects) -> DataReply {
    let mut space = target.space().await?;
    space.volume = oss.cluster_volume(space.volume);
    Ok(DataReplyBody::Space(space))
}
