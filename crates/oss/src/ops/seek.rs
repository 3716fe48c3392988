//! seek: where data or a hole begins.

use gupfs_proto::data::{Answer, Reply, Seek};
use gupfs_proto::{ObjectId, ObjectOffset};
use gupfs_store::object::Objects;

pub async fn run(target: &Objects, object: ObjectId, at: ObjectOffset, what: Seek) -> Reply {
    target.seek(object, at, what).await.map(Answer::Found)
}
