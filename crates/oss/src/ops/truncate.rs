//! truncate: removes the bytes from an offset on; durable with the next sync.

use gupfs_proto::ObjectId;
use gupfs_proto::data::{DataReply, DataReplyBody};
use gupfs_store::object::Objects;

pub async fn run(target: &Objects, object: ObjectId, to: u64) -> DataReply {
    target
        .truncate(object, to)
        .await
        .map(|stat| DataReplyBody::Written(stat, target.write_verifier()))
}
