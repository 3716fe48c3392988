//! A page that the kernel reads while a write of the same bytes is under way.

use crate::shared_cluster::{SharedCluster, pause};
use crate::user::User;
use bytes::Bytes;
use gupfs_client::{
    Client, Durability, Invalidated, KernelInodes, OpenFile, ReadOptions, WriteOptions,
};
use gupfs_client::{OstPeer, SessionOptions};
use gupfs_oss::Oss;
use gupfs_proto::data::{DataOp, DataReply, DataRequest};
use gupfs_proto::meta::WritePosition;
use gupfs_proto::{InodeId, OstId};
use gupfs_rpc::{Peer, Service};
use parking_lot::Mutex;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const PAGE: usize = 4096;

/// An object server that takes its time for writes.
struct SlowOss {
    oss: Arc<Oss>,
    slow_writes: AtomicU32,
}

impl Service<DataRequest, DataReply> for SlowOss {
    async fn handle(self: Arc<Self>, request: DataRequest) -> DataReply {
        let is_write = matches!(request.op, DataOp::Write { .. });
        let count = |left: u32| left.checked_sub(1);
        let (set, get) = (Ordering::SeqCst, Ordering::SeqCst);
        if is_write && self.slow_writes.fetch_update(set, get, count).is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.oss.clone().handle(request).await
    }
}

/// A kernel with at most one page, the file's first.
struct OnePage {
    client: Arc<Client>,
    file: Arc<OpenFile>,
    page: Arc<Mutex<Option<MappedPage>>>,
}

struct MappedPage {
    bytes: Vec<u8>,
    is_dirty: bool,
}

impl KernelInodes for OnePage {
    fn invalidate_attributes(&self, _: InodeId) -> Invalidated {
        Invalidated::Done
    }

    fn drop_pages(
        &self,
        _: InodeId,
        _: Range<u64>,
    ) -> Pin<Box<dyn Future<Output = Invalidated> + Send>> {
        let (client, file, page) = (self.client.clone(), self.file.clone(), self.page.clone());
        Box::pin(async move {
            let dropped = page.lock().take();
            if let Some(MappedPage {
                bytes,
                is_dirty: true,
            }) = dropped
            {
                let options = WriteOptions {
                    from_page_cache: true,
                    ..WriteOptions::default()
                };
                let at = WritePosition::Offset(0);
                let written = client.write(&file, at, Bytes::from(bytes), options);
                written.await.unwrap();
            }
            Invalidated::Done
        })
    }
}

/// A client whose object servers are slow, and its file of 100,000 bytes, opened for writing.
async fn slow_user(cluster: &SharedCluster) -> (User, Arc<SlowOss>, Arc<OpenFile>) {
    let servers = &cluster.servers;
    let oss = Arc::new(SlowOss {
        oss: servers.oss.clone(),
        slow_writes: AtomicU32::new(0),
    });
    let peer = |ost: OstId| -> (OstId, OstPeer) { (ost, Peer::local(oss.clone())) };
    let targets = servers.oss.osts().into_iter().map(peer);
    let platform = servers.platform.clone();
    let options = SessionOptions {
        shared: true,
        ..SessionOptions::default()
    };
    let mds = Peer::local(servers.mds.clone());
    let client = Client::connect(mds, targets.collect(), platform.platform(), options);
    let client = client.await.unwrap();
    let user = User { platform, client };
    cluster.attach(&user);
    let file = user.create("mapped").await;
    user.write(&file, 0, &[1; 100_000]).await;
    user.client.fsync(&file, false).await.unwrap();
    (user, oss, file)
}

/// The lease ends while a write is under way, so that a READ must not wait for it: the kernel gets a page from before the write, and a program
/// stores into it.
#[tokio::test(start_paused = true)]
async fn a_store_into_a_page_from_before_a_write_does_not_undo_the_write() {
    let cluster = SharedCluster::new(1, 1).await;
    let (near, (user, oss, file)) = (&cluster.users[0], slow_user(&cluster).await);
    let page = Arc::new(Mutex::new(None));
    user.client.set_kernel(Arc::new(OnePage {
        client: user.client.clone(),
        file: file.clone(),
        page: page.clone(),
    }));
    oss.slow_writes.store(1, Ordering::SeqCst);
    let write = {
        let (user, file) = (user.clone(), file.clone());
        let options = WriteOptions {
            durability: Durability::Data,
            ..WriteOptions::default()
        };
        tokio::spawn(async move {
            let (at, bytes) = (WritePosition::Offset(4000), Bytes::from_static(&[9; 10]));
            let written = user.client.write(&file, at, bytes, options).await;
            (written.unwrap().written, user.read(&file, 3999, 12).await)
        })
    };
    pause().await;
    let fault = {
        let (user, file, page) = (user.clone(), file.clone(), page.clone());
        tokio::spawn(async move {
            let read = (user.client).read_pages(&file, 0, PAGE as u64, ReadOptions::default());
            let mut bytes = read.await.unwrap().concat();
            let before = bytes[4000];
            bytes[0] = 7;
            let is_dirty = true;
            *page.lock() = Some(MappedPage { bytes, is_dirty });
            before
        })
    };
    pause().await;
    assert!(!fault.is_finished(), "it waits for the write");
    let near_file = near.open(file.ino()).await;
    near.write(&near_file, 50_000, &[3; 10]).await;
    let seen = near.read(&near_file, 0, PAGE as u64).await;
    assert_eq!(fault.await.unwrap(), 1, "the page is from before the write");
    assert_eq!((seen[0], seen[1]), (7, 1));
    let (written, own) = write.await.unwrap();
    assert_eq!(written, 10);
    assert_eq!(own, [&[1][..], &[9; 10], &[1]].concat());
    let seen = near.read(&near_file, 0, PAGE as u64).await;
    assert_eq!((seen[0], &seen[3999..4011]), (7, &own[..]));
}
