//! read: bytes, and the checksums the reader verifies them by.

use gupfs_proto::data::{Answer, Checked, Existing, Reply};
use gupfs_proto::{ObjectId, ObjectOffset};
use gupfs_store::object::Objects;

pub async fn run(
    target: &Objects,
    object: ObjectId,
    at: ObjectOffset,
    len: u64,
    existing: Existing,
    checked: Checked,
) -> Reply {
    let got = target.read(object, at, len, existing, checked).await?;
    Ok(Answer::Data {
        data: got.data,
        sums: got.sums,
    })
}
