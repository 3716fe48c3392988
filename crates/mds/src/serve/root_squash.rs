//! Root squash: root of another host counts as nobody.

use gupfs_proto::meta::{MetaOp, MetaRequest};

/// Squashes root in the credentials of a request: uid 0, gid 0 and the supplementary group 0 become nobody's. The kind of request
/// does not matter; a client authorizes what it does for open files by open capabilities
/// (`gupfs_proto::capability::OpenCapability`).
pub(super) fn squash_root(request: &mut MetaRequest) {
    request.caller.squash_root();
    // Replayed operations have the credentials of their original requests. (A request with open capabilities cannot contain a
    // replay, so no credentials are hidden in one.)
    if let MetaOp::Replay { records, .. } = &mut request.op {
        for change in records {
            change.caller.squash_root();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::meta::{
        AccessMode, AppliedChange, OpenMode, ReplayRecord, SetAttr, SetTime, SlotSeq, WritePosition,
    };
    use gupfs_proto::{Caller, InodeId, OwnerEpoch, Seq, SessionId, Slot, Timestamp, wire};

    const NOBODY: u32 = 65_534;

    fn request(caller: Caller, op: MetaOp) -> MetaRequest {
        MetaRequest {
            session: SessionId(1),
            slot_seq: None,
            caller,
            job: gupfs_proto::JobId(0),
            instance: OwnerEpoch(0),
            last_seen: Seq(0),
            op,
        }
    }

    /// Operations of all kinds, including all that a client sends for its own bookkeeping.
    fn operations() -> Vec<MetaOp> {
        let ino = InodeId(9);
        let open = |access, truncate| MetaOp::Open {
            ino,
            open: OpenMode {
                access,
                truncate,
                kill_privileges: false,
            },
        };
        let set = |mode, atime: Option<i64>, ctime: Option<i64>| MetaOp::SetAttr {
            ino,
            set: SetAttr {
                mode,
                atime: atime.map(|at| SetTime::To(Timestamp::new(at, 0))),
                ctime: ctime.map(|at| Timestamp::new(at, 0)),
                ..SetAttr::default()
            },
        };
        let truncate = |by_handle| MetaOp::Truncate {
            ino,
            to: 0,
            by_handle,
            kill_privileges: false,
        };
        let written = wire::encode_op(&MetaOp::GetAttr { ino });
        vec![
            open(AccessMode::empty(), false),
            open(AccessMode::empty(), true),
            open(AccessMode::READ, false),
            set(Some(0o4777), None, Some(5)),
            set(None, Some(5), Some(5)),
            truncate(true),
            truncate(false),
            MetaOp::WriteInline {
                ino,
                at: WritePosition::End,
                data: Default::default(),
                kill_privileges: false,
            },
            MetaOp::BeginWrite {
                ino,
                kill_privileges: false,
            },
            MetaOp::KillPrivileges { ino },
            MetaOp::GetAttr { ino },
            MetaOp::StatFs,
            MetaOp::Renew,
            MetaOp::CloseSession,
            MetaOp::OpenSession { client: "c".into() },
            MetaOp::WithOpenCapability {
                open_capabilities: vec![],
                op: written,
            },
        ]
    }

    #[test]
    fn root_and_its_group_of_another_host_are_squashed_in_every_request() {
        let squashed = |caller: Caller, op: MetaOp| {
            let mut request = request(caller, op.clone());
            squash_root(&mut request);
            assert_eq!(request.op, op);
            request.caller
        };
        for op in operations() {
            for (from, to) in [
                (Caller::root(), Caller::new(NOBODY, NOBODY, [])),
                (
                    Caller::new(0, 5, [0, 7]),
                    Caller::new(NOBODY, 5, [NOBODY, 7]),
                ),
                (Caller::new(1000, 0, []), Caller::new(1000, NOBODY, [])),
                (
                    Caller::new(1000, 100, [4, 0]),
                    Caller::new(1000, 100, [4, NOBODY]),
                ),
                (Caller::new(1000, 100, [4]), Caller::new(1000, 100, [4])),
            ] {
                assert_eq!(squashed(from, op.clone()), to, "{op:?}");
            }
        }
    }

    #[test]
    fn root_and_its_group_of_another_host_are_squashed_in_replayed_operations() {
        let replayed = |caller: Caller, op: &MetaOp| ReplayRecord {
            change: AppliedChange {
                seq: Seq(1),
                at: Timestamp::default(),
            },
            slot_seq: SlotSeq {
                slot: Slot(0),
                sequence: 1,
            },
            caller,
            op: wire::encode_op(op),
            created: None,
            layout: None,
        };
        let mut request = request(
            Caller::root(),
            MetaOp::Replay {
                instance: OwnerEpoch(1),
                records: operations()
                    .iter()
                    .map(|op| replayed(Caller::new(0, 0, [0]), op))
                    .collect(),
                locks: vec![],
                last: true,
            },
        );
        squash_root(&mut request);
        let MetaOp::Replay { records, .. } = request.op else {
            unreachable!()
        };
        let nobody = Caller::new(NOBODY, NOBODY, [NOBODY]);
        assert!(records.iter().all(|change| change.caller == nobody));
    }
}
