//! A request to the operation it names, and nothing else.

use crate::{Oss, ops};
use gupfs_proto::data::{Op, Reply, Request};
use gupfs_rpc::Service;
use std::sync::Arc;

impl Service<Request, Reply> for Oss {
    async fn answer(self: Arc<Self>, request: Request) -> Reply {
        if let Op::Fence { session } = request.op {
            return ops::fence::run(&self, session).await;
        }
        let target = &self.believed(request.ost).await?;
        target.see_map_epoch(request.map_epoch);
        match request.op {
            Op::Write {
                object,
                at,
                data,
                sums,
                existing,
                owner,
            } => ops::write::run(target, object, at, &data, &sums, existing, owner).await,
            Op::Read {
                object,
                at,
                len,
                existing,
                checked,
            } => ops::read::run(target, object, at, len, existing, checked).await,
            Op::Sync { objects } => ops::sync::run(target, &objects).await,
            Op::Confirm { objects } => ops::confirm::run(target, &objects).await,
            Op::Cut { object, to } => ops::cut::run(target, object, to).await,
            Op::Allocate {
                object,
                at,
                len,
                keep_size,
                existing,
                owner,
            } => ops::allocate::run(target, object, at, len, keep_size, existing, owner).await,
            Op::Zero {
                object,
                at,
                len,
                punch,
            } => ops::zero::run(target, object, at, len, punch).await,
            Op::Seek { object, at, what } => ops::seek::run(target, object, at, what).await,
            Op::Stat { object } => ops::stat::run(target, object).await,
            Op::Remove { object } => ops::remove::run(target, object).await,
            Op::SetAside { object } => ops::set_aside::run(target, object).await,
            Op::List { after, limit } => ops::list::run(target, after, limit).await,
            Op::Space => ops::space::run(&self, target).await,
            Op::Fence { .. } => unreachable!("it is about no target"),
        }
    }
}
