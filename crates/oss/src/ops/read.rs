//! read: bytes, and the checksums with which the reader verifies them.

use gupfs_proto::data::{ChecksumCheck, DataReply, DataReplyBody, ObjectExistence};
use gupfs_proto::{ObjectId, ObjectOffset};
use gupfs_store::object::Objects;

pub async fn run(
    target: &Objects,
    object: ObjectId,
    at: ObjectOffset,
    len: u64,
    existing: ObjectExistence,
    checked: ChecksumCheck,
) -> DataReply {
    let got = target.read(object, at, len, existing, checked).await?;
    Ok(DataReplyBody::Data {
        data: got.data,
        checksums: got.sums,
    })
}
