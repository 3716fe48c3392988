//! Inode numbers come in blocks: a block is durable before its first number is used, and concurrent requests share one block.

use crate::client::{Client, MAKE, name};
use crate::fixture::{Simulated, simulate};
use gupfs_proto::InodeId;
use gupfs_proto::limits::INODE_BLOCK;
use gupfs_proto::meta::{MetaOp, MetaReplyBody};

fn creation(i: u64) -> MetaOp {
    MetaOp::Mknod {
        dir: InodeId::ROOT,
        name: name(&format!("{i}")),
        kind: gupfs_proto::FileKind::Fifo,
        rdev: 0,
        create_mode: MAKE,
    }
}

#[test]
fn a_block_of_numbers_is_durable_before_the_first_is_used_and_reserved_once() {
    simulate(async {
        let fixture = Simulated::new(1);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let at_start = instance.mds.status().await.number_blocks;
        // Uses up the block: the first file here gets its first number.
        for i in 0..INODE_BLOCK {
            client.change(0, creation(i)).await.unwrap();
        }
        assert_eq!(instance.mds.status().await.number_blocks, at_start);
        let first = client
            .send(Some(client.next_slot_seq(0)), creation(INODE_BLOCK))
            .await;
        let Ok(MetaReplyBody::Entry(attr)) = first.result else {
            panic!("{:?}", first.result);
        };
        assert_eq!(instance.mds.status().await.number_blocks, at_start + 1);
        assert_eq!(attr.ino.counter() % INODE_BLOCK, 256);
        // A power loss may undo the file's own change, but not the block's record.
        assert!(first.durable.0 + 1 >= first.seq.0, "{first:?}");
        instance.mds.stop().await.unwrap();
    });
}

#[test]
fn concurrent_requests_without_a_number_share_one_block() {
    simulate(async {
        let fixture = Simulated::new(2);
        let instance = fixture.start().await;
        let client = Client::open(&instance.mds).await;
        let at_start = instance.mds.status().await.number_blocks;
        for i in 0..INODE_BLOCK {
            client.change(0, creation(i)).await.unwrap();
        }
        let client = &client;
        let many = (0..64).map(|slot| client.change(slot, creation(INODE_BLOCK + u64::from(slot))));
        for made in futures_util::future::join_all(many).await {
            made.unwrap();
        }
        assert_eq!(instance.mds.status().await.number_blocks, at_start + 1);
        instance.mds.stop().await.unwrap();
    });
}
