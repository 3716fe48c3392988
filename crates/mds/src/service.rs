//! Passes a metadata request to the server, and does nothing else.

use crate::Mds;
use gupfs_proto::meta::{MetaReply, MetaRequest};
use gupfs_rpc::Service;
use std::sync::Arc;

impl Service<MetaRequest, MetaReply> for Mds {
    async fn handle(self: Arc<Self>, request: MetaRequest) -> MetaReply {
        self.core.handle_request(request).await
    }
}
