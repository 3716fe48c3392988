//! Dispatches a request to its operation, and nothing else.

use crate::{Oss, ops};
use gupfs_proto::data::{DataOp, DataReply, DataRequest};
use gupfs_rpc::Service;
use std::sync::Arc;

impl Service<DataRequest, DataReply> for Oss {
    async fn handle(self: Arc<Self>, request: DataRequest) -> DataReply {
        if let DataOp::Fence { session } = request.op {
            return ops::fence::run(&self, session).await;
        }
        let target = &self.objects_after_verdict(request.ost).await?;
        target.note_map_epoch(request.map_epoch);
        match request.op {
            DataOp::Write {
                object,
                at,
                data,
                checksums: sums,
                existence: existing,
                owner,
            } => ops::write::run(target, object, at, &data, &sums, existing, owner).await,
            DataOp::Read {
                object,
                at,
                len,
                existence: existing,
                checksum_check: checked,
            } => ops::read::run(target, object, at, len, existing, checked).await,
            DataOp::Sync { objects } => ops::sync::run(target, &objects).await,
            DataOp::Confirm { objects } => ops::confirm::run(target, &objects).await,
            DataOp::Truncate { object, to } => ops::truncate::run(target, object, to).await,
            DataOp::Allocate {
                object,
                at,
                len,
                keep_size,
                existence: existing,
                owner,
            } => ops::allocate::run(target, object, at, len, keep_size, existing, owner).await,
            DataOp::Zero {
                object,
                at,
                len,
                punch,
            } => ops::zero::run(target, object, at, len, punch).await,
            DataOp::Seek {
                object,
                at,
                whence: what,
            } => ops::seek::run(target, object, at, what).await,
            DataOp::Stat { object } => ops::stat::run(target, object).await,
            DataOp::Remove { object } => ops::remove::run(target, object).await,
            DataOp::Quarantine { object } => ops::quarantine::run(target, object).await,
            DataOp::List { after, limit } => ops::list::run(target, after, limit).await,
            DataOp::Space => ops::space::run(&self, target).await,
            DataOp::Fence { .. } => unreachable!("a fence has no target"),
        }
    }
}
