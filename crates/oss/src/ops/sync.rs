//! sync: all earlier writes and removals of these objects that got a reply survive a power loss.

use gupfs_proto::ObjectId;
use gupfs_proto::data::{DataReply, DataReplyBody};
use gupfs_store::object::Objects;

pub async fn run(target: &Objects, objects: &[ObjectId]) -> DataReply {
    target
        .sync(objects)
        .await
        .map(|()| DataReplyBody::DoneWithVerifier(target.write_verifier()))
}
