//! zero: makes a range read as zeros, with or without its allocated space.

use gupfs_proto::data::{DataReply, DataReplyBody};
use gupfs_proto::{ObjectId, ObjectOffset};
use gupfs_store::object::Objects;

pub async fn run(
    target: &Objects,
    object: ObjectId,
    at: ObjectOffset,
    len: u64,
    punch: bool,
) -> DataReply {
    target
        .zero(object, at, len, punch)
        .await
        .map(|stat| DataReplyBody::Written(stat, target.write_verifier()))
}
