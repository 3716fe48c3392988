//! fence: no request of a session takes effect any more, at any target of this server.

use crate::Oss;
use gupfs_proto::SessionId;
use gupfs_proto::data::{DataReply, DataReplyBody};

pub async fn run(oss: &Oss, session: SessionId) -> DataReply {
    oss.authorizer().fence(session).await;
    Ok(DataReplyBody::Done)
}
