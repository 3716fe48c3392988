//! Reads of mirrored files while a member becomes stale.

use crate::real_servers::{ClusterDisks, TARGETS, lay_out_small};
use crate::shared_cluster::pause;
use crate::user::User;
use bytes::Bytes;
use gupfs_client::{Client, SessionOptions};
use gupfs_mds::Mds;
use gupfs_oss::Oss;
use gupfs_platform::fake::FakePlatform;
use gupfs_proto::data::{BlockChecksums, DataOp, DataReply, DataReplyBody, DataRequest};
use gupfs_proto::layout::{DefaultComponent, DefaultLayout, Redundancy};
use gupfs_proto::limits::STRIPE_UNIT_MIN;
use gupfs_proto::{Caller, FileOffset, FsError, OstId};
use gupfs_rpc::{Peer, Service};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// The object servers. One of their targets loses power between the moment in which a client has looked up what it reads, and that read: the
/// target has older bytes then, and accepts no write.
struct LosingServers {
    oss: Arc<Oss>,
    state: Mutex<Loss>,
    is_reading: Notify,
    go_on: Notify,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    None,
    /// The target that gets the next read.
    AtNextRead,
    Of(OstId),
}

impl Service<DataRequest, DataReply> for LosingServers {
    async fn handle(self: Arc<Self>, request: DataRequest) -> DataReply {
        let loss = *self.state.lock();
        match (&request.op, loss) {
            (DataOp::Read { len, .. }, Loss::AtNextRead) => {
                *self.state.lock() = Loss::Of(request.ost);
                self.is_reading.notify_one();
                self.go_on.notified().await;
                Ok(DataReplyBody::Data {
                    data: Bytes::from(vec![0; *len as usize]),
                    checksums: BlockChecksums::default(),
                })
            }
            (DataOp::Write { .. }, Loss::Of(ost)) if ost == request.ost => {
                Err(FsError::TargetDown {
                    ost,
                    reason: "it has lost power".into(),
                })
            }
            _ => self.oss.clone().handle(request).await,
        }
    }
}

async fn connect(platform: &FakePlatform, mds: &Arc<Mds>, servers: &Arc<LosingServers>) -> User {
    let osts = (0..TARGETS).map(|ost| (OstId(ost), Peer::local(servers.clone())));
    let options = SessionOptions {
        shared: true,
        ..SessionOptions::default()
    };
    let mds_peer = Peer::local(mds.clone());
    let client = Client::connect(mds_peer, osts.collect(), platform.platform(), options);
    let user = User {
        client: client.await.unwrap(),
        platform: platform.clone(),
    };
    let back = Peer::local(user.client.clone());
    mds.attach(user.client.session(), back);
    user
}

#[tokio::test(start_paused = true)]
async fn a_read_from_a_member_that_becomes_stale_meanwhile_is_repeated() {
    let disks = ClusterDisks::new(1).await;
    let cluster = disks.servers(|_| {}).await;
    let servers = Arc::new(LosingServers {
        oss: cluster.oss.clone(),
        state: Mutex::new(Loss::None),
        is_reading: Notify::new(),
        go_on: Notify::new(),
    });
    let writer = connect(&cluster.platform, &cluster.mds, &servers).await;
    let reader = connect(&cluster.platform, &cluster.mds, &servers).await;
    lay_out_small(&writer).await;
    let layout = DefaultLayout {
        components: vec![DefaultComponent {
            to: FileOffset(u64::MAX),
            unit: STRIPE_UNIT_MIN,
            count: 1,
            first: None,
            redundancy: Redundancy::Mirror(2),
        }],
    };
    let root = writer.client.root();
    (writer.client)
        .set_default_layout(&Caller::root(), root, Some(layout))
        .await
        .unwrap();
    let file = writer.create("file").await;
    writer.write(&file, 0, &[1; 50_000]).await;
    let same = reader.open(file.ino()).await;
    assert_eq!(reader.read(&same, 0, 50_000).await, [1; 50_000]);
    // So that the reader has no lease, and asks what it reads.
    writer.write(&file, 0, &[1; 50_000]).await;

    *servers.state.lock() = Loss::AtNextRead;
    let reading = reader.read(&same, 0, 50_000);
    let losing = async {
        servers.is_reading.notified().await;
        writer.write(&file, 60_000, &[2; 1_000]).await;
        pause().await;
        servers.go_on.notify_one();
    };
    let (read, ()) = tokio::join!(reading, losing);
    assert_eq!(read, [1; 50_000]);
    assert!(matches!(*servers.state.lock(), Loss::Of(_)));
}
