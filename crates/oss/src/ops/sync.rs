//! sync: everything answered before for these objects survives a power cut, removals too.

use gupfs_proto::ObjectId;
use gupfs_proto::data::{Answer, Reply};
use gupfs_store::object::Objects;

pub async fn run(target: &Objects, objects: &[ObjectId]) -> Reply {
    target
        .sync(objects)
        .await
        .map(|()| Answer::DoneIn(target.life()))
}
