//! write: answered when the bytes are in the server's memory; they survive its end, not a power cut.

use gupfs_proto::data::{Answer, BlockSums, Existing, Owner, Reply};
use gupfs_proto::{ObjectId, ObjectOffset};
use gupfs_store::object::{Objects, Write};

pub async fn run(
    target: &Objects,
    object: ObjectId,
    at: ObjectOffset,
    data: &[u8],
    sums: &BlockSums,
    existing: Existing,
    owner: Owner,
) -> Reply {
    let write = Write {
        object,
        at,
        data,
        sums,
        existing,
        owner,
    };
    target
        .write(write)
        .await
        .map(|stat| Answer::Written(stat, target.life()))
}
