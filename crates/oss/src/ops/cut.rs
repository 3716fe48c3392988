//! cut: bytes from a place on go; durable with the next sync.

use gupfs_proto::ObjectId;
use gupfs_proto::data::{Answer, Reply};
use gupfs_store::object::Objects;

pub async fn run(target: &Objects, object: ObjectId, to: u64) -> Reply {
    target
        .cut(object, to)
        .await
        .map(|stat| Answer::Written(stat, target.life()))
}
