//! A metadata server's keys on one side, the gate on the other.

use super::*;
use crate::{Door, Oss, Target};
use gupfs_platform::fake::FakeWorld;
use gupfs_proto::capability::{Rights, SealKey};
use gupfs_proto::cluster::Share;
use gupfs_proto::data::{BlockSums, Checked, Existing, Op, Owner};
use gupfs_proto::{Generation, MapEpoch, ObjectId, ObjectOffset};
use std::future::poll_fn;
use std::task::Poll;

const OST: OstId = OstId(1);
const FILE: InodeId = InodeId(9);
const SESSION: SessionId = SessionId(7);

fn at(secs: u64) -> BootTime {
    BootTime::default() + Duration::from_secs(secs)
}

/// What the metadata server of an epoch knows. Its clock says the same as ours.
struct Signer(OwnerEpoch);

impl Signer {
    fn shares(&self) -> (Share, Share) {
        (
            Share([self.0.0 as u8; 32]),
            Share([100 + self.0.0 as u8; 32]),
        )
    }

    fn seals(&self, now: BootTime) -> Seals {
        let (pass, ost) = self.shares();
        Seals {
            epoch: self.0,
            now: now.0 / 1_000_000,
            pass,
            osts: vec![(OST, ost)],
            ended: Vec::new(),
        }
    }

    fn key(&self, share: Share) -> SealKey {
        ClusterKey::sealing(None, &share)
    }

    fn pass(&self, until: BootTime) -> Pass {
        let (epoch, until) = (self.0, until.0 / 1_000_000);
        let what = Statement::Pass {
            epoch,
            session: SESSION,
            until,
        };
        let tag = self.key(self.shares().0).seal(&what);
        Pass { epoch, until, tag }
    }

    fn grant(&self, ino: InodeId, rights: Rights) -> Grant {
        let epoch = self.0;
        let what = Statement::File {
            epoch,
            ost: OST,
            session: SESSION,
            ino,
            rights,
        };
        let tag = self.key(self.shares().1).seal(&what);
        Grant { epoch, rights, tag }
    }

    fn server(&self) -> Warrant {
        let epoch = self.0;
        let what = Statement::Server { epoch, ost: OST };
        let tag = self.key(self.shares().1).seal(&what);
        Warrant::Server { epoch, tag }
    }
}

fn object(ino: InodeId) -> ObjectId {
    ObjectId {
        ino,
        generation: Generation(1),
        stripe: 0,
    }
}

fn read() -> Op {
    Op::Read {
        object: object(FILE),
        at: ObjectOffset(0),
        len: 1,
        existing: Existing::Perhaps,
        checked: Checked::ByAsker,
    }
}

fn write() -> Op {
    Op::Write {
        object: object(FILE),
        at: ObjectOffset(0),
        data: Default::default(),
        sums: BlockSums::default(),
        existing: Existing::Perhaps,
        owner: Owner::default(),
    }
}

fn request(warrant: Warrant, op: Op) -> Request {
    Request {
        session: SESSION,
        map_epoch: MapEpoch(1),
        job: 0,
        ost: OST,
        warrant,
        op,
    }
}

fn client(pass: Pass, grant: Grant) -> Warrant {
    Warrant::Client {
        pass,
        grant: Some(grant),
    }
}

/// A gate that has heard this epoch at second 100.
fn heard(signer: &Signer) -> Gate {
    let gate = Gate::default();
    gate.hear(&signer.seals(at(100)), at(100));
    gate
}

fn fault(gate: &Gate, warrant: Warrant, op: Op, now: BootTime) -> Option<Fault> {
    gate.admit(&request(warrant, op), now).err()
}

#[test]
fn what_was_verified_once_is_admitted_by_comparison() {
    let signer = Signer(OwnerEpoch(3));
    let gate = heard(&signer);
    let may = client(signer.pass(at(120)), signer.grant(FILE, Rights::all()));
    for op in [read(), write()] {
        assert_eq!(fault(&gate, may, op, at(101)), None);
    }
    let first = gate.status().verified;
    assert_eq!(first, 2, "a pass and a grant");
    for _ in 0..1_000 {
        assert_eq!(fault(&gate, may, write(), at(101)), None);
        assert_eq!(fault(&gate, signer.server(), read(), at(101)), None);
    }
    assert_eq!(gate.status().verified, first + 1, "the server's own");
    // Renewed, the pass alone is verified.
    let renewed = client(signer.pass(at(125)), signer.grant(FILE, Rights::all()));
    assert_eq!(fault(&gate, renewed, read(), at(106)), None);
    assert_eq!(gate.status().verified, first + 2);
}

#[test]
fn who_shows_what_is_not_his_is_refused_and_counted() {
    let signer = Signer(OwnerEpoch(3));
    let gate = heard(&signer);
    let pass = signer.pass(at(120));
    let mine = signer.grant(FILE, Rights::READ);
    let of = |warrant, op| fault(&gate, warrant, op, at(101));
    assert_eq!(of(Warrant::None, read()), Some(Fault::Missing));
    let without = Warrant::Client { pass, grant: None };
    assert_eq!(of(without, read()), Some(Fault::Missing));
    assert_eq!(of(without, Op::Space), None);
    // Another file's, one with more rights than were given, another session's.
    let another = signer.grant(InodeId(10), Rights::READ);
    assert_eq!(of(client(pass, another), read()), Some(Fault::Forged));
    let more = Grant {
        rights: Rights::all(),
        ..mine
    };
    assert_eq!(of(client(pass, more), write()), Some(Fault::Forged));
    let mut foreign = request(client(pass, mine), read());
    foreign.session = SessionId(8);
    assert_eq!(gate.admit(&foreign, at(101)).err(), Some(Fault::Forged));
    // With a later end than was given.
    let longer = Pass {
        until: pass.until + 1,
        ..pass
    };
    assert_eq!(of(client(longer, mine), read()), Some(Fault::Forged));
    // For what was not given.
    assert_eq!(of(client(pass, mine), write()), Some(Fault::Rights));
    let remove = Op::Remove {
        object: object(FILE),
    };
    assert_eq!(of(client(pass, mine), remove), Some(Fault::Rights));
    let fence = Op::Fence { session: SESSION };
    assert_eq!(of(client(pass, mine), fence), Some(Fault::Rights));
    assert_eq!(of(client(pass, mine), read()), None);
    let status = gate.status();
    let counted = (status.missing, status.forged, status.rights);
    assert_eq!((counted, status.refused()), ((2, 4, 3), 9));
}

#[test]
fn an_expired_pass_counts_no_more_and_a_renewed_one_does() {
    let signer = Signer(OwnerEpoch(3));
    let gate = heard(&signer);
    let grant = signer.grant(FILE, Rights::READ);
    let old = client(signer.pass(at(120)), grant);
    assert_eq!(fault(&gate, old, read(), at(119)), None);
    assert_eq!(fault(&gate, old, read(), at(121)), Some(Fault::Expired));
    // Also one that was never seen before.
    let unseen = client(signer.pass(at(110)), grant);
    assert_eq!(fault(&gate, unseen, read(), at(121)), Some(Fault::Expired));
    let new = client(signer.pass(at(140)), grant);
    assert_eq!(fault(&gate, new, read(), at(121)), None);
    assert_eq!(gate.status().expired, 2);
    assert_eq!(gate.status().refused(), 0);
}

#[test]
fn capabilities_of_a_former_owner_count_for_a_term() {
    let (former, next) = (Signer(OwnerEpoch(3)), Signer(OwnerEpoch(4)));
    let gate = heard(&former);
    let grant = former.grant(FILE, Rights::READ);
    let of = |pass, now| fault(&gate, client(pass, grant), read(), now);
    assert_eq!(of(former.pass(at(120)), at(101)), None);
    gate.hear(&next.seals(at(105)), at(105));
    assert_eq!(of(former.pass(at(120)), at(106)), None);
    assert_eq!(of(next.pass(at(126)), at(106)), None);
    // The former owner itself is believed no more.
    let said = fault(&gate, former.server(), read(), at(106));
    assert_eq!(said, Some(Fault::Fenced));
    gate.hear(&next.seals(at(127)), at(127));
    assert_eq!(of(next.pass(at(140)), at(128)), Some(Fault::Expired));
    let anew = client(next.pass(at(140)), next.grant(FILE, Rights::READ));
    assert_eq!(fault(&gate, anew, read(), at(128)), None);
}

#[test]
fn before_the_metadata_server_was_heard_nobody_is_believed() {
    let signer = Signer(OwnerEpoch(3));
    let gate = Gate::default();
    let may = client(signer.pass(at(120)), signer.grant(FILE, Rights::READ));
    assert_eq!(fault(&gate, may, read(), at(101)), Some(Fault::Expired));
    let server = fault(&gate, signer.server(), read(), at(101));
    assert_eq!(server, Some(Fault::Expired));
}

#[tokio::test]
async fn a_request_for_a_target_that_was_not_heard_yet_waits_and_is_judged_then() {
    let signer = Signer(OwnerEpoch(3));
    let oss = Oss::of_host(0, Vec::<(OstId, Target)>::new());
    let added = oss.add(OST, Target::Down("this test needs no disk".into()));
    assert!(added.is_ok());
    let clock = FakeWorld::new(1).platform().clock;
    let door = Door::of(&oss, &clock);
    let now = clock.boot();
    let pass = signer.pass(now + Duration::from_secs(20));
    let may = client(pass, signer.grant(FILE, Rights::READ));
    let forged = client(pass, signer.grant(InodeId(10), Rights::READ));
    let (may, forged) = (request(may, read()), request(forged, read()));
    let mut admitted = Box::pin(async { tokio::join!(door.admit(&may), door.admit(&forged)) });
    let is_waiting = poll_fn(|cx| Poll::Ready(admitted.as_mut().poll(cx).is_pending())).await;
    assert!(is_waiting, "the gate knows no keys");
    oss.gate().hear(&signer.seals(now), now);
    oss.heard([OST]);
    let (may, forged) = admitted.await;
    assert_eq!((may.err(), forged.err()), (None, Some(Fault::Forged)));
    assert_eq!(oss.gate().status().expired, 0);
}

#[tokio::test]
async fn a_fence_waits_for_what_is_under_way_and_refuses_what_comes() {
    let signer = Signer(OwnerEpoch(3));
    let gate = heard(&signer);
    let may = client(signer.pass(at(120)), signer.grant(FILE, Rights::all()));
    let under_way = gate.admit(&request(may, write()), at(101)).ok();
    let mut fence = Box::pin(gate.fence(SESSION));
    let is_waiting = poll_fn(|cx| Poll::Ready(fence.as_mut().poll(cx).is_pending())).await;
    assert!(is_waiting, "a write is under way");
    assert_eq!(fault(&gate, may, write(), at(101)), Some(Fault::Fenced));
    drop(under_way);
    fence.await;
    assert_eq!(fault(&gate, may, read(), at(101)), Some(Fault::Fenced));
    assert_eq!(gate.status().fenced, 2);
}

#[test]
fn a_server_that_starts_again_learns_who_was_ended_before_it_serves() {
    let signer = Signer(OwnerEpoch(3));
    let gate = Gate::default();
    let mut seals = signer.seals(at(100));
    seals.ended.push(SESSION);
    gate.hear(&seals, at(100));
    let may = client(signer.pass(at(120)), signer.grant(FILE, Rights::READ));
    assert_eq!(fault(&gate, may, read(), at(101)), Some(Fault::Fenced));
    // It is forgotten when nobody could be believed any more.
    gate.hear(&signer.seals(at(170)), at(170));
    assert_eq!(gate.status().sessions, 0);
}
