//! confirm: which of these objects are present; the present ones survive a power loss.

use gupfs_proto::ObjectId;
use gupfs_proto::data::{DataReply, DataReplyBody};
use gupfs_store::object::Objects;

pub async fn run(target: &Objects, objects: &[ObjectId]) -> DataReply {
    target.confirm(objects).await.map(DataReplyBody::Confirmed)
}
