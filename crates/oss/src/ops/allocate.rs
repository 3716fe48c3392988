//! allocate: reserves space for a range, so that writes there do not fail on a full disk.

use gupfs_proto::data::{DataReply, DataReplyBody, ObjectExistence, ObjectOwner};
use gupfs_proto::{ObjectId, ObjectOffset};
use gupfs_store::object::{AllocateRequest, Objects};

pub async fn run(
    target: &Objects,
    object: ObjectId,
    at: ObjectOffset,
    len: u64,
    keep_size: bool,
    existing: ObjectExistence,
    owner: ObjectOwner,
) -> DataReply {
    let allocate = AllocateRequest {
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
        .map(|stat| DataReplyBody::Written(stat, target.write_verifier()))
}
