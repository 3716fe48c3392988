//! stat: length, allocated space and time of an object, or that it does not exist.

use gupfs_proto::ObjectId;
use gupfs_proto::data::{DataReply, DataReplyBody};
use gupfs_store::object::Objects;

pub async fn run(target: &Objects, object: ObjectId) -> DataReply {
    target.stat(object).await.map(DataReplyBody::Stat)
}
