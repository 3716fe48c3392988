//! A metadata request to the server, and nothing else.

use crate::Mds;
use gupfs_proto::meta::{Reply, Request};
use gupfs_rpc::Service;
use std::sync::Arc;

impl Service<Request, Reply> for Mds {
    async fn answer(self: Arc<Self>, request: Request) -> Reply {
        self.core.answer(request).await
    }
}
