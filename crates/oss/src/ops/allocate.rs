//! allocate: space for a range, so that writes there do not meet a full disk.

use gupfs_proto::data::{Answer, Existing, Owner, Reply};
use gupfs_proto::{ObjectId, ObjectOffset};
use gupfs_store::object::{Allocate, Objects};

pub async fn run(
    target: &Objects,
    object: ObjectId,
    at: ObjectOffset,
    len: u64,
    keep_size: bool,
    existing: Existing,
    owner: Owner,
) -> Reply {
    let allocate = Allocate {
        object,
        at,
        len,
        keep_size,
        existing,
        owner,
    };
    target
        .allocate(allocate)
        .await
        .map(|stat| Answer::Written(stat, target.life()))
}
