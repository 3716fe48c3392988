//! quarantine: removes an object but keeps its bytes for a while; idempotent. Durable with the next sync.

use gupfs_proto::ObjectId;
use gupfs_proto::data::{DataReply, DataReplyBody};
use gupfs_store::object::Objects;

pub async fn run(target: &Objects, object: ObjectId) -> DataReply {
    target
        .quarantine(object)
        .await
        .map(|()| DataReplyBody::DoneWithVerifier(target.write_verifier()))
}
