//! set_aside: an object is gone, and its bytes are kept for a while; done again it succeeds again. Durable with the next sync.

use gupfs_proto::ObjectId;
use gupfs_proto::data::{Answer, Reply};
use gupfs_store::object::Objects;

pub async fn run(target: &Objects, object: ObjectId) -> Reply {
    target
        .set_aside(object)
        .await
        .map(|()| Answer::DoneIn(target.life()))
}
