//! stat: length, space and time of an object, or that there is none.

use gupfs_proto::ObjectId;
use gupfs_proto::data::{Answer, Reply};
use gupfs_store::object::Objects;

pub async fn run(target: &Objects, object: ObjectId) -> Reply {
    target.stat(object).await.map(Answer::Stat)
}
