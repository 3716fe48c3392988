//! Actions on the bytes of files.

use super::ServerAndModel;
use crate::testing::*;
use crate::{BackgroundOp, FollowUp};
use bytes::Bytes;
use gupfs_proto::meta::{self, AccessMode, AttrReport, MetaReplyBody, OpenMode, WritePosition};
use gupfs_proto::{FileKind, Timestamp};

impl ServerAndModel {
    pub(super) fn access(&mut self, node: usize, want: u8) {
        let caller = self.caller.clone();
        let node = self.pick_node(node);
        let reply = self.request(meta::MetaOp::Access {
            ino: self.ino(node),
            want: AccessMode::from_bits_retain(want),
        });
        let expected = self.model.access(node, &caller, u32::from(want));
        self.check_same(reply, expected);
    }

    pub(super) fn open(&mut self, node: usize, access: u8, truncate: bool) {
        let caller = self.caller.clone();
        let node = self.pick_file(node);
        let open = OpenMode {
            access: AccessMode::from_bits_retain(access),
            truncate,
            kill_privileges: false,
        };
        let reply = opened(self.request(meta::MetaOp::Open {
            ino: self.ino(node),
            open,
        }));
        let expected = self.model.open(node, u32::from(access), truncate, &caller);
        if let Ok(opened) = &reply
            && self.model.nodes[node].kind == FileKind::Regular
        {
            assert_eq!(
                opened.inline.as_deref(),
                self.model.nodes[node].data.as_deref()
            );
            assert_eq!(
                opened.layout.is_empty(),
                self.model.nodes[node].data.is_some()
            );
        }
        self.check_node(reply.map(|opened| opened.attr), expected.map(|()| node));
    }

    pub(super) fn truncate(&mut self, node: usize, to: u64, by_handle: bool) {
        let caller = self.caller.clone();
        let node = self.pick_file(node);
        let op = meta::MetaOp::Truncate {
            ino: self.ino(node),
            to,
            by_handle,
            kill_privileges: false,
        };
        let reply = opened(match by_handle {
            true => self.request_on_open_file(self.ino(node), op),
            false => self.request(op),
        });
        let expected = self.model.truncate(node, to, by_handle, &caller);
        self.check_node(reply.map(|opened| opened.attr), expected.map(|()| node));
    }

    pub(super) fn write(&mut self, node: usize, at: Option<u64>, len: usize) {
        let caller = self.caller.clone();
        let node = self.pick_file(node);
        let data = Bytes::from(vec![len as u8; len]);
        let write_at = at.map_or(WritePosition::End, WritePosition::Offset);
        let op = meta::MetaOp::WriteInline {
            ino: self.ino(node),
            at: write_at,
            data: data.clone(),
            kill_privileges: false,
        };
        let reply = self.request_on_open_file(self.ino(node), op);
        let expected = self.model.write(node, at, &data, &caller);
        match (reply, expected) {
            (Ok(MetaReplyBody::InlineTooLarge), Ok(fits)) => assert!(!fits),
            (Ok(MetaReplyBody::Attr(attr)), Ok(fits)) => {
                assert!(fits);
                self.check_attr(node, &attr);
            }
            (reply, expected) => assert_eq!(reply.map(|_| ()), expected.map(|_| ())),
        }
    }

    /// A file outgrows its inode: the client acquires the write lease, spills the inline bytes and releases the lease.
    pub(super) fn write_objects(&mut self, node: usize, size: u64, keep: bool) {
        let node = self.pick_file(node);
        let ino = self.ino(node);
        let caller = self.caller.clone();
        let begin = meta::MetaOp::BeginWrite {
            ino,
            kill_privileges: false,
        };
        let begun = match opened(self.request_on_open_file(ino, begin)) {
            Ok(opened) => opened,
            Err(error) => {
                let expected = self.model.write_objects(node, size, &caller);
                return assert_eq!(expected, Err(error));
            }
        };
        // A lease holder changes no record with BeginWrite, so it needs no free space.
        self.model.growth = true;
        assert_eq!(begun.layout.check(), Ok(()));
        let size = begun.attr.size.max(size);
        let object = vec![(0, 0)];
        let (present, unsynced) = match size % 2 {
            0 => (object, vec![]),
            _ => (vec![], object),
        };
        let written = |now| AttrReport {
            size,
            mtime: Some(now),
            blocks: 8,
            present: present.clone(),
            unsynced: unsynced.clone(),
            atime: None,
        };
        if begun.inline.is_some() {
            let now = self.server.now;
            attr(self.request(meta::MetaOp::SpillInline {
                ino,
                report: written(now),
            }))
            .unwrap();
        }
        let now = Timestamp::new(self.server.now.secs + 1, 0);
        let ended = attr(self.request(meta::MetaOp::EndWrite {
            ino,
            report: written(now),
            keep_lease: keep,
        }))
        .unwrap();
        self.model.write_objects(node, size, &caller).unwrap();
        self.model.growth = self.server.growth_allowed;
        self.check_attr(node, &ended);
        if self.server.follow_ups.contains(&FollowUp::Confirm(ino)) && size % 4 == 1 {
            let found = vec![(0, 0, true)];
            self.server
                .run_background(&BackgroundOp::ConfirmObjects { ino, found })
                .unwrap();
        }
    }
}
