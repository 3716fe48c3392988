//! A relay to servers that answer, refuse, or answer nothing.

use super::*;
use bytes::Bytes;
use gupfs_platform::fake::FakePlatform;
use gupfs_proto::capability::DataCredentials;
use gupfs_proto::cluster::TargetAddress;
use gupfs_proto::data::{
    BlockChecksums, DataOp, DataReplyBody, ObjectExistence, ObjectOwner, ObjectStat, RelayTicket,
};
use gupfs_proto::{Generation, InodeId, ObjectId, ObjectOffset, SessionId, WriteVerifier};
use gupfs_rpc::Service;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

/// A metadata server whose map has ost1 at "good:1", ost2 at "full:1", ost3 at "silent:1"; ost4 has no address.
#[derive(Default)]
struct Maps(AtomicU32);

impl Service<ClusterRequest, ClusterReply> for Maps {
    async fn handle(self: Arc<Self>, request: ClusterRequest) -> ClusterReply {
        assert_eq!(request, ClusterRequest::Map);
        self.0.fetch_add(1, SeqCst);
        let place = |(ost, address): (u16, Option<&str>)| TargetAddress {
            ost: OstId(ost),
            address: address.map(str::to_owned),
        };
        let targets = [
            (1, Some("good:1")),
            (2, Some("full:1")),
            (3, Some("silent:1")),
            (4, None),
        ];
        Ok(ClusterReplyBody::Map(ClusterMap {
            epoch: MapEpoch(7),
            targets: targets.map(place).into(),
        }))
    }
}

struct OtherServers;

/// A server that behaves as its address says.
struct Behaviour(String);

impl DialOss for OtherServers {
    fn dial(&self, address: &str) -> Peer<DataRequest, DataReply> {
        Peer::local(Arc::new(Behaviour(address.to_owned())))
    }
}

fn verifier() -> WriteVerifier {
    WriteVerifier::default()
}

impl Service<DataRequest, DataReply> for Behaviour {
    async fn handle(self: Arc<Self>, _: DataRequest) -> DataReply {
        match self.0.as_str() {
            "good:1" => Ok(DataReplyBody::Written(ObjectStat::default(), verifier())),
            "full:1" => Err(FsError::NoSpace),
            _ => std::future::pending().await,
        }
    }
}

fn write_to(ost: u16, map_epoch: u64) -> DataRequest {
    DataRequest {
        session: SessionId(1),
        map_epoch: MapEpoch(map_epoch),
        job: gupfs_proto::JobId(0),
        ost: OstId(ost),
        credentials: DataCredentials::None,
        op: DataOp::RelayedWrite {
            ticket: RelayTicket(1),
            object: ObjectId {
                ino: InodeId(5),
                generation: Generation(1),
                stripe: 0,
            },
            at: ObjectOffset(0),
            data: Bytes::from_static(b"bytes"),
            checksums: BlockChecksums::default(),
            existence: ObjectExistence::MayExist,
            owner: ObjectOwner::default(),
            is_reserved: false,
        },
    }
}

fn relay() -> (Arc<WriteRelay>, Arc<Maps>, FakePlatform) {
    let (maps, platform) = (Arc::<Maps>::default(), FakePlatform::new(1));
    let relay = WriteRelay::new(
        Peer::local(maps.clone()),
        Arc::new(OtherServers),
        &platform.platform(),
    );
    (relay, maps, platform)
}

#[tokio::test(start_paused = true)]
async fn an_outcome_is_known_only_from_the_other_server() {
    let (relay, maps, platform) = relay();
    let clock = platform.platform().clock;
    let written = relay.relay(write_to(1, 7)).await;
    assert!(matches!(written, RelayOutcome::Written(_)));
    let full = relay.relay(write_to(2, 7)).await;
    assert_eq!(full, RelayOutcome::Refused(FsError::NoSpace));
    let begun = clock.boot();
    assert_eq!(relay.relay(write_to(3, 7)).await, RelayOutcome::Unknown);
    assert_eq!(clock.boot().since(begun), RELAY_PATIENCE);
    for ost in [4, 5] {
        let nowhere = relay.relay(write_to(ost, 7)).await;
        assert!(matches!(
            nowhere,
            RelayOutcome::Refused(FsError::TargetDown { .. })
        ));
    }
    assert!(maps.0.load(SeqCst) <= 3, "one for each that was not known");
}

#[tokio::test(start_paused = true)]
async fn no_map_epoch_makes_a_server_fetch_the_map_for_each_write() {
    let (relay, maps, _platform) = relay();
    for _ in 0..100 {
        let written = relay.relay(write_to(1, u64::MAX)).await;
        assert!(matches!(written, RelayOutcome::Written(_)));
    }
    assert_eq!(maps.0.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn writes_beyond_those_that_a_server_takes_at_once_are_not_sent() {
    let (relay, ..) = relay();
    let writes = (0..RELAYS_PER_SERVER + 2).map(|_| relay.relay(write_to(3, 7)));
    let outcomes = futures_util::future::join_all(writes).await;
    let unknown = (outcomes.iter()).filter(|outcome| **outcome == RelayOutcome::Unknown);
    assert_eq!(unknown.count(), RELAYS_PER_SERVER);
}
