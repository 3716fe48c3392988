//! space: what the target has, and what writers may still take of it.

use gupfs_proto::data::{Answer, Reply};
use gupfs_store::object::Objects;

pub async fn run(target: &Objects) -> Reply {
    target.space().await.map(Answer::Space)
}
