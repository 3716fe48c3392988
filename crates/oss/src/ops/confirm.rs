//! confirm: which of these objects are there, and they survive a power cut.

use gupfs_proto::ObjectId;
use gupfs_proto::data::{Answer, Reply};
use gupfs_store::object::Objects;

pub async fn run(target: &Objects, objects: &[ObjectId]) -> Reply {
    target.confirm(objects).await.map(Answer::There)
}
