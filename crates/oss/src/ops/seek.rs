//! seek: the next offset at which data or a hole begins.

use gupfs_proto::data::{DataReply, DataReplyBody, SeekWhence};
use gupfs_proto::{ObjectId, ObjectOffset};
use gupfs_store::object::Objects;

pub async fn run(
    target: &Objects,
    object: ObjectId,
    at: ObjectOffset,
    what: SeekWhence,
) -> DataReply {
    target
        .seek(object, at, what)
        .await
        .map(DataReplyBody::Position)
}
