//! Compares all records with the model, after a crash.

use super::model::{ComparedReply, Model};
use super::model_log::inode_reply;
use super::server::Server;
use gupfs_namespace::{EntryRecord, Inode, InodeBody, ParsedKey, Record};
use gupfs_proto::{InodeId, Timestamp};
use std::collections::BTreeMap;

type Names = BTreeMap<(InodeId, Vec<u8>), InodeId>;
type Inodes = BTreeMap<InodeId, (Timestamp, u32, Vec<u8>)>;

/// # Panics
/// When the records are inconsistent or differ from the model.
pub fn compare(server: &Server, model: &Model) {
    server.check();
    let (mut names, mut inodes) = (Names::new(), Inodes::new());
    for (key, value) in &server.store.records {
        match key.parse() {
            Some(ParsedKey::Entry { dir, name, .. }) => {
                let entry = EntryRecord::decode(value).expect("the check decoded it");
                names.insert((dir, name.as_bytes().to_vec()), entry.ino);
            }
            Some(ParsedKey::Inode(ino)) => {
                let inode = Inode::decode(value).expect("the check decoded it");
                let ComparedReply::Inode { mtime, mode, .. } = inode_reply(&inode.attr()) else {
                    unreachable!("attributes of an inode")
                };
                inodes.insert(ino, (mtime, mode, bytes(inode)));
            }
            _ => {}
        }
    }
    let (mut model_names, mut model_inodes) = (Names::new(), Inodes::new());
    for (ino, node) in &model.nodes {
        for (name, child) in &node.children {
            model_names.insert((*ino, name.clone()), *child);
        }
        model_inodes.insert(*ino, (node.mtime, node.mode, node.data.clone()));
    }
    assert_eq!(
        names, model_names,
        "the names after a crash differ from the model"
    );
    assert_eq!(
        inodes, model_inodes,
        "the inodes after a crash differ from the model"
    );
}

/// Returns the inline bytes of a file, up to its end.
fn bytes(inode: Inode) -> Vec<u8> {
    match inode.body {
        InodeBody::File(file) => {
            let mut bytes = file.inline.to_vec();
            bytes.resize(inode.size as usize, 0);
            bytes
        }
        _ => Vec::new(),
    }
}
