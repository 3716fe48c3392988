//! What a batch changes for those who have leases, found from its records and not from the operation that made it.

use crate::driver::{CachedRecord, RecordBatch, RecordSource};
use crate::key::{ParsedKey, RecordKey};
use crate::record::{FileBody, Inode, InodeBody, Record};
use bytes::Bytes;
use gupfs_proto::lease::LeaseKey;

/// The keys of leases that a batch breaks, sorted, each once; `records` are those to which the batch was made, without it. A record that is
/// not in memory counts as different in everything.
///
/// A `LeaseKey::Name` stands also for the listing of its directory (`LeaseTable::conflicts`).
pub fn changes_of(batch: &RecordBatch, records: &dyn RecordSource) -> Vec<LeaseKey> {
    let mut keys = Vec::new();
    for (key, new) in batch {
        add_changes(key, new.as_ref(), records, &mut keys);
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn add_changes(
    key: &RecordKey,
    new: Option<&Bytes>,
    records: &dyn RecordSource,
    keys: &mut Vec<LeaseKey>,
) {
    match key.parse() {
        Some(ParsedKey::Entry { dir, hash, .. }) => keys.push(LeaseKey::Name { dir, hash }),
        Some(ParsedKey::Xattr { ino, .. }) => keys.push(LeaseKey::Attributes(ino)),
        // A writer's attributes and bytes are its own until it reports them.
        Some(ParsedKey::WriteLease { ino, .. }) => {
            keys.extend([LeaseKey::Attributes(ino), LeaseKey::Data(ino)]);
        }
        // A session that has it open may open it again; no other session may.
        Some(ParsedKey::Orphan { ino, .. }) => keys.push(LeaseKey::Data(ino)),
        Some(ParsedKey::Inode(ino)) => {
            let difference = InodeDifference::between(&records.get(key), new);
            keys.extend(difference.attributes.then_some(LeaseKey::Attributes(ino)));
            keys.extend(difference.data.then_some(LeaseKey::Data(ino)));
        }
        // No lease covers these records.
        Some(
            ParsedKey::BackLink { .. }
            | ParsedKey::Format
            | ParsedKey::Unconfirmed(_)
            | ParsedKey::StaleMembers(_)
            | ParsedKey::InodeCounter(_)
            | ParsedKey::AcceptedLoss
            | ParsedKey::Rebalance
            | ParsedKey::Purge(_)
            | ParsedKey::Reply { .. }
            | ParsedKey::Session(_)
            | ParsedKey::InterestsRecorded
            | ParsedKey::Interest { .. }
            | ParsedKey::RetiredVerifier(_)
            | ParsedKey::KnownTarget(_)
            | ParsedKey::Usage { .. },
        )
        | None => {}
    }
}

/// Which leases on an inode two versions of its record break.
struct InodeDifference {
    attributes: bool,
    data: bool,
}

impl InodeDifference {
    const ALL: InodeDifference = InodeDifference {
        attributes: true,
        data: true,
    };

    fn between(old: &CachedRecord, new: Option<&Bytes>) -> InodeDifference {
        let (CachedRecord::Value(Some(old)), Some(new)) = (old, new) else {
            return InodeDifference::ALL;
        };
        match (Inode::decode(old), Inode::decode(new)) {
            (Ok(old), Ok(new)) => InodeDifference {
                attributes: do_attributes_differ(&old, &new),
                data: does_data_differ(&old, &new),
            },
            _ => InodeDifference::ALL,
        }
    }
}

/// Everything counts except what no client can see under a lease on attributes: whatever is added to the record later counts, too.
fn do_attributes_differ(old: &Inode, new: &Inode) -> bool {
    without_invisible(old, new) != *new || {
        let mut attr = old.attr();
        // Access times are excepted, and with each change of them this counter rises.
        (attr.atime, attr.change) = (new.atime, new.change);
        attr != new.attr()
    }
}

/// The old inode with the new one's values of what a lease on attributes does not cover.
fn without_invisible(old: &Inode, new: &Inode) -> Inode {
    let mut inode = Inode {
        atime: new.atime,
        change: new.change,
        data_version: new.data_version,
        orphan_records: new.orphan_records,
        ..old.clone()
    };
    if let (InodeBody::File(file), InodeBody::File(new)) = (&mut inode.body, &new.body) {
        *file = FileBody {
            default_layout: file.default_layout.take(),
            linkable: file.linkable,
            ..new.clone()
        };
    }
    inode
}

fn does_data_differ(old: &Inode, new: &Inode) -> bool {
    let file = |inode: &Inode| match &inode.body {
        InodeBody::File(FileBody {
            layout,
            inline,
            truncating,
            ..
        }) => Some((layout.clone(), inline.clone(), *truncating)),
        InodeBody::Directory(_) | InodeBody::Symlink(_) | InodeBody::Special => None,
    };
    // A file without a name can be opened only by those who have it open.
    let has_name = |inode: &Inode| inode.names > 0;
    (old.size, old.data_version, has_name(old)) != (new.size, new.data_version, has_name(new))
        || file(old) != file(new)
}
