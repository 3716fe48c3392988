//! space: what the target has, and what writers may still take of it.

use crate::Oss;
use gupfs_proto::data::{Answer, Reply};
use gupfs_store::object::Objects;

pub async fn run(oss: &Oss, target: &Objects) -> Reply {
    let mut space = target.space().await?;
    space.volume = oss.volume(space.volume);
    Ok(Answer::Space(space))
}
