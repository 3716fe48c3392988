//! What no request may hold although it can be read: the decoder refuses it, so that nobody behind it has to ask.

use crate::caller::Caller;
use crate::limits::{
    ADDRESS_MAX, GROUPS_MAX, KEPT_PART, LOCKS_PART, PROOFS_MAX, SESSION_NAME_MAX, SLOTS,
    TARGETS_MAX,
};
use crate::meta::{Lane, Op, Request, XattrName};
use crate::{cluster, meta};

type Bounded = Result<(), String>;

pub(crate) fn of_meta(request: &Request) -> Bounded {
    of_lane(request.lane)?;
    of_caller(&request.caller)?;
    of_op(&request.op)
}

pub(crate) fn of_op(op: &Op) -> Bounded {
    match op {
        Op::OpenSession { client } => at_most("a client's name", client.len(), SESSION_NAME_MAX),
        Op::GetXattr { name, .. } | Op::SetXattr { name, .. } | Op::RemoveXattr { name, .. } => {
            of_xattr(name)
        }
        Op::Return { kept, locks, .. } => {
            at_most("changes in one part", kept.len(), KEPT_PART)?;
            at_most("locks in one part", locks.len(), LOCKS_PART)?;
            kept.iter().try_for_each(of_kept)
        }
        Op::Proven { proofs, .. } => at_most("proofs of open files", proofs.len(), PROOFS_MAX),
        _ => Ok(()),
    }
}

pub(crate) fn of_cluster(request: &cluster::Request) -> Bounded {
    match request {
        cluster::Request::Here { address, .. } => {
            at_most("a server's address", address.len(), ADDRESS_MAX)
        }
        cluster::Request::Report(report) => {
            at_most("a server's address", report.address.len(), ADDRESS_MAX)?;
            at_most("targets of one server", report.targets.len(), TARGETS_MAX)
        }
        cluster::Request::Lives { targets } => {
            at_most("targets of one server", targets.len(), TARGETS_MAX)
        }
        _ => Ok(()),
    }
}

fn of_kept(kept: &meta::Kept) -> Bounded {
    of_lane(Some(kept.lane))?;
    of_caller(&kept.caller)
}

fn of_lane(lane: Option<Lane>) -> Bounded {
    match lane {
        Some(lane) if lane.slot.0 >= SLOTS => Err(format!(
            "it is of slot {}, and a session has {SLOTS}",
            lane.slot.0
        )),
        _ => Ok(()),
    }
}

fn of_caller(caller: &Caller) -> Bounded {
    at_most("a caller's groups", caller.groups.len(), GROUPS_MAX)
}

fn of_xattr(name: &XattrName) -> Bounded {
    match XattrName::new(name.as_bytes()) {
        Ok(_) => Ok(()),
        Err(why) => Err(format!(
            "the name of an attribute has {} bytes: {why}",
            name.as_bytes().len()
        )),
    }
}

fn at_most(what: &str, has: usize, most: usize) -> Bounded {
    match has <= most {
        true => Ok(()),
        false => Err(format!("{what}: {has}, and {most} are the most")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::XattrHow;
    use crate::wire::Message;
    use crate::{InodeId, OwnerEpoch, Seq, SessionId, Slot};
    use bytes::Bytes;

    fn request(op: Op, slot: u16) -> Request {
        let slot = Slot(slot);
        Request {
            session: SessionId(1),
            lane: Some(Lane { slot, sequence: 1 }),
            caller: Caller::root(),
            job: 0,
            life: OwnerEpoch(1),
            seen: Seq(0),
            op,
        }
    }

    /// As it comes over the net.
    fn heard(request: Request) -> Result<Request, String> {
        let sent = request.write();
        Request::read(&sent.body, sent.payload).map_err(|why| why.to_string())
    }

    fn refused(request: Request) -> String {
        heard(request).unwrap_err()
    }

    fn name(length: usize) -> Op {
        let client = "n".repeat(length);
        Op::OpenSession { client }
    }

    /// A name as a program sends it that does not look at it first.
    fn xattr(name: &[u8]) -> Op {
        let name = postcard::to_stdvec(name).unwrap();
        Op::SetXattr {
            ino: InodeId(7),
            name: postcard::from_bytes(&name).unwrap(),
            value: Bytes::from_static(b"v"),
            how: XattrHow::Either,
        }
    }

    #[test]
    fn slots_names_and_groups_have_bounds() {
        assert!(heard(request(Op::StatFs, SLOTS - 1)).is_ok());
        for slot in [SLOTS, 60_000, u16::MAX] {
            let why = refused(request(Op::StatFs, slot));
            assert!(why.contains("a session has 64"), "{why}");
        }
        assert!(heard(request(name(SESSION_NAME_MAX), 0)).is_ok());
        let why = refused(request(name(1_000_000), 0));
        assert!(why.contains("a client's name: 1000000"), "{why}");
        let mut many = request(Op::StatFs, 0);
        many.caller = Caller::new(1, 1, vec![7; GROUPS_MAX + 1]);
        assert!(refused(many).contains("groups"));
    }

    #[test]
    fn names_of_attributes_are_those_that_the_kernel_lets_through() {
        let long = |length: usize| [&b"user."[..], &vec![b'a'; length - 5]].concat();
        assert!(heard(request(xattr(&long(255)), 0)).is_ok());
        for name in [&long(256), &long(65_000), &b"user.a\0b"[..], b""] {
            let why = refused(request(xattr(name), 0));
            assert!(why.contains("the name of an attribute"), "{why}");
        }
    }

    #[test]
    fn what_is_said_again_has_the_same_bounds() {
        let kept = meta::Kept {
            change: meta::Change {
                seq: Seq(1),
                at: crate::Timestamp::new(1, 0),
            },
            lane: Lane {
                slot: Slot(SLOTS),
                sequence: 1,
            },
            caller: Caller::root(),
            op: Bytes::new(),
            made: None,
            layout: None,
        };
        let again = |kept| Op::Return {
            of: OwnerEpoch(1),
            kept,
            locks: Vec::new(),
            last: true,
        };
        assert!(refused(request(again(vec![kept.clone()]), 0)).contains("a session has"));
        let much = vec![kept; KEPT_PART + 1];
        assert!(refused(request(again(much), 0)).contains("changes in one part"));
        let op = crate::wire::op_bytes(&xattr(b""));
        assert!(crate::wire::op_of(&op).is_err());
    }

    #[test]
    fn an_address_is_no_longer_than_a_name_of_a_host() {
        let here = cluster::Request::Here {
            address: "a".repeat(ADDRESS_MAX + 1),
            targets: Vec::new(),
        };
        let sent = here.write();
        assert!(cluster::Request::read(&sent.body, sent.payload).is_err());
    }
}
