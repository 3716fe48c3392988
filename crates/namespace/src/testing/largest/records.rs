//! The longest records that are valid, and a server with them.

use crate::acl::Acl;
use crate::record::{Record, XattrRecord};
use crate::testing::*;
use crate::{BackgroundOp, RecordKey};
use bytes::Bytes;
use gupfs_proto::layout::{DefaultComponent, DefaultLayout, Redundancy};
use gupfs_proto::limits::{COMPONENTS_MAX, STRIPE_COUNT_MAX, STRIPE_UNIT_MIN, XATTR_VALUE_MAX};
use gupfs_proto::meta::{AccessMode, MetaOp, OpenMode};
use gupfs_proto::units::{ByteCount, FileOffset};
use gupfs_proto::{Caller, InodeId, OstId};
use std::collections::BTreeMap;

/// A server with the longest possible records, and the size of each operation's largest batch.
pub struct LargestRecords {
    pub server: TestServer,
    pub sizes: BTreeMap<&'static str, usize>,
    number: u32,
}

pub fn longest_acl() -> Acl {
    let entries = (XATTR_VALUE_MAX - 4) / 8 - 4;
    Acl {
        owner: 7,
        users: (0..entries as u32)
            .map(|id| (u32::MAX - 1 - entries as u32 + id, 7))
            .collect(),
        group: 7,
        groups: Vec::new(),
        mask: Some(7),
        other: 7,
    }
}

pub fn longest_layout() -> DefaultLayout {
    let last = COMPONENTS_MAX - 1;
    let component = |n: usize| DefaultComponent {
        to: FileOffset(if n == last {
            u64::MAX
        } else {
            (n as u64 + 1) << 60 >> 4
        }),
        unit: ByteCount(STRIPE_UNIT_MIN.0),
        count: STRIPE_COUNT_MAX,
        first: Some(OstId(u16::MAX)),
        redundancy: Redundancy::None,
    };
    DefaultLayout {
        components: (0..COMPONENTS_MAX).map(component).collect(),
    }
}

/// Every (component, stripe) of the longest layout.
pub fn stripes() -> impl Iterator<Item = (u32, u32)> {
    (0..COMPONENTS_MAX as u32)
        .flat_map(|component| (0..STRIPE_COUNT_MAX).map(move |stripe| (component, stripe)))
}

impl LargestRecords {
    pub fn new() -> LargestRecords {
        let mut server = TestServer::new(1);
        let first = server.targets[0].clone();
        let target = |n: u32| gupfs_proto::meta::PlacementTarget {
            ost: OstId(u16::MAX - n as u16),
            domain: n,
            ..first.clone()
        };
        server.targets = (0..STRIPE_COUNT_MAX).map(target).collect();
        server.replays = false;
        let mut test = LargestRecords {
            server,
            sizes: BTreeMap::new(),
            number: 0,
        };
        test.enlarge(ROOT);
        test
    }

    /// Gives this inode the longest possible record.
    pub fn enlarge(&mut self, ino: InodeId) {
        self.server.edit(ino, |inode| {
            inode.acl = Some(longest_acl());
            if let Ok(dir) = inode.directory_mut() {
                dir.default_acl = Some(longest_acl());
                dir.default_layout = Some(crate::record::DirectoryDefaultLayout {
                    layout: longest_layout(),
                    is_own: true,
                });
            }
            inode.security = (0..4)
                .map(|n| {
                    let name = xattr(&format!("security.{n:0>246}"));
                    (name, Bytes::from(vec![7; 256]))
                })
                .collect();
        });
    }

    pub fn new_name(&mut self) -> String {
        self.number += 1;
        format!("{:0>255}", self.number)
    }

    pub fn new_dir(&mut self) -> (InodeId, String) {
        let text = self.new_name();
        let root = Caller::root();
        let ino = self.server.mkdir(&root, ROOT, &text, 0o777).unwrap().ino;
        self.enlarge(ino);
        (ino, text)
    }

    /// An empty file.
    pub fn new_file(&mut self, dir: InodeId) -> (InodeId, String) {
        let text = self.new_name();
        let root = Caller::root();
        let ino = self.server.create(&root, dir, &text, 0o666).unwrap().ino;
        self.enlarge(ino);
        (ino, text)
    }

    /// A file with the longest layout, all objects of which may exist, and with a write lease of this session.
    pub fn new_laid_out_file(&mut self, dir: InodeId) -> (InodeId, String) {
        let (ino, text) = self.new_file(dir);
        let opened = self.server.begin_write(ino).unwrap();
        let stripes: usize = opened
            .layout
            .components
            .iter()
            .map(|component| component.targets.len())
            .sum();
        assert_eq!(stripes, COMPONENTS_MAX * STRIPE_COUNT_MAX as usize);
        (ino, text)
    }

    pub fn add_xattrs(&mut self, ino: InodeId, count: usize) {
        let names: Vec<String> = (0..count).map(|n| format!("user.{n:0>250}")).collect();
        for name in &names {
            let value = XattrRecord(Bytes::from_static(b"v")).encode();
            let key = RecordKey::xattr(ino, name.as_bytes());
            self.server.records.insert(key, value);
        }
        self.server.edit(ino, |inode| {
            inode.xattrs = count as u32;
            inode.xattr_names = names.iter().map(|name| name.len() as u32 + 1).sum();
        });
    }

    pub fn record_size(&mut self, op_name: &'static str) {
        let bytes = batch_bytes(&self.server.batch);
        let size = self.sizes.entry(op_name).or_default();
        *size = bytes.max(*size);
    }

    pub fn run(&mut self, op: MetaOp) {
        let reply = self.server.request(&Caller::root(), &op);
        assert!(reply.is_ok(), "{}: {reply:?}", op.name());
        self.record_size(op.name());
    }

    pub fn run_background(&mut self, op_name: &'static str, op: BackgroundOp) {
        let reply = self.server.run_background(&op);
        assert!(reply.is_ok(), "{op_name}: {reply:?}");
        self.record_size(op_name);
    }
}

pub fn open_read_write(truncate: bool) -> OpenMode {
    OpenMode {
        access: AccessMode::READ | AccessMode::WRITE,
        truncate,
        kill_privileges: true,
    }
}

pub fn written() -> gupfs_proto::meta::AttrReport {
    gupfs_proto::meta::AttrReport {
        size: 1 << 50,
        mtime: None,
        atime: None,
        blocks: 1 << 41,
        present: stripes().collect(),
        unsynced: stripes().collect(),
    }
}
