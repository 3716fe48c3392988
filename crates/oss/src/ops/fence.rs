//! fence: nothing that a session asked takes effect any more, at any target of this server.

use crate::Oss;
use gupfs_proto::SessionId;
use gupfs_proto::data::{Answer, Reply};

pub async fn run(oss: &Oss, session: SessionId) -> Reply {
    oss.gate().fence(session).await;
    Ok(Answer::Done)
}
