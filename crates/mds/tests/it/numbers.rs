//! Inode numbers come in blocks: a block is durable before its first number is used, and many who need one share it.

use crate::client::{Client, MAKE, name};
use crate::house::{Simulated, simulate};
use gupfs_proto::InodeId;
use gupfs_proto::limits::INODE_BLOCK;
use gupfs_proto::meta::{Answer, Op};

fn creation(i: u64) -> Op {
    Op::Mknod {
        dir: InodeId::ROOT,
        name: name(&format!("{i}")),
        kind: gupfs_proto::FileKind::Fifo,
        rdev: 0,
        make: MAKE,
    }
}

#[test]
fn a_block_of_numbers_is_durable_before_the_first_is_used_and_asked_for_once() {
    simulate(async {
        let house = Simulated::new(1);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let at_start = life.mds.status().await.number_blocks;
        // The first number was given to the first file here; leave none.
        for i in 0..INODE_BLOCK {
            client.change(0, creation(i)).await.unwrap();
        }
        assert_eq!(life.mds.status().await.number_blocks, at_start);
        let first = client
            .ask(Some(client.next_lane(0)), creation(INODE_BLOCK))
            .await;
        let Ok(Answer::Entry(attr)) = first.result else {
            panic!("{:?}", first.result);
        };
        assert_eq!(life.mds.status().await.number_blocks, at_start + 1);
        assert_eq!(attr.ino.counter() % INODE_BLOCK, 256);
        // Its own change may be lost in a power cut, the block's record may not.
        assert!(first.durable.0 + 1 >= first.seq.0, "{first:?}");
        life.mds.stop().await.unwrap();
    });
}

#[test]
fn many_who_find_no_number_share_one_block() {
    simulate(async {
        let house = Simulated::new(2);
        let life = house.start().await;
        let client = Client::open(&life.mds).await;
        let at_start = life.mds.status().await.number_blocks;
        for i in 0..INODE_BLOCK {
            client.change(0, creation(i)).await.unwrap();
        }
        let client = &client;
        let many = (0..64).map(|slot| client.change(slot, creation(INODE_BLOCK + u64::from(slot))));
        for made in futures_util::future::join_all(many).await {
            made.unwrap();
        }
        assert_eq!(life.mds.status().await.number_blocks, at_start + 1);
        life.mds.stop().await.unwrap();
    });
}
