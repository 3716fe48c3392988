//! The access rules of operations that the driver executes itself.

use bytes::Bytes;
use gupfs_proto::capability::Rights;
use gupfs_proto::lock::{
    AdvisoryLock, LockFamily, LockHolder, LockMode, LockRange, LockRequest, LockSeq,
};
use gupfs_proto::meta::{AccessMode, MetaOp};
use gupfs_proto::operations::AccessRule;
use gupfs_proto::{InodeId, OwnerEpoch, Seq};

const INO: InodeId = InodeId(9);
const READ: AccessRule = AccessRule::Open(INO, AccessMode::READ);
const WRITE: AccessRule = AccessRule::Open(INO, AccessMode::WRITE);
const SEQ: LockSeq = LockSeq {
    number: 1,
    replied_below: 1,
};

/// The driver looks up the access rules of these operations, too.
#[test]
fn operations_that_change_no_record_have_access_rules_too() {
    for (op, expected) in lock_requests().into_iter().chain(other_operations()) {
        assert_eq!(op.operation().rule, expected, "{op:?}");
    }
}

fn lock(family: LockFamily, mode: LockMode) -> AdvisoryLock {
    AdvisoryLock {
        holder: LockHolder {
            ino: INO,
            family,
            owner: 1,
        },
        range: LockRange::WHOLE,
        mode,
        pid: 1,
    }
}

fn acquire(family: LockFamily, mode: LockMode) -> MetaOp {
    MetaOp::Lock(LockRequest::Acquire {
        seq: SEQ,
        lock: lock(family, mode),
        wait: true,
    })
}

fn lock_requests() -> Vec<(MetaOp, AccessRule)> {
    let test = MetaOp::Lock(LockRequest::Test {
        lock: lock(LockFamily::Record, LockMode::Exclusive),
    });
    let release = MetaOp::Lock(LockRequest::Release {
        seq: SEQ,
        holder: lock(LockFamily::Flock, LockMode::Shared).holder,
        range: LockRange::WHOLE,
    });
    let cancel = MetaOp::Lock(LockRequest::Cancel {
        seq: SEQ,
        acquire: 1,
    });
    vec![
        (acquire(LockFamily::Flock, LockMode::Shared), READ),
        (acquire(LockFamily::Flock, LockMode::Exclusive), READ),
        (acquire(LockFamily::Record, LockMode::Shared), READ),
        (acquire(LockFamily::Record, LockMode::Exclusive), WRITE),
        (test, WRITE),
        (release, AccessRule::Session),
        (cancel, AccessRule::Session),
    ]
}

fn other_operations() -> Vec<(MetaOp, AccessRule)> {
    let issue = |rights| MetaOp::IssueCapability { ino: INO, rights };
    let open_session = MetaOp::OpenSession { client: "c".into() };
    let replay = MetaOp::Replay {
        instance: OwnerEpoch(1),
        records: vec![],
        locks: vec![],
        last: true,
    };
    let with_open_capability = MetaOp::WithOpenCapability {
        open_capabilities: vec![],
        op: Bytes::new(),
    };
    vec![
        (issue(Rights::READ), READ),
        (issue(Rights::WRITE), AccessRule::LeaseHolder(INO)),
        (issue(Rights::all()), AccessRule::LeaseHolder(INO)),
        (issue(Rights::empty()), READ),
        (MetaOp::Renew, AccessRule::Session),
        (MetaOp::Sync { upto: Seq(1) }, AccessRule::Session),
        (open_session, AccessRule::Session),
        (replay, AccessRule::PerPart),
        (with_open_capability, AccessRule::PerPart),
    ]
}
