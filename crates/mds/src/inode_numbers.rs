//! Reserves inode numbers, in blocks.

use crate::origin::RequestOrigin;
use crate::shard_driver::ShardDriver;
use crate::stats::MdsStats;
use crate::store::MetadataStore;
use crate::waits::{WaitList, WaitReason};
use gupfs_namespace::{BackgroundOp, Operation};
use gupfs_proto::{FsError, Seq, VirtualShard};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

pub struct InodeNumbers {
    store: Arc<MetadataStore>,
    driver: Arc<ShardDriver>,
    waits: Arc<WaitList>,
    stats: Arc<MdsStats>,
    /// Held while one block of inode numbers is reserved.
    reserving: tokio::sync::Mutex<()>,
}

impl InodeNumbers {
    pub fn new(
        store: Arc<MetadataStore>,
        driver: Arc<ShardDriver>,
        waits: Arc<WaitList>,
        stats: Arc<MdsStats>,
    ) -> InodeNumbers {
        InodeNumbers {
            store,
            driver,
            waits,
            stats,
            reserving: tokio::sync::Mutex::new(()),
        }
    }

    /// Reserves the next block of inode numbers, unless another task reserved one while this one waited for the lock.
    ///
    /// The block is durable before its first number is used: a number that a power loss undoes would be given to two files.
    pub async fn reserve_block(
        &self,
        origin: RequestOrigin,
        shard: VirtualShard,
        given: u64,
    ) -> Result<(), FsError> {
        let lock = self
            .waits
            .wait(origin, WaitReason::Numbers(shard), self.reserving.lock());
        let _lock = lock.await?;
        if self.driver.blocks_given(shard) > given {
            return Ok(());
        }
        self.reserve_blocks(origin, &[shard]).await
    }

    /// Reserves a block for each of these shards, with one sync for all. Boxed because it is rare, and its
    /// future is large.
    pub fn reserve_blocks<'a>(
        &'a self,
        origin: RequestOrigin,
        shards: &'a [VirtualShard],
    ) -> Pin<Box<dyn Future<Output = Result<(), FsError>> + Send + 'a>> {
        Box::pin(async move {
            let mut blocks = Vec::with_capacity(shards.len());
            let mut newest = Seq(0);
            for shard in shards {
                let op = BackgroundOp::ReserveInodeNumbers { shard: *shard };
                let driver = &self.driver;
                let applied = driver
                    .apply(driver.server_requester(), Operation::Background(&op))
                    .await?;
                applied.result?;
                newest = newest.max(applied.seq);
                blocks.extend(applied.reserved_block);
            }
            self.store.durable(origin, newest).await?;
            for (shard, counters) in blocks {
                self.driver.give_block(shard, counters);
                self.stats.number_blocks.fetch_add(1, Relaxed);
            }
            Ok(())
        })
    }
}
