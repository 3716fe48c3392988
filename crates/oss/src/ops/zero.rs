//! zero: a range reads zeros, with its space or without.

use gupfs_proto::data::{Answer, Reply};
use gupfs_proto::{ObjectId, ObjectOffset};
use gupfs_store::object::Objects;

pub async fn run(
    target: &Objects,
    object: ObjectId,
    at: ObjectOffset,
    len: u64,
    punch: bool,
) -> Reply {
    target
        .zero(object, at, len, punch)
        .await
        .map(|stat| Answer::Written(stat, target.life()))
}
