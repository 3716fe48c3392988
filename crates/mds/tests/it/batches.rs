//! No request makes a batch that the log does not accept: a large operation is staged in several batches.

use crate::client::Client;
use crate::fixture::{Simulated, Start, simulate};
use bytes::Bytes;
use gupfs_proto::InodeId;
use gupfs_proto::meta::{MetaOp, MetaReplyBody, XattrMode, XattrName};

const FILES: usize = 70;
const ATTRIBUTES: usize = 250;

fn options(fixture: &Simulated, platform: &gupfs_platform::fake::FakePlatform) -> Start {
    Start {
        segment_bytes: 8 << 20,
        ..fixture.start_options(platform)
    }
}

/// An ordinary user can do this: files with as many and as long attributes as Linux allows, open while they are removed, and
/// forgotten at once.
#[test]
fn files_with_many_attributes_are_forgotten_at_once_and_the_server_goes_on() {
    simulate(async {
        let fixture = Simulated::new(41);
        let platform = fixture.platform();
        let mds = fixture
            .start_as(options(&fixture, &platform))
            .await
            .unwrap();
        let client = Client::open(&mds).await;
        let mut inodes = Vec::new();
        for file in 0..FILES {
            let what = format!("f{file}");
            let ino = client.create(0, InodeId::ROOT, &what).await.unwrap();
            for number in 0..ATTRIBUTES {
                let name = format!("user.{number:n>250}");
                let op = MetaOp::SetXattr {
                    ino,
                    name: XattrName::new(name.as_bytes()).unwrap(),
                    value: Bytes::from_static(b"v"),
                    mode: XattrMode::Create,
                };
                client.change(0, op).await.unwrap();
            }
            client.unlink(0, InodeId::ROOT, &what).await.unwrap();
            inodes.push(ino);
        }
        // 4.9 MB of keys.
        let slot_seq = client.next_slot_seq(1);
        let op = MetaOp::Forget { inodes };
        let reply = client.send(Some(slot_seq), op.clone()).await;
        assert_eq!(reply.result, Ok(MetaReplyBody::Done));
        // A repeated request, as after a lost reply, finds that it was done.
        let again = client.send(Some(slot_seq), op).await;
        assert_eq!((again.result, again.change), (reply.result, reply.change));
        client.mkdir(0, InodeId::ROOT, "after").await.unwrap();
        client.sync().await.unwrap();
        let status = mds.status().await;
        assert_eq!(status.inodes, Some(2));
        // All answered changes survive a crash, and all counts are right.
        fixture.lose_power(&platform).await;
        let platform = fixture.platform();
        let mds = fixture
            .start_as(options(&fixture, &platform))
            .await
            .unwrap();
        let client = Client::open(&mds).await;
        client.lookup(InodeId::ROOT, "after").await.unwrap();
        assert_eq!(mds.status().await.inodes, Some(2));
        mds.stop().await.unwrap();
        fixture.kill(&platform).await;
        fixture.check().await;
    });
}
