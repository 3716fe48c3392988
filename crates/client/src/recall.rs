//! What the metadata server asks a client: to tell of a file that it holds, to give it back, which removed files it has open;
//! and that it tells of a lock that was waited for.

use crate::service::Client;
use gupfs_proto::recall::{Answer, Reply, Request};
use gupfs_proto::{InodeId, Refusal};
use gupfs_rpc::Service;
use std::sync::Arc;

impl Service<Request, Reply> for Client {
    /// On a task of its own: who asks may give up waiting, and a word that is half said must be said to its end.
    async fn answer(self: Arc<Self>, question: Request) -> Reply {
        let client = self.clone();
        let said = self
            .platform
            .tasks
            .spawn("answer the metadata server", async move {
                client.say(question).await
            });
        said.await
            .unwrap_or_else(|ended| Err(Refusal::TimedOut(ended.to_string())))
    }
}

impl Client {
    async fn say(&self, question: Request) -> Reply {
        match question {
            Request::Tell { ino } => self.tell_of(ino).await?,
            Request::GiveBack { ino } => self.give_back(ino).await?,
            Request::Granted {
                session,
                life,
                take,
                turn,
            } => self.locks.granted(session, life, take, turn),
            Request::Removed { inodes } => return Ok(Answer::Open(self.has_open(&inodes).await)),
        }
        Ok(Answer::Done)
    }

    /// Which of these files are open here. They have no name any more: their last close says that they are forgotten.
    async fn has_open(&self, inodes: &[InodeId]) -> Vec<bool> {
        self.opening.settled(inodes).await;
        let mut ledger = self.ledger.lock();
        inodes.iter().map(|ino| ledger.removed(*ino)).collect()
    }
}
