//! list: the existing objects in ascending order, after a given one.

use gupfs_proto::ObjectId;
use gupfs_proto::data::{DataReply, DataReplyBody};
use gupfs_store::object::Objects;

pub async fn run(target: &Objects, after: Option<ObjectId>, limit: u32) -> DataReply {
    target.list(after, limit).await.map(DataReplyBody::Objects)
}
