//! Compares what a new instance finds with what the user was promised.

use super::house::{House, Life, objects_on};
use super::tree::{Node, Outcome, Tree};
use super::user::{User, me, open};
use crate::rare::Rare;
use gupfs_client::{EntryName, ReadOptions};
use gupfs_proto::{Attr, FileKind, FsError, InodeId};
use gupfs_store::object::{ScrubOptions, ScrubScope};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Longer than any file of the user.
const ALL: u64 = 2 << 20;

/// What is there: names, attributes and every byte.
struct Found {
    tree: Tree,
    attrs: BTreeMap<InodeId, Attr>,
    bytes: BTreeMap<InodeId, Vec<u8>>,
}

/// # Panics
/// When a promise is broken.
pub async fn judge(user: &mut User, life: &Life, power_cut: bool, rare: &mut Rare) {
    assert_eq!(
        life.records.problems,
        [],
        "records that do not fit together"
    );
    let returned = user.returned(life, power_cut);
    assert_eq!(returned, [], "purged, and there again");
    let found = match look(life).await {
        Ok(found) => found,
        Err(refusal) => panic!("what is there cannot be read: {refusal}"),
    };
    for (ino, attr) in &found.attrs {
        if found.bytes.contains_key(ino) {
            assert_eq!(attr.nlink, found.tree.nlink(*ino), "names of {ino}");
            assert_eq!(attr.size, found.bytes[ino].len() as u64, "size of {ino}");
        }
    }
    let renamed_over = user.renamed_over > 0;
    match user.history.found(found.tree, power_cut) {
        Ok(Outcome::Newest { unanswered }) => rare.saw_if(unanswered, "reply lost by a crash"),
        Ok(Outcome::Older) => {
            rare.saw("answered names lost by a power loss");
            rare.saw_if(renamed_over, "rename over a target crossed a crash");
        }
        Err(wrong) => panic!("{wrong}"),
    }
    for (ino, bytes) in found.bytes {
        let content = user.contents.entry(ino).or_default();
        rare.saw_if(
            power_cut && content.is_unsynced(),
            "unsynced bytes at a power loss",
        );
        let possible = match power_cut {
            true => content.found_after_power_cut(bytes),
            false => content.found_after_kill(bytes),
        };
        if let Err(wrong) = possible {
            panic!("{ino} after a crash: {wrong}");
        }
    }
    user.reborn();
}

async fn look(life: &Life) -> Result<Found, FsError> {
    let (client, me) = (&life.client, me());
    let mut found = Found {
        tree: Tree::default(),
        attrs: BTreeMap::new(),
        bytes: BTreeMap::new(),
    };
    let mut dirs = vec![client.root()];
    while let Some(dir) = dirs.pop() {
        let listing = client.readdir(&me, dir, 0, 1000, true).await?;
        assert!(listing.end, "the directories are small");
        for entry in listing.entries {
            let EntryName::Name(name) = entry.name else {
                continue;
            };
            let attr = client.lookup(&me, dir, &name).await?;
            client.forget([(attr.ino, 1)]);
            assert_eq!((entry.ino, entry.kind), (attr.ino, attr.kind), "{name:?}");
            let text = String::from_utf8_lossy(name.as_bytes()).into_owned();
            found.tree.names.insert((dir, text), attr.ino);
            let node = Node {
                kind: attr.kind,
                mode: attr.mode.0.into(),
                // A directory's moves with its names.
                mtime: (attr.kind == FileKind::Regular).then_some(attr.mtime),
            };
            found.tree.nodes.insert(attr.ino, node);
            found.attrs.insert(attr.ino, attr);
            match attr.kind {
                FileKind::Directory => dirs.push(attr.ino),
                _ => drop(found.bytes.insert(attr.ino, read(life, attr.ino).await?)),
            }
        }
    }
    Ok(found)
}

async fn read(life: &Life, ino: InodeId) -> Result<Vec<u8>, FsError> {
    let file = open(life, ino).await?;
    let bytes = life
        .client
        .read(&file, 0, ALL, ReadOptions::default())
        .await?
        .concat();
    life.client.release(file.id()).await?;
    Ok(bytes)
}

/// Stops everything in order, and looks whether each object belongs to a file, each file has its objects, and no sum is
/// wrong. Then removes all, and looks whether all space came back.
pub async fn settle(house: &House, user: &mut User, life: Life, rare: &mut Rare) {
    let life = rest(house, life, rare).await;
    judge(user, &life, false, rare).await;
    assert_eq!(life.records.purges, [], "purges that nobody carried out");
    assert_eq!(life.records.writers, 0, "writers after everybody stopped");
    let there = objects_on(&life.oss).await.expect("it serves");
    let (present, perhaps) = (&life.records.present, &life.records.perhaps);
    let lost: Vec<_> = present.difference(&there).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    let mut known = present | perhaps;
    let stray: Vec<_> = there.difference(&known).collect();
    assert!(stray.is_empty(), "belong to no file: {stray:?}");
    known.clear();
    remove_all(user, &life).await;
    let life = rest(house, life, rare).await;
    let there = objects_on(&life.oss).await.expect("it serves");
    assert_eq!(there, known, "everything is removed");
    house.kill(Some(life)).await;
}

/// Waits for the purges and the sweep, stops in order, starts again.
async fn rest(house: &House, life: Life, rare: &mut Rare) -> Life {
    life.client.stop().await.expect("nothing is faulty");
    let clock = life.platform.platform().clock;
    let is_over = async || {
        let status = life.mds.status().await;
        status.purging == Some(0) && status.sweep.left == 0
    };
    while !is_over().await {
        clock.sleep(Duration::from_millis(100)).await;
    }
    life.mds.stop().await.expect("nothing is faulty");
    for ost in life.oss.osts() {
        let objects = life.oss.objects(ost).expect("it serves");
        objects.flush_checksums().await.expect("nothing is faulty");
        let scrub = objects
            .scrub(ScrubOptions::new(ScrubScope::All), |_| {})
            .await;
        assert_eq!(scrub.expect("it serves").damaged, [], "wrong sums");
    }
    life.oss.stop().await.expect("nothing is faulty");
    house.kill(Some(life)).await;
    house.live(rare).await.expect("nothing is faulty")
}

/// Deepest first.
async fn remove_all(user: &User, life: &Life) {
    let tree = user.history.now();
    let mut left: Vec<_> = tree.names.iter().collect();
    while !left.is_empty() {
        let full: BTreeSet<InodeId> = left.iter().map(|((dir, _), _)| *dir).collect();
        let mut later = Vec::new();
        for entry in left {
            let ((dir, text), ino) = entry;
            let name = super::user::name(text);
            let removed = match tree.nodes[ino].kind {
                FileKind::Directory if full.contains(ino) => {
                    later.push(entry);
                    continue;
                }
                FileKind::Directory => life.client.rmdir(&me(), *dir, &name).await,
                _ => life.client.unlink(&me(), *dir, &name).await,
            };
            removed.expect("nothing is faulty");
        }
        left = later;
    }
}
