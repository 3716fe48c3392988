//! Bounds on the contents of requests. The decoder checks them and rejects a request that exceeds one, so that the code behind it
//! need not check.

use crate::callback::CallbackRequest;
use crate::caller::Caller;
use crate::jobs::{JOB_ROWS_MAX, JOBS_NAMED_MAX};
use crate::limits::{
    ADDRESS_MAX, GROUPS_MAX, OPEN_CAPABILITIES_MAX, REPLAY_LOCKS_MAX, REPLAY_RECORDS_MAX,
    SESSION_NAME_MAX, SLOTS, TARGETS_MAX,
};
use crate::meta::{MetaOp, MetaRequest, SlotSeq, XattrName};
use crate::{cluster, meta};

type BoundsResult = Result<(), String>;

pub(crate) fn check_meta_request(request: &MetaRequest) -> BoundsResult {
    check_slot(request.slot_seq)?;
    check_caller(&request.caller)?;
    check_op(&request.op)
}

pub(crate) fn check_op(op: &MetaOp) -> BoundsResult {
    match op {
        MetaOp::OpenSession { client } => check_count(
            "length of the client's name",
            client.len(),
            SESSION_NAME_MAX,
        ),
        MetaOp::NameJobs { labels } => {
            check_count("jobs named in one request", labels.len(), JOBS_NAMED_MAX)
        }
        MetaOp::GetXattr { name, .. }
        | MetaOp::SetXattr { name, .. }
        | MetaOp::RemoveXattr { name, .. } => check_xattr_name(name),
        MetaOp::Replay {
            records: kept,
            locks,
            ..
        } => {
            check_count(
                "replayed changes in one request",
                kept.len(),
                REPLAY_RECORDS_MAX,
            )?;
            check_count(
                "replayed locks in one request",
                locks.len(),
                REPLAY_LOCKS_MAX,
            )?;
            kept.iter().try_for_each(check_replay_record)
        }
        MetaOp::WithOpenCapability {
            open_capabilities: proofs,
            ..
        } => check_count(
            "open capabilities in one request",
            proofs.len(),
            OPEN_CAPABILITIES_MAX,
        ),
        _ => Ok(()),
    }
}

pub(crate) fn check_meta_reply(reply: &meta::MetaReply) -> BoundsResult {
    match &reply.result {
        Ok(meta::MetaReplyBody::LeaseReply(lease_reply)) => lease_reply.check_bounds(),
        _ => Ok(()),
    }
}

pub(crate) fn check_callback(request: &CallbackRequest) -> BoundsResult {
    match request {
        CallbackRequest::RevokeLeases { revocation, .. } => revocation.check_bounds(),
        CallbackRequest::TargetsStop { osts } => {
            check_count("targets of the server", osts.len(), TARGETS_MAX)
        }
        _ => Ok(()),
    }
}

pub(crate) fn check_cluster_request(request: &cluster::ClusterRequest) -> BoundsResult {
    match request {
        cluster::ClusterRequest::LegacyReport { address, .. } => {
            check_count("length of the server's address", address.len(), ADDRESS_MAX)
        }
        cluster::ClusterRequest::Report(report)
        | cluster::ClusterRequest::ReportOfDomain { report, .. } => {
            check_count(
                "length of the server's address",
                report.address.len(),
                ADDRESS_MAX,
            )?;
            check_count("targets of the server", report.targets.len(), TARGETS_MAX)
        }
        cluster::ClusterRequest::Verifiers { targets } => {
            check_count("targets of the server", targets.len(), TARGETS_MAX)
        }
        cluster::ClusterRequest::ReportJobs(report) => {
            check_count("jobs in one report", report.rows.len(), JOB_ROWS_MAX)?;
            check_count("targets of the server", report.targets.len(), TARGETS_MAX)
        }
        cluster::ClusterRequest::TargetsStop { targets } => {
            check_count("targets of the server", targets.len(), TARGETS_MAX)
        }
        _ => Ok(()),
    }
}

fn check_replay_record(kept: &meta::ReplayRecord) -> BoundsResult {
    check_slot(Some(kept.slot_seq))?;
    check_caller(&kept.caller)
}

fn check_slot(slot_seq: Option<SlotSeq>) -> BoundsResult {
    match slot_seq {
        Some(seq) if seq.slot.0 >= SLOTS => Err(format!(
            "slot {} is out of range: a session has {SLOTS} slots",
            seq.slot.0
        )),
        _ => Ok(()),
    }
}

fn check_caller(caller: &Caller) -> BoundsResult {
    check_count(
        "supplementary groups of the caller",
        caller.groups.len(),
        GROUPS_MAX,
    )
}

fn check_xattr_name(name: &XattrName) -> BoundsResult {
    match XattrName::new(name.as_bytes()) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!(
            "invalid name of an extended attribute ({} bytes): {error}",
            name.as_bytes().len()
        )),
    }
}

fn check_count(item: &str, actual: usize, limit: usize) -> BoundsResult {
    match actual <= limit {
        true => Ok(()),
        false => Err(format!("{item}: {actual} exceeds the limit of {limit}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::XattrMode;
    use crate::wire::Message;
    use crate::{InodeId, OwnerEpoch, Seq, SessionId, Slot};
    use bytes::Bytes;

    fn request(op: MetaOp, slot: u16) -> MetaRequest {
        let slot = Slot(slot);
        MetaRequest {
            session: SessionId(1),
            slot_seq: Some(SlotSeq { slot, sequence: 1 }),
            caller: Caller::root(),
            job: crate::JobId::UNKNOWN,
            instance: OwnerEpoch(1),
            last_seen: Seq(0),
            op,
        }
    }

    /// Encodes and decodes the request, as a connection does.
    fn decoded(request: MetaRequest) -> Result<MetaRequest, String> {
        let sent = request.encode();
        MetaRequest::decode(&sent.body, sent.payload).map_err(|error| error.to_string())
    }

    fn decode_error(request: MetaRequest) -> String {
        decoded(request).unwrap_err()
    }

    fn name(length: usize) -> MetaOp {
        let client = "n".repeat(length);
        MetaOp::OpenSession { client }
    }

    /// `SetXattr` with an unchecked name, as a faulty client may send it.
    fn xattr(name: &[u8]) -> MetaOp {
        let name = postcard::to_stdvec(name).unwrap();
        MetaOp::SetXattr {
            ino: InodeId(7),
            name: postcard::from_bytes(&name).unwrap(),
            value: Bytes::from_static(b"v"),
            mode: XattrMode::CreateOrReplace,
        }
    }

    #[test]
    fn slots_names_and_groups_have_bounds() {
        assert!(decoded(request(MetaOp::StatFs, SLOTS - 1)).is_ok());
        for slot in [SLOTS, 60_000, u16::MAX] {
            let error = decode_error(request(MetaOp::StatFs, slot));
            assert!(error.contains("a session has 64"), "{error}");
        }
        assert!(decoded(request(name(SESSION_NAME_MAX), 0)).is_ok());
        let error = decode_error(request(name(1_000_000), 0));
        assert!(error.contains("the client's name: 1000000"), "{error}");
        let mut many = request(MetaOp::StatFs, 0);
        many.caller = Caller::new(1, 1, vec![7; GROUPS_MAX + 1]);
        assert!(decode_error(many).contains("groups"));
    }

    #[test]
    fn attribute_names_have_the_bounds_of_the_kernel() {
        let long = |length: usize| [&b"user."[..], &vec![b'a'; length - 5]].concat();
        assert!(decoded(request(xattr(&long(255)), 0)).is_ok());
        for name in [&long(256), &long(65_000), &b"user.a\0b"[..], b""] {
            let error = decode_error(request(xattr(name), 0));
            assert!(error.contains("name of an extended attribute"), "{error}");
        }
    }

    #[test]
    fn replay_records_have_the_bounds_of_requests() {
        let record = meta::ReplayRecord {
            change: meta::AppliedChange {
                seq: Seq(1),
                at: crate::Timestamp::new(1, 0),
            },
            slot_seq: SlotSeq {
                slot: Slot(SLOTS),
                sequence: 1,
            },
            caller: Caller::root(),
            op: Bytes::new(),
            created: None,
            layout: None,
        };
        let replay = |kept| MetaOp::Replay {
            instance: OwnerEpoch(1),
            records: kept,
            locks: Vec::new(),
            last: true,
        };
        assert!(decode_error(request(replay(vec![record.clone()]), 0)).contains("a session has"));
        let much = vec![record; REPLAY_RECORDS_MAX + 1];
        assert!(decode_error(request(replay(much), 0)).contains("replayed changes"));
        let op = crate::wire::encode_op(&xattr(b""));
        assert!(crate::wire::decode_op(&op).is_err());
    }

    #[test]
    fn the_address_of_a_server_has_a_bound() {
        let report = cluster::ClusterRequest::LegacyReport {
            address: "a".repeat(ADDRESS_MAX + 1),
            targets: Vec::new(),
        };
        let sent = report.encode();
        assert!(cluster::ClusterRequest::decode(&sent.body, sent.payload).is_err());
        let of_domain = |address: String| cluster::ClusterRequest::ReportOfDomain {
            report: cluster::OssReport {
                address,
                targets: Vec::new(),
                stopping: false,
            },
            domain: crate::DomainName::new("rack7").unwrap(),
        };
        for length in [ADDRESS_MAX, ADDRESS_MAX + 1] {
            let sent = of_domain("a".repeat(length)).encode();
            assert_eq!(sent.min_version, 7);
            let read = cluster::ClusterRequest::decode(&sent.body, sent.payload);
            assert_eq!(read.is_ok(), length <= ADDRESS_MAX);
        }
    }
}
