//! remove: an object is gone; done again it succeeds again. Durable with the next sync of it.

use gupfs_proto::ObjectId;
use gupfs_proto::data::{Answer, Reply};
use gupfs_store::object::Objects;

pub async fn run(target: &Objects, object: ObjectId) -> Reply {
    target
        .remove(object)
        .await
        .map(|()| Answer::DoneIn(target.life()))
}
