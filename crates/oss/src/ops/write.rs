//! write: replies when the bytes are in the memory of the server's host; they survive the end of the process, but not a power
//! loss.

use gupfs_proto::data::{BlockChecksums, DataReply, DataReplyBody, ObjectExistence, ObjectOwner};
use gupfs_proto::{ObjectId, ObjectOffset};
use gupfs_store::object::{Objects, WriteRequest};

pub async fn run(
    target: &Objects,
    object: ObjectId,
    at: ObjectOffset,
    data: &[u8],
    sums: &BlockChecksums,
    existing: ObjectExistence,
    owner: ObjectOwner,
) -> DataReply {
    let write = WriteRequest {
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
        .map(|stat| DataReplyBody::Written(stat, target.write_verifier()))
}
