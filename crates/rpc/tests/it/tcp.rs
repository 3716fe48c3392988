//! The same over TCP on this host.

use crate::house::*;
use gupfs_platform::{Net, Platform};
use gupfs_rpc::*;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_questions_of_several_clients() {
    let counting = Counting::new(Platform::real());
    let server = server(&Net::real(), "127.0.0.1:0", &counting, key(9)).await;
    let mut asking = Vec::new();
    let mut lines = Vec::new();
    for who in 0..4 {
        let mut options = line_options(&Net::real(), &Platform::real(), 50 + who, key(9));
        options.to = server.address().to_string();
        let line = Line::open(options);
        line.ready(Duration::from_secs(5)).await.unwrap();
        for _ in 0..8 {
            let peer: Mds = line.peer();
            asking.push(tokio::spawn(async move {
                for job in 0..500 {
                    assert!(peer.call(request(job, 0)).await.result.is_ok());
                }
            }));
        }
        lines.push(line);
    }
    for asked in asking {
        asked.await.unwrap();
    }
    assert_eq!(counting.had.lock().len(), 4 * 8 * 500);
}

/// Frames longer than any socket buffer, both ways, and a reader who is slow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_payloads_arrive_whole() {
    use bytes::Bytes;
    use gupfs_proto::data::{self, Answer, BlockSums, Existing, Op, Owner};
    use gupfs_proto::{Generation, InodeId, MapEpoch, ObjectId, ObjectOffset, OstId, SessionId};
    struct Echo;
    impl Service<data::Request, data::Reply> for Echo {
        async fn answer(self: Arc<Self>, question: data::Request) -> data::Reply {
            match question.op {
                Op::Write { data, sums, .. } => Ok(Answer::Data { data, sums }),
                _ => Ok(Answer::Done),
            }
        }
    }
    let listener = Net::real().listen("127.0.0.1:0").await.unwrap();
    let server = Server::start(
        listener,
        ServerOptions {
            platform: Platform::real(),
            me: me(1, Role::Oss),
            cluster: CLUSTER,
            key: key(9),
            clients: Arc::new(EveryClientKey),
            tls: None,
            hosts: Hosts::none().with(Arc::new(Echo)),
            attend: Arc::new(Unattended),
            capacity: Capacity::of_clients(64),
        },
    );
    let mut options = line_options(&Net::real(), &Platform::real(), 70, key(9));
    options.to = server.address().to_string();
    let line = Line::open(options);
    let asked = (0..20u64).map(|number| {
        let peer: Peer<data::Request, data::Reply> = line.peer();
        tokio::spawn(async move {
            let len = (number * 211_111 % (4 << 20)) as usize;
            let bytes: Vec<u8> = (0..len).map(|at| (at as u64 * 31 + number) as u8).collect();
            let data = Bytes::from(bytes);
            let op = Op::Write {
                object: ObjectId {
                    ino: InodeId(number),
                    generation: Generation(1),
                    stripe: 0,
                },
                at: ObjectOffset(0),
                data: data.clone(),
                sums: BlockSums::default(),
                existing: Existing::Perhaps,
                owner: Owner::default(),
            };
            let question = data::Request {
                warrant: gupfs_proto::capability::Warrant::None,
                session: SessionId(1),
                map_epoch: MapEpoch(1),
                job: 0,
                ost: OstId(0),
                op,
            };
            match peer.call(question).await {
                Ok(Answer::Data { data: back, .. }) => assert!(back == data),
                other => panic!("{other:?}"),
            }
        })
    });
    for asked in asked.collect::<Vec<_>>() {
        asked.await.unwrap();
    }
}
