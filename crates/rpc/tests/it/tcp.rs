//! The same over TCP on this host.

use crate::fixture::*;
use gupfs_platform::{Net, Platform};
use gupfs_rpc::*;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_clients_send_many_requests() {
    let counting = CountingServer::new(Platform::real());
    let server = server(&Net::real(), "127.0.0.1:0", &counting, key(9)).await;
    let mut calls = Vec::new();
    let mut connections = Vec::new();
    for process_id in 0..4 {
        let mut options =
            connection_options(&Net::real(), &Platform::real(), 50 + process_id, key(9));
        options.addresses = ServerAddresses::one(server.address());
        let connection = ClientConnection::connect(options);
        connection
            .wait_connected(Duration::from_secs(5))
            .await
            .unwrap();
        for _ in 0..8 {
            let peer: MdsPeer = connection.peer();
            calls.push(tokio::spawn(async move {
                for job in 0..500 {
                    assert!(peer.call(request(job, 0)).await.result.is_ok());
                }
            }));
        }
        connections.push(connection);
    }
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(counting.handled.lock().len(), 4 * 8 * 500);
}

/// Frames longer than any socket buffer, in both directions, and a slow reader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_payloads_arrive_whole() {
    use bytes::Bytes;
    use gupfs_proto::data::{
        self, BlockChecksums, DataOp, DataReplyBody, ObjectExistence, ObjectOwner,
    };
    use gupfs_proto::{Generation, InodeId, MapEpoch, ObjectId, ObjectOffset, OstId, SessionId};
    struct Echo;
    impl Service<data::DataRequest, data::DataReply> for Echo {
        async fn handle(self: Arc<Self>, request: data::DataRequest) -> data::DataReply {
            match request.op {
                DataOp::Write {
                    data, checksums, ..
                } => Ok(DataReplyBody::Data { data, checksums }),
                _ => Ok(DataReplyBody::Done),
            }
        }
    }
    let listener = Net::real().listen("127.0.0.1:0").await.unwrap();
    let server = RpcServer::start(
        listener,
        RpcServerOptions {
            platform: Platform::real(),
            identity: identity(1, Role::Oss),
            cluster: CLUSTER,
            key: key(9),
            client_keys: Arc::new(AcceptAllClientKeys),
            tls: None,
            handlers: Handlers::none().with_service(Arc::new(Echo)),
            observer: Arc::new(NoObserver),
            capacity: Capacity::for_clients(64),
            admission: Arc::new(AdmitAll),
            send_deadline: SendDeadline::none(),
        },
    );
    let mut options = connection_options(&Net::real(), &Platform::real(), 70, key(9));
    options.addresses = ServerAddresses::one(server.address());
    let connection = ClientConnection::connect(options);
    let call = (0..20u64).map(|number| {
        let peer: Peer<data::DataRequest, data::DataReply> = connection.peer();
        tokio::spawn(async move {
            let len = (number * 211_111 % (4 << 20)) as usize;
            let bytes: Vec<u8> = (0..len).map(|at| (at as u64 * 31 + number) as u8).collect();
            let data = Bytes::from(bytes);
            let op = DataOp::Write {
                object: ObjectId {
                    ino: InodeId(number),
                    generation: Generation(1),
                    stripe: 0,
                },
                at: ObjectOffset(0),
                data: data.clone(),
                checksums: BlockChecksums::default(),
                existence: ObjectExistence::MayExist,
                owner: ObjectOwner::default(),
            };
            let request = data::DataRequest {
                credentials: gupfs_proto::capability::DataCredentials::None,
                session: SessionId(1),
                map_epoch: MapEpoch(1),
                job: gupfs_proto::JobId(0),
                ost: OstId(0),
                op,
            };
            match peer.call(request).await {
                Ok(DataReplyBody::Data { data: back, .. }) => assert!(back == data),
                other => panic!("{other:?}"),
            }
        })
    });
    for call in call.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}
