//! remove: removes an object; idempotent. Durable with the next sync of the object.

use gupfs_proto::ObjectId;
use gupfs_proto::data::{DataReply, DataReplyBody};
use gupfs_store::object::Objects;

pub async fn run(target: &Objects, object: ObjectId) -> DataReply {
    target
        .remove(object)
        .await
        .map(|()| DataReplyBody::DoneWithVerifier(target.write_verifier()))
}
