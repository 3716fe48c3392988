//! What a session may do: by the credentials that it names, and by what it proves to have open.

use crate::client::{MAKE, name};
use crate::house::{Life, Simulated, simulate};
use gupfs_mds::Mds;
use gupfs_mds::targets::{Dial, OstPeer};
use gupfs_proto::capability::{Fault, OpenProof, Rights};
use gupfs_proto::lock::{Ask, Extent, Holder, Kind, Lock, Mode, Order, Word};
use gupfs_proto::meta::{
    Access, Answer, Kept, Lane, Make, Op, OpenHow, Opened, Reply, Request, WriteAt,
};
use gupfs_proto::{Caller, InodeId, OwnerEpoch, Refusal, Seq, SessionId, Slot, wire};
use gupfs_rpc::Service;
use std::sync::Arc;

/// What root of a host counts as whose root does not count.
fn nobody() -> Caller {
    Caller::new(65_534, 65_534, [])
}

fn owner() -> Caller {
    Caller::new(1000, 1000, [])
}

/// A session of another process, whose client does what it likes.
struct Host {
    mds: Arc<Mds>,
    session: SessionId,
    changes: u64,
}

/// Servers of targets elsewhere may come: so sessions are given proofs. None does.
struct Elsewhere;

impl Dial for Elsewhere {
    fn dial(&self, address: &str) -> OstPeer {
        panic!("nobody told of a server at {address}")
    }
}

async fn start(house: &Simulated) -> Life {
    let platform = house.platform();
    let mut how = house.how(&platform);
    how.dial = Some(Arc::new(Elsewhere));
    how.keep_sessions = true;
    let mds = house.start_as(how).await.unwrap();
    Life { platform, mds }
}

impl Host {
    async fn enter(mds: &Arc<Mds>) -> Host {
        let mut host = Host {
            mds: mds.clone(),
            session: SessionId(0),
            changes: 0,
        };
        let client = "a host".to_string();
        match host.ask(&nobody(), Op::OpenSession { client }).await {
            Ok(Answer::Session { session, .. }) => host.session = session,
            other => panic!("{other:?}"),
        }
        host
    }

    async fn ask(&mut self, caller: &Caller, op: Op) -> Result<Answer, Refusal> {
        self.reply(caller, op).await.1.result
    }

    async fn reply(&mut self, caller: &Caller, op: Op) -> (Option<Lane>, Reply) {
        let changes = match &op {
            Op::Proven { op, .. } => wire::op_of(op).unwrap().changes(),
            op => op.changes(),
        };
        let lane = changes.then(|| {
            self.changes += 1;
            Lane {
                slot: Slot(0),
                sequence: self.changes,
            }
        });
        let request = Request {
            session: self.session,
            lane,
            caller: caller.clone(),
            job: 0,
            life: self.mds.owner_epoch(),
            seen: Seq(0),
            op,
        };
        (lane, self.mds.clone().answer(request).await)
    }

    async fn create(&mut self, what: &str) -> Opened {
        match self.ask(&owner(), creation(what)).await {
            Ok(Answer::Opened(opened)) => opened,
            other => panic!("{other:?}"),
        }
    }

    async fn bytes(&mut self, ino: InodeId) -> Vec<u8> {
        match self.ask(&owner(), open(ino, Access::READ)).await {
            Ok(Answer::Opened(opened)) => opened.inline.unwrap().to_vec(),
            other => panic!("{other:?}"),
        }
    }
}

fn creation(what: &str) -> Op {
    Op::Create {
        dir: InodeId::ROOT,
        name: name(what),
        make: Make {
            mode: 0o600,
            ..MAKE
        },
        exclusive: true,
        open: how(Access::READ | Access::WRITE),
    }
}

fn how(access: Access) -> OpenHow {
    OpenHow {
        access,
        truncate: false,
        kill_privileges: false,
    }
}

fn open(ino: InodeId, access: Access) -> Op {
    let open = how(access);
    Op::Open { ino, open }
}

fn write(ino: InodeId, data: &'static [u8]) -> Op {
    Op::WriteInline {
        ino,
        at: WriteAt::Offset(0),
        data: bytes::Bytes::from_static(data),
        kill_privileges: false,
    }
}

fn lock(ino: InodeId) -> Lock {
    Lock {
        holder: Holder {
            ino,
            kind: Kind::Record,
            owner: 1,
        },
        extent: Extent::WHOLE,
        mode: Mode::Exclusive,
        pid: 1,
    }
}

fn take(ino: InodeId, number: u64) -> Op {
    Op::Lock(Ask::Take {
        order: Order {
            number,
            answered_below: number,
        },
        lock: lock(ino),
        waits: false,
    })
}

fn proven(proof: OpenProof, op: &Op) -> Op {
    Op::Proven {
        proofs: vec![proof],
        op: wire::op_bytes(op),
    }
}

fn given(opened: &Opened, access: Access) -> OpenProof {
    let capability = opened.capability.as_ref();
    let proof = capability.and_then(|it| it.open_proof(opened.attr.ino, access));
    proof.expect("an open is answered with a proof")
}

/// The root of all tests may be written by everybody.
async fn open_root(life: &Life) {
    let mut host = Host::enter(&life.mds).await;
    let set = gupfs_proto::meta::SetAttr {
        mode: Some(0o777),
        ..Default::default()
    };
    let ino = InodeId::ROOT;
    host.ask(&Caller::root(), Op::SetAttr { ino, set })
        .await
        .unwrap();
    host.ask(&nobody(), Op::CloseSession).await.unwrap();
}

const BOTH: Access = Access::READ.union(Access::WRITE);

#[test]
fn what_was_opened_is_proved_and_nothing_else_is_believed() {
    simulate(async {
        let house = Simulated::new(1);
        let life = start(&house).await;
        open_root(&life).await;
        let mut host = Host::enter(&life.mds).await;
        let opened = host.create("f").await;
        let (ino, proof) = (opened.attr.ino, given(&opened, BOTH));
        let denied = Err(Refusal::Denied);
        let forged = Err(Refusal::Capability(Fault::Forged));
        // A client writes for its programs as nobody, and shows that the file was opened.
        let wrote = host
            .ask(&nobody(), proven(proof, &write(ino, b"ours")))
            .await;
        assert!(matches!(wrote, Ok(Answer::Attr(_))), "{wrote:?}");
        assert_eq!(host.ask(&nobody(), write(ino, b"PWNED")).await, denied);
        // Made for another right, for another file, or by chance.
        let other = host.create("g").await.attr.ino;
        let read_only = OpenProof {
            rights: Rights::READ,
            ..proof
        };
        for wrong in [
            read_only,
            OpenProof {
                ino: other,
                ..proof
            },
        ] {
            let op = proven(wrong, &write(wrong.ino, b"PWNED"));
            assert_eq!(host.ask(&nobody(), op).await, forged);
        }
        // A right one is of one file alone.
        let op = proven(proof, &write(other, b"PWNED"));
        assert_eq!(host.ask(&nobody(), op).await, denied);
        // And of one session.
        let mut stranger = Host::enter(&life.mds).await;
        let op = proven(proof, &write(ino, b"PWNED"));
        assert_eq!(stranger.ask(&nobody(), op).await, forged);
        // Opened to read, it gives no right to write.
        let reading = match host.ask(&owner(), open(ino, Access::READ)).await {
            Ok(Answer::Opened(opened)) => given(&opened, Access::READ),
            other => panic!("{other:?}"),
        };
        let op = proven(reading, &write(ino, b"PWNED"));
        assert_eq!(host.ask(&nobody(), op).await, denied);
        // What is asked again without access shows bytes to whom they were opened, and gives no proof.
        let again = open(ino, Access::empty());
        assert_eq!(stranger.ask(&nobody(), again.clone()).await, denied);
        match host.ask(&nobody(), proven(reading, &again)).await {
            Ok(Answer::Opened(opened)) => {
                assert_eq!(opened.inline.as_deref(), Some(&b"ours"[..]));
                let capability = opened.capability;
                assert!(capability.is_none_or(|it| it.open_proof(ino, BOTH).is_none()));
            }
            other => panic!("{other:?}"),
        }
        // Whoever holds a file says so by its record; permits and locks are for what is open.
        let permit = |rights| Op::Permit { ino, rights };
        assert_eq!(host.ask(&nobody(), permit(Rights::READ)).await, denied);
        assert_eq!(host.ask(&nobody(), permit(Rights::WRITE)).await, denied);
        let permitted = host
            .ask(&nobody(), proven(proof, &permit(Rights::READ)))
            .await;
        assert!(matches!(permitted, Ok(Answer::Permitted { .. })));
        let op = proven(proof, &permit(Rights::WRITE));
        assert_eq!(host.ask(&nobody(), op).await, denied);
        assert_eq!(stranger.ask(&nobody(), take(ino, 1)).await, denied);
        let op = proven(reading, &take(ino, 1));
        assert_eq!(host.ask(&nobody(), op).await, denied);
        match host.ask(&nobody(), proven(proof, &take(ino, 2))).await {
            Ok(Answer::Lock(said)) => assert_eq!(said.word, Ok(Word::Done)),
            other => panic!("{other:?}"),
        }
        assert_eq!(host.bytes(ino).await, b"ours");
        // Proofs go with operations that they are for, once.
        for op in [
            proven(proof, &proven(proof, &write(ino, b"PWNED"))),
            proven(proof, &Op::CloseSession),
        ] {
            let refused = host.ask(&nobody(), op).await;
            assert!(matches!(refused, Err(Refusal::Malformed(_))), "{refused:?}");
        }
    });
}

/// Coming back: what the session holds, and what it says again.
fn comes_back(of: OwnerEpoch, kept: Vec<Kept>, locks: Vec<Lock>) -> Op {
    let last = true;
    Op::Return {
        of,
        kept,
        locks,
        last,
    }
}

fn kept(caller: Caller, op: &Op, lane: Option<Lane>, reply: &Reply) -> Kept {
    let made = match &reply.result {
        Ok(Answer::Opened(opened)) if opened.created => Some(opened.attr.ino),
        _ => None,
    };
    Kept {
        change: reply.change.unwrap(),
        lane: lane.unwrap(),
        caller,
        op: wire::op_bytes(op),
        made,
        layout: None,
    }
}

#[test]
fn a_proof_outlives_the_server_and_makes_a_change_that_is_said_again() {
    simulate(async {
        for seed in 0..8 {
            let house = Simulated::new(100 + seed);
            let life = start(&house).await;
            open_root(&life).await;
            let mut host = Host::enter(&life.mds).await;
            let of = life.mds.owner_epoch();
            let (lane, created) = host.reply(&owner(), creation("f")).await;
            let Ok(Answer::Opened(opened)) = &created.result else {
                panic!("{created:?}");
            };
            let (ino, proof) = (opened.attr.ino, given(opened, BOTH));
            let creation = kept(owner(), &creation("f"), lane, &created);
            let op = proven(proof, &write(ino, b"kept"));
            let (lane, wrote) = host.reply(&nobody(), op.clone()).await;
            let writing = kept(nobody(), &op, lane, &wrote);
            house.cut_power(&life.platform).await;

            let life = start(&house).await;
            host.mds = life.mds.clone();
            let back = comes_back(of, vec![creation, writing], vec![]);
            assert_eq!(host.ask(&nobody(), back).await, Ok(Answer::Done));
            assert_eq!(host.bytes(ino).await, b"kept");
            let more = proven(proof, &write(ino, b"more"));
            host.ask(&nobody(), more).await.unwrap();
            assert_eq!(host.bytes(ino).await, b"more");
            life.mds.stop().await.unwrap();
            house.kill(&life.platform).await;
        }
    });
}

#[test]
fn what_is_said_again_is_judged_like_what_is_said_first() {
    simulate(async {
        let house = Simulated::new(7);
        let life = start(&house).await;
        open_root(&life).await;
        let mut host = Host::enter(&life.mds).await;
        let opened = host.create("f").await;
        let (ino, proof) = (opened.attr.ino, given(&opened, BOTH));
        let op = proven(proof, &write(ino, b"ours"));
        let (lane, wrote) = host.reply(&nobody(), op).await;
        let mut liars = Vec::new();
        for _ in 0..5 {
            liars.push(Host::enter(&life.mds).await);
        }
        let of = life.mds.owner_epoch();
        house.kill(&life.platform).await;
        let life = start(&house).await;

        // Changes that were never made, by the sessions that say so: of a file that is not theirs, by a proof that is not, and
        // of a number that the server has still to give.
        let lane = lane.map(|lane| Lane {
            sequence: lane.sequence + 7,
            ..lane
        });
        let lie = |op: &Op| {
            let mut lie = kept(nobody(), op, lane, &wrote);
            lie.change.seq.0 += 1_000;
            lie
        };
        let set = gupfs_proto::meta::SetAttr {
            mode: Some(0o4777),
            ctime: Some(Default::default()),
            ..Default::default()
        };
        let mut made = lie(&creation("g"));
        made.made = Some(InodeId(ino.0 + 10_000_000));
        let lies = [
            lie(&write(ino, b"PWNED")),
            lie(&proven(proof, &write(ino, b"PWNED"))),
            lie(&Op::SetAttr { ino, set }),
            lie(&open(ino, Access::empty())),
            made,
        ];
        let mut returns = Vec::new();
        for (mut liar, lie) in liars.into_iter().zip(lies) {
            liar.mds = life.mds.clone();
            returns.push(tokio::spawn(async move {
                let back = comes_back(of, vec![lie], vec![]);
                liar.ask(&nobody(), back).await
            }));
        }
        host.mds = life.mds.clone();
        // Hidden beside a proof they would pass as whatever they say they are: nothing is said again so.
        let hidden = proven(proof, &comes_back(of, vec![lie(&write(ino, b"x"))], vec![]));
        let refused = host.ask(&nobody(), hidden).await;
        assert!(matches!(refused, Err(Refusal::Malformed(_))), "{refused:?}");
        // A lock on a file that is not proved to be open.
        let bare = comes_back(of, vec![], vec![lock(ino)]);
        assert_eq!(
            host.ask(&nobody(), bare.clone()).await,
            Err(Refusal::Denied)
        );
        assert_eq!(
            host.ask(&nobody(), proven(proof, &bare)).await,
            Ok(Answer::Done)
        );
        for returned in returns {
            let ended = returned.await.unwrap();
            assert_eq!(ended, Err(Refusal::SessionEnded));
        }
        assert_eq!(host.bytes(ino).await, b"ours");
        match host.ask(&owner(), Op::GetAttr { ino }).await {
            Ok(Answer::Attr(attr)) => assert_eq!(attr.mode.0, 0o600),
            other => panic!("{other:?}"),
        }
        life.mds.stop().await.unwrap();
    });
}
