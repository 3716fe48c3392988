//! What the metadata server asks this process's client, on its way from the line, which is there first.

use gupfs_client::Client;
use gupfs_proto::recall;
use gupfs_rpc::{Line, Service};
use std::sync::{Arc, OnceLock};

#[derive(Default)]
pub struct Recalled(OnceLock<Arc<Client>>);

impl Recalled {
    pub fn answered_by(&self, client: &Arc<Client>) {
        // Set once: there is one client.
        let _ = self.0.set(client.clone());
    }
}

impl Service<recall::Request, recall::Reply> for Recalled {
    async fn answer(self: Arc<Self>, question: recall::Request) -> recall::Reply {
        match self.0.get() {
            Some(client) => client.clone().answer(question).await,
            // Nothing was asked for yet, so nothing is held.
            None => match question {
                recall::Request::Removed { inodes } => {
                    Ok(recall::Answer::Open(vec![false; inodes.len()]))
                }
                recall::Request::Tell { .. }
                | recall::Request::GiveBack { .. }
                | recall::Request::Granted { .. } => Ok(recall::Answer::Done),
            },
        }
    }
}

/// Runs for ever. After each new connection the server learns at once that this client lives: others may wait for its word.
pub async fn greet_again(line: Arc<Line>, client: Arc<Client>) {
    let mut connection = line.connection();
    loop {
        line.changed(connection).await;
        connection = line.connection();
        if connection != 0 {
            client.is_back();
        }
    }
}
