//! Tests with bytes that no program of ours sends, over the server as it is.

use super::*;
use crate::EveryClientKey;
use crate::code::CODE;
use crate::frame::{Flags, HEAD, pack};
use crate::handshake::{Role, Wish, greet_in, offered};
use crate::limits::SILENCE;
use crate::link::{Link, Reader};
use crate::{Line, LineOptions};
use bytes::Bytes;
use gupfs_platform::Net;
use gupfs_platform::fake::{FakeNet, FakeWorld};
use gupfs_proto::limits::{BODY_MAX, PAYLOAD_MAX};
use gupfs_proto::meta::{self, Op};
use gupfs_proto::wire::{Kind, Message, Written};
use gupfs_proto::{MapEpoch, Seq, SessionId};
use proptest::prelude::*;
use std::time::Duration;

const AT: &str = "server:1";

struct Answering;

impl crate::Service<meta::Request, meta::Reply> for Answering {
    async fn answer(self: Arc<Self>, _: meta::Request) -> meta::Reply {
        meta::Reply {
            seq: Seq(1),
            durable: Seq(1),
            map_epoch: MapEpoch(1),
            change: None,
            result: Ok(meta::Answer::Done),
        }
    }
}

fn key() -> ClusterKey {
    ClusterKey::new([9; 32])
}

fn me(who: u128) -> Myself {
    let (role, name) = (Role::Client, format!("host{who}"));
    Myself { who, role, name }
}

fn question() -> meta::Request {
    meta::Request {
        session: SessionId(1),
        lane: None,
        caller: gupfs_proto::Caller::root(),
        job: 0,
        life: gupfs_proto::OwnerEpoch(0),
        seen: Seq(0),
        op: Op::StatFs,
    }
}

/// A server, and a host that is not as it should be.
struct House {
    platform: Platform,
    net: Net,
    server: Server,
    /// Connections that the host has made.
    made: u64,
}

impl House {
    async fn new() -> House {
        let net = FakeNet::new(3, (Duration::from_micros(50), Duration::from_micros(300)));
        let platform = FakeWorld::new(1).platform();
        let options = ServerOptions {
            platform: platform.clone(),
            me: me(1),
            cluster: ClusterId(7),
            key: Some(key()),
            clients: Arc::new(EveryClientKey),
            tls: None,
            hosts: Hosts::none().with(Arc::new(Answering)),
            attend: Arc::new(Unattended),
            capacity: Capacity::of_clients(1_000),
        };
        let listener = net.host("server").listen(AT).await.unwrap();
        House {
            platform,
            net: net.host("a"),
            server: Server::start(listener, options),
            made: 0,
        }
    }

    /// Somebody with the key, up to the welcome.
    async fn enter(&mut self) -> (Arc<Link>, Reader) {
        self.enter_as(5).await
    }

    async fn enter_as(&mut self, who: u128) -> (Arc<Link>, Reader) {
        self.enter_in(who, offered()).await
    }

    async fn enter_in(&mut self, who: u128, offers: Vec<(u16, u8, u8)>) -> (Arc<Link>, Reader) {
        self.made += 1;
        let stream = self.net.connect(AT).await.unwrap();
        let link = Arc::new(Link::new(stream, self.platform.clock.clone()));
        let mut reader = link.reader();
        let wish = Wish {
            number: self.made,
            cluster: None,
            key: Some(&key().into()),
            fenced: false,
        };
        let dice = &self.platform.dice;
        (greet_in(&link, &mut reader, dice, &me(who), wish, offers).await).unwrap();
        (link, reader)
    }

    /// The connection comes to its end, soon and with a reason that is kept.
    async fn sees_the_end_of(&self, link: &Link, reader: &mut Reader) {
        let ended = async { while reader.next(crate::frame::Limits::AMONG_US).await.is_ok() {} };
        tokio::time::timeout(SILENCE * 2, ended).await.unwrap();
        link.close();
    }

    /// Whatever happened, others are served.
    async fn serves_others(&self) {
        let line = Line::open(LineOptions {
            to: AT.into(),
            whom: "the server".into(),
            net: self.net.clone(),
            platform: self.platform.clone(),
            me: me(6),
            cluster: None,
            key: Some(key().into()),
            tls: None,
            patience: Some(Duration::from_secs(20)),
            fence: false,
            hosts: Hosts::none(),
        });
        let reply: meta::Reply = line.peer().call(question()).await;
        assert_eq!(reply.result, Ok(meta::Answer::Done));
    }
}

/// A right frame with these bytes of its head changed, and the head's checksum right again. Its code is to be put behind it.
fn frame(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let packed = pack(Kind::META, Flags::empty(), 1, question().write()).unwrap();
    let mut bytes = packed.start(CODE).to_vec();
    change(&mut bytes);
    let sum = crc32c::crc32c(&bytes[..28]);
    bytes[28..HEAD].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(test);
}

#[test]
fn frames_of_another_version_too_long_or_of_no_kind_end_the_connection_with_a_reason() {
    run(async {
        let mut house = House::new().await;
        let longer = |max: u64| (max as u32 + 1).to_le_bytes();
        let (body, payload) = (longer(BODY_MAX.0 + CODE as u64), longer(PAYLOAD_MAX.0));
        let newer = format!("version {}, as nobody agreed", Kind::META.newest() + 1);
        let tried: [(Vec<u8>, &str); 7] = [
            (frame(|it| it[4] = Kind::META.newest() + 1), &newer),
            (frame(|it| it[4] = 1), "version 1, as nobody agreed"),
            (frame(|it| it[6] = 99), "kind 99"),
            (frame(|it| it[5] = 0x80), "flags that are not known"),
            (
                frame(|it| it[16..20].copy_from_slice(&body)),
                "its body has",
            ),
            (
                frame(|it| it[20..24].copy_from_slice(&payload)),
                "its payload has",
            ),
            (frame(|it| it[24] ^= 1), "the checksum of its body"),
        ];
        for (number, (bytes, why)) in tried.into_iter().enumerate() {
            let (link, mut reader) = house.enter().await;
            link.send_sealed(bytes);
            house.sees_the_end_of(&link, &mut reader).await;
            let status = house.server.status();
            let last = status.last_misspoken.unwrap_or_default();
            assert!(last.contains(why), "{last} instead of {why}");
            assert_eq!(status.misspoken, number as u64 + 1);
        }
        house.serves_others().await;
    });
}

#[test]
fn a_body_that_is_no_message_is_refused_and_what_follows_is_answered() {
    run(async {
        let mut house = House::new().await;
        let (link, mut reader) = house.enter().await;
        let nonsense = Written {
            since: 6,
            body: vec![0xff; 1_000],
            payload: Bytes::new(),
        };
        for message in [nonsense, question().write()] {
            link.send(pack(Kind::META, Flags::empty(), 1, message).unwrap());
        }
        let limits = crate::frame::Limits::AMONG_US;
        let refused = reader.next(limits).await.unwrap();
        let reply = meta::Reply::read(&refused.body, refused.payload).unwrap();
        let malformed = matches!(reply.result, Err(gupfs_proto::Refusal::Malformed(_)));
        assert!(malformed, "{reply:?}");
        let answered = reader.next(limits).await.unwrap();
        let reply = meta::Reply::read(&answered.body, answered.payload).unwrap();
        assert_eq!(reply.result, Ok(meta::Answer::Done));
    });
}

#[test]
fn a_peer_of_a_former_version_is_answered_in_it() {
    run(async {
        let mut house = House::new().await;
        let former = |(kind, oldest, newest): (u16, u8, u8)| match Kind(kind) {
            Kind::META => (kind, 6, 6),
            _ => (kind, oldest, newest),
        };
        let offers = offered().into_iter().map(former).collect();
        let (link, mut reader) = house.enter_in(5, offers).await;
        link.send(pack(Kind::META, Flags::empty(), 1, question().write()).unwrap());
        let answered = reader.next(crate::frame::Limits::AMONG_US).await.unwrap();
        assert_eq!((answered.head.version, answered.head.id), (6, 1));
        let reply = meta::Reply::read(&answered.body, answered.payload).unwrap();
        assert_eq!(reply.result, Ok(meta::Answer::Done));
        // Nor does the peer speak a newer version than it offered.
        link.send_sealed(frame(|it| it[4] = 7));
        house.sees_the_end_of(&link, &mut reader).await;
        let last = house.server.status().last_misspoken.unwrap_or_default();
        assert!(last.contains("version 7, as nobody agreed"), "{last}");
    });
}

/// A frame of the greatest length without its end.
fn unfinished() -> Vec<u8> {
    let payload = PAYLOAD_MAX.0 as u32;
    let mut bytes = frame(|it| {
        it[20..24].copy_from_slice(&payload.to_le_bytes());
    });
    bytes.resize(bytes.len() + 1_000, 0);
    bytes
}

#[test]
fn bytes_count_when_they_are_announced_and_a_frame_without_an_end_is_given_up() {
    run(async {
        let mut house = House::new().await;
        let mut links = Vec::new();
        let announced = unfinished().len() - 1_000 - HEAD + CODE + PAYLOAD_MAX.0 as usize;
        // More than one host may announce: whose frames have no room keeps its connection, and holds nothing.
        let most = crate::limits::PAYLOAD_OF_HOST / announced;
        for who in 0..most as u128 + 10 {
            let (link, reader) = house.enter_as(100 + who).await;
            link.send_raw(unfinished());
            links.push((link, reader));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(house.server.status().payload, most * announced);
        house.serves_others().await;
        // Signs of life do not keep such a connection: between the bytes of a frame there are none.
        let more = async {
            loop {
                tokio::time::sleep(Duration::from_secs(2)).await;
                links
                    .iter()
                    .for_each(|(link, _)| link.send_raw(vec![0; 10]));
            }
        };
        let patience = crate::limits::FRAME + SILENCE;
        let _ = tokio::time::timeout(patience, more).await;
        let status = house.server.status();
        assert_eq!((status.payload, status.connections.len()), (0, 0));
    });
}

#[test]
fn what_there_is_no_room_for_is_read_past_and_answered_busy() {
    run(async {
        let mut house = House::new().await;
        let whole = |length: usize| {
            let message = Written {
                since: 6,
                body: vec![0xff; length],
                payload: Bytes::from(vec![7; PAYLOAD_MAX.0 as usize]),
            };
            pack(Kind::META, Flags::empty(), 9, message).unwrap()
        };
        let mut links = Vec::new();
        let most = crate::limits::PAYLOAD_OF_HOST / PAYLOAD_MAX.0 as usize;
        for who in 0..most as u128 {
            let (link, reader) = house.enter_as(100 + who).await;
            link.send_raw(unfinished());
            links.push((link, reader));
        }
        let (link, mut reader) = house.enter_as(99).await;
        link.send(whole(100));
        let flushing = link.clone();
        let flushing = tokio::spawn(async move { flushing.flush().await });
        let limits = crate::frame::Limits::AMONG_US;
        let busy = reader.next(limits).await.unwrap();
        assert_eq!(
            (busy.head.flags, busy.head.id),
            (Flags::ANSWER | Flags::BUSY, 9)
        );
        link.send(pack(Kind::META, Flags::empty(), 10, question().write()).unwrap());
        let answered = reader.next(limits).await.unwrap();
        assert_eq!((answered.head.flags, answered.head.id), (Flags::ANSWER, 10));
        flushing.abort();
    });
}

#[test]
fn a_peer_of_the_former_handshake_is_a_client_whose_root_is_nobody() {
    run(async {
        let mut house = House::new().await;
        let former: Vec<_> = (offered().into_iter())
            .map(|(kind, oldest, newest)| match Kind(kind) {
                Kind::LINK => (kind, 1, 1),
                _ => (kind, oldest, newest),
            })
            .collect();
        let (link, mut reader) = house.enter_in(5, former.clone()).await;
        link.send(pack(Kind::META, Flags::empty(), 1, question().write()).unwrap());
        let answered = reader.next(crate::frame::Limits::AMONG_US).await.unwrap();
        let reply = meta::Reply::read(&answered.body, answered.payload).unwrap();
        assert_eq!(reply.result, Ok(meta::Answer::Done));
        let met = house.server.callers()[0].met().clone();
        assert_eq!(
            (&met.key, met.key.root_counts()),
            (&crate::KeyKind::Former, false)
        );
        for role in [Role::Mds, Role::Oss] {
            let stream = house.net.connect(AT).await.unwrap();
            let link = Arc::new(Link::new(stream, house.platform.clock.clone()));
            let key = key().into();
            let wish = Wish {
                number: 9,
                cluster: None,
                key: Some(&key),
                fenced: false,
            };
            let (dice, me) = (&house.platform.dice, Myself { role, ..me(5) });
            let met = greet_in(&link, &mut link.reader(), dice, &me, wish, former.clone()).await;
            let why = met.unwrap_err().to_string();
            assert!(why.contains("a server proves the cluster's key"), "{why}");
        }
    });
}

#[test]
fn frames_without_the_code_of_their_place_end_the_connection() {
    run(async {
        let mut house = House::new().await;
        // Each with the numbers that its frames have codes of; None for one without a code.
        let tried: [&[Option<u64>]; 5] = [
            &[None],
            &[Some(1)],
            &[Some(0), Some(0)],
            &[Some(0), Some(2)],
            &[Some(0), None],
        ];
        for (at, numbers) in tried.into_iter().enumerate() {
            let (link, mut reader) = house.enter().await;
            let frames = numbers.iter().flat_map(|number| match number {
                Some(number) => link.sealed(*number, frame(|_| {})),
                None => pack(Kind::META, Flags::empty(), 1, question().write())
                    .unwrap()
                    .front()
                    .to_vec(),
            });
            link.send_raw(frames.collect());
            house.sees_the_end_of(&link, &mut reader).await;
            let status = house.server.status();
            let last = status.last_misspoken.unwrap_or_default();
            assert!(last.contains("its code is wrong"), "{numbers:?}: {last}");
            assert_eq!(status.misspoken, at as u64 + 1);
        }
        // The codes of one connection are not those of another.
        let (first, _) = house.enter().await;
        let theirs = first.sealed(0, frame(|_| {}));
        let (link, mut reader) = house.enter().await;
        link.send_raw(theirs);
        house.sees_the_end_of(&link, &mut reader).await;
        assert_eq!(house.server.status().misspoken, tried.len() as u64 + 1);
        house.serves_others().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// Before the key was shown, and after.
    #[test]
    fn bytes_of_chance_end_a_connection_and_nothing_else(
        is_known: bool,
        start in 0usize..3,
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        flips in proptest::collection::vec((0usize..400, any::<u8>()), 0..6),
        cut in 0usize..400,
    ) {
        run(async {
            let mut house = House::new().await;
            let (link, mut reader) = match is_known {
                true => house.enter().await,
                false => {
                    let stream = house.net.connect(AT).await.unwrap();
                    let link = Arc::new(Link::new(stream, house.platform.clock.clone()));
                    let reader = link.reader();
                    (link, reader)
                }
            };
            // Nothing right, a right frame with changes, a right head with chance behind it.
            let mut said = match start {
                0 => bytes.clone(),
                1 => frame(|_| {}),
                _ => frame(|it| it[16..18].copy_from_slice(&[bytes.len() as u8, (bytes.len() >> 8) as u8])),
            };
            match start {
                0 => {}
                1 => {
                    for (at, by) in flips {
                        let length = said.len();
                        said[at % length] ^= by;
                    }
                    said.truncate(cut.max(1));
                }
                _ => {
                    said.truncate(HEAD);
                    said.extend_from_slice(&bytes);
                }
            }
            link.send_raw(said);
            house.sees_the_end_of(&link, &mut reader).await;
            house.serves_others().await;
        });
    }
}

/// More with GUPFS_HOSTILE_CASES: `scripts/fuzz.sh wire`.
fn cases() -> u32 {
    let set = std::env::var("GUPFS_HOSTILE_CASES");
    set.map_or(64, |set| set.parse().expect("a number"))
}
