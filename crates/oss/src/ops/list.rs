//! list: the objects there are, in ascending order after one of them.

use gupfs_proto::ObjectId;
use gupfs_proto::data::{Answer, Reply};
use gupfs_store::object::Objects;

pub async fn run(target: &Objects, after: Option<ObjectId>, limit: u32) -> Reply {
    target.list(after, limit).await.map(Answer::Objects)
}
