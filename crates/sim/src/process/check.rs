//! Compares the state after a start with the replies that the program received before it.

use super::host::{Host, ProcessInstance, list_objects};
use super::name_tree::{MatchedState, NameTree, Node};
use super::program::{Program, open, root_caller};
use crate::rare_events::RareEvents;
use gupfs_client::{EntryName, ReadOptions};
use gupfs_proto::{Attr, FileKind, FsError, InodeId};
use gupfs_store::object::{ScrubOptions, ScrubScope};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// More than the program writes into any file.
const READ_MAX: u64 = 2 << 20;

/// Names, attributes and bytes of the whole file system.
struct FoundState {
    name_tree: NameTree,
    attrs: BTreeMap<InodeId, Attr>,
    bytes: BTreeMap<InodeId, Vec<u8>>,
}

/// # Panics
/// When a promise is broken.
pub async fn check_promises(
    program: &mut Program,
    instance: &ProcessInstance,
    power_loss: bool,
    rare_events: &mut RareEvents,
) {
    assert_eq!(instance.records.problems, [], "inconsistent records");
    let reappeared_objects = program.reappeared_objects(instance, power_loss);
    assert_eq!(reappeared_objects, [], "purged objects reappeared");
    let found = match read_everything(instance).await {
        Ok(found) => found,
        Err(refusal) => panic!("the file system cannot be read: {refusal}"),
    };
    for (ino, attr) in &found.attrs {
        if found.bytes.contains_key(ino) {
            assert_eq!(
                attr.nlink,
                found.name_tree.nlink(*ino),
                "link count of {ino}"
            );
            assert_eq!(attr.size, found.bytes[ino].len() as u64, "size of {ino}");
        }
    }
    let renamed_over = program.renamed_over > 0;
    match program
        .name_history
        .match_found(found.name_tree, power_loss)
    {
        Ok(MatchedState::Newest { unanswered }) => {
            rare_events.count_if(unanswered, "reply lost by a crash")
        }
        Ok(MatchedState::Older) => {
            rare_events.count("answered names lost by a power loss");
            rare_events.count_if(renamed_over, "rename over a target crossed a crash");
        }
        Err(mismatch) => panic!("{mismatch}"),
    }
    for (ino, bytes) in found.bytes {
        let file_content = program.file_contents.entry(ino).or_default();
        rare_events.count_if(
            power_loss && file_content.is_unsynced(),
            "unsynced bytes at a power loss",
        );
        let possible = match power_loss {
            true => file_content.check_after_power_loss(bytes),
            false => file_content.check_after_kill(bytes),
        };
        if let Err(mismatch) = possible {
            panic!("{ino} after a crash: {mismatch}");
        }
    }
    program.begin_instance();
}

async fn read_everything(instance: &ProcessInstance) -> Result<FoundState, FsError> {
    let (client, caller) = (&instance.client, root_caller());
    let mut found = FoundState {
        name_tree: NameTree::default(),
        attrs: BTreeMap::new(),
        bytes: BTreeMap::new(),
    };
    let mut dirs = vec![client.root()];
    while let Some(dir) = dirs.pop() {
        let listing = client.readdir(&caller, dir, 0, 1000, true).await?;
        assert!(listing.end, "one listing has the whole directory");
        for entry in listing.entries {
            let EntryName::Name(name) = entry.name else {
                continue;
            };
            let attr = client.lookup(&caller, dir, &name).await?;
            client.forget([(attr.ino, 1)]);
            assert_eq!((entry.ino, entry.kind), (attr.ino, attr.kind), "{name:?}");
            let name_text = String::from_utf8_lossy(name.as_bytes()).into_owned();
            found.name_tree.names.insert((dir, name_text), attr.ino);
            let node = Node {
                kind: attr.kind,
                mode: attr.mode.0.into(),
                // A directory's mtime changes with its names.
                mtime: (attr.kind == FileKind::Regular).then_some(attr.mtime),
            };
            found.name_tree.nodes.insert(attr.ino, node);
            found.attrs.insert(attr.ino, attr);
            match attr.kind {
                FileKind::Directory => dirs.push(attr.ino),
                _ => drop(
                    found
                        .bytes
                        .insert(attr.ino, read(instance, attr.ino).await?),
                ),
            }
        }
    }
    Ok(found)
}

async fn read(instance: &ProcessInstance, ino: InodeId) -> Result<Vec<u8>, FsError> {
    let file = open(instance, ino).await?;
    let bytes = instance
        .client
        .read(&file, 0, READ_MAX, ReadOptions::default())
        .await?
        .concat();
    instance.client.release(file.id()).await?;
    Ok(bytes)
}

/// Stops all servers in order, and checks that each object belongs to a file, that each file has its objects, and that no
/// checksum is wrong. Then removes all files, and checks that no object remains.
pub async fn check_at_rest(
    host: &Host,
    program: &mut Program,
    instance: ProcessInstance,
    rare_events: &mut RareEvents,
) {
    let instance = stop_and_restart(host, instance, rare_events).await;
    check_promises(program, &instance, false, rare_events).await;
    assert_eq!(
        instance.records.purges,
        [],
        "purges that were not carried out"
    );
    assert_eq!(
        instance.records.writers, 0,
        "write leases after the client stopped"
    );
    let found_objects = list_objects(&instance.oss)
        .await
        .expect("the object server serves");
    let (present, maybe_present) = (&instance.records.present, &instance.records.maybe_present);
    let lost: Vec<_> = present.difference(&found_objects).collect();
    assert!(lost.is_empty(), "lost objects: {lost:?}");
    let mut known_objects = present | maybe_present;
    let without_file: Vec<_> = found_objects.difference(&known_objects).collect();
    assert!(
        without_file.is_empty(),
        "objects without a file: {without_file:?}"
    );
    known_objects.clear();
    remove_all(program, &instance).await;
    let instance = stop_and_restart(host, instance, rare_events).await;
    let found_objects = list_objects(&instance.oss)
        .await
        .expect("the object server serves");
    assert_eq!(
        found_objects, known_objects,
        "objects remain after all files were removed"
    );
    host.kill(Some(instance)).await;
}

/// Waits for the purges and the sweep, stops all servers in order, and starts them again.
async fn stop_and_restart(
    host: &Host,
    instance: ProcessInstance,
    rare_events: &mut RareEvents,
) -> ProcessInstance {
    instance.client.stop().await.expect("no fault is injected");
    let clock = instance.platform.platform().clock;
    let is_idle = async || {
        let status = instance.mds.status().await;
        status.purging == Some(0) && status.sweep.left == 0
    };
    while !is_idle().await {
        clock.sleep(Duration::from_millis(100)).await;
    }
    instance.mds.stop().await.expect("no fault is injected");
    for ost in instance.oss.osts() {
        let objects = instance.oss.objects(ost).expect("the object server serves");
        objects
            .flush_checksums()
            .await
            .expect("no fault is injected");
        let scrub = objects
            .scrub(ScrubOptions::new(ScrubScope::All), |_| {})
            .await;
        assert_eq!(
            scrub.expect("the object server serves").damaged,
            [],
            "wrong checksums"
        );
    }
    instance.oss.stop().await.expect("no fault is injected");
    host.kill(Some(instance)).await;
    host.start(rare_events).await.expect("no fault is injected")
}

/// Removes the deepest directories first.
async fn remove_all(program: &Program, instance: &ProcessInstance) {
    let name_tree = program.name_history.now();
    let mut remaining: Vec<_> = name_tree.names.iter().collect();
    while !remaining.is_empty() {
        let nonempty: BTreeSet<InodeId> = remaining.iter().map(|((dir, _), _)| *dir).collect();
        let mut deferred = Vec::new();
        for entry in remaining {
            let ((dir, name_text), ino) = entry;
            let name = super::program::name(name_text);
            let removed = match name_tree.nodes[ino].kind {
                FileKind::Directory if nonempty.contains(ino) => {
                    deferred.push(entry);
                    continue;
                }
                FileKind::Directory => instance.client.rmdir(&root_caller(), *dir, &name).await,
                _ => instance.client.unlink(&root_caller(), *dir, &name).await,
            };
            removed.expect("no fault is injected");
        }
        remaining = deferred;
    }
}
