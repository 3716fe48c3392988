//! No request makes a batch that the log does not take: what is large is done in several.

use crate::client::Client;
use crate::house::{Simulated, Start, simulate};
use bytes::Bytes;
use gupfs_proto::InodeId;
use gupfs_proto::meta::{Answer, Op, XattrHow, XattrName};

const FILES: usize = 70;
const ATTRIBUTES: usize = 250;

fn how(house: &Simulated, platform: &gupfs_platform::fake::FakeWorld) -> Start {
    Start {
        segment_bytes: 8 << 20,
        ..house.how(platform)
    }
}

/// An ordinary user can do this: files with as many and as long attributes as Linux allows, open while they are removed, and forgotten at once.
#[test]
fn files_with_many_attributes_are_forgotten_at_once_and_the_server_goes_on() {
    simulate(async {
        let house = Simulated::new(41);
        let platform = house.platform();
        let mds = house.start_as(how(&house, &platform)).await.unwrap();
        let client = Client::open(&mds).await;
        let mut inodes = Vec::new();
        for file in 0..FILES {
            let what = format!("f{file}");
            let ino = client.create(0, InodeId::ROOT, &what).await.unwrap();
            for number in 0..ATTRIBUTES {
                let name = format!("user.{number:n>250}");
                let op = Op::SetXattr {
                    ino,
                    name: XattrName::new(name.as_bytes()).unwrap(),
                    value: Bytes::from_static(b"v"),
                    how: XattrHow::Create,
                };
                client.change(0, op).await.unwrap();
            }
            client.unlink(0, InodeId::ROOT, &what).await.unwrap();
            inodes.push(ino);
        }
        // 4.9 MB of keys.
        let lane = client.next_lane(1);
        let op = Op::Forgotten { inodes };
        let reply = client.ask(Some(lane), op.clone()).await;
        assert_eq!(reply.result, Ok(Answer::Done));
        // Asked again, as after a lost answer, it was done before.
        let again = client.ask(Some(lane), op).await;
        assert_eq!((again.result, again.change), (reply.result, reply.change));
        client.mkdir(0, InodeId::ROOT, "after").await.unwrap();
        client.sync().await.unwrap();
        let status = mds.status().await;
        assert_eq!(status.inodes, Some(2));
        // What was answered is there after a crash, and all counts are right.
        house.cut_power(&platform).await;
        let platform = house.platform();
        let mds = house.start_as(how(&house, &platform)).await.unwrap();
        let client = Client::open(&mds).await;
        client.lookup(InodeId::ROOT, "after").await.unwrap();
        assert_eq!(mds.status().await.inodes, Some(2));
        mds.stop().await.unwrap();
        house.kill(&platform).await;
        house.check().await;
    });
}
