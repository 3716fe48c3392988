//! # fuzzing: what the programs of `fuzz/` reach
//!
//! Owns   a way to send any bytes over a connection whose handshake is over.
//! Never  in a build that is neither a test nor made by cargo-fuzz.
//! Enter  at `after_handshake`.

use crate::frame::{Flags, HEAD, pack};
use crate::handshake::{Myself, Role, Wish, greet_in, offered};
use crate::limits::{FRAME, SILENCE};
use crate::link::Link;
use crate::{
    Capacity, ClusterKey, EveryClientKey, Hosts, Line, LineOptions, Peer, Server, ServerOptions,
    Service, Unattended,
};
use gupfs_platform::Platform;
use gupfs_platform::fake::{FakeNet, FakeWorld};
use gupfs_proto::meta::{self, Op};
use gupfs_proto::wire::{Kind, Message};
use gupfs_proto::{Caller, ClusterId, MapEpoch, OwnerEpoch, Seq, SessionId, data};
use std::sync::Arc;
use std::time::Duration;

const AT: &str = "server:1";

struct Anything;

impl Service<meta::Request, meta::Reply> for Anything {
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

impl Service<data::Request, data::Reply> for Anything {
    async fn answer(self: Arc<Self>, _: data::Request) -> data::Reply {
        Ok(data::Answer::Done)
    }
}

fn question() -> meta::Request {
    meta::Request {
        session: SessionId(1),
        lane: None,
        caller: Caller::root(),
        job: 0,
        life: OwnerEpoch(0),
        seen: Seq(0),
        op: Op::StatFs,
    }
}

fn me(who: u128) -> Myself {
    Myself {
        who,
        role: Role::Client,
        name: format!("host{who}"),
    }
}

fn key() -> ClusterKey {
    ClusterKey::new([9; 32])
}

/// Frames whose sums are right whatever they hold: else hardly any input would get behind the sums. A body that is announced
/// longer than the rest of the input is cut to it; payloads stay as announced.
pub fn mend(bytes: &[u8]) -> Vec<u8> {
    let mut mended = Vec::new();
    let mut rest = bytes;
    while let Some((head, tail)) = rest.split_first_chunk::<HEAD>() {
        let mut head = *head;
        let announced = u32::from_le_bytes([head[16], head[17], head[18], head[19]]) as usize;
        let (body, tail) = tail.split_at(announced.min(tail.len()));
        head[..4].copy_from_slice(b"gpf1");
        head[16..20].copy_from_slice(&(body.len() as u32).to_le_bytes());
        head[24..28].copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
        let sum = crc32c::crc32c(&head[..28]);
        head[28..].copy_from_slice(&sum.to_le_bytes());
        mended.extend_from_slice(&head);
        mended.extend_from_slice(body);
        rest = tail;
    }
    mended.extend_from_slice(rest);
    mended
}

/// Sends these bytes as somebody with the key, and is served beside that and after it. To be run in paused time.
///
/// # Panics
/// When the server does not serve any more, or holds what was announced after the connection is over.
pub async fn after_handshake(bytes: &[u8]) {
    let net = FakeNet::new(3, (Duration::from_micros(50), Duration::from_micros(300)));
    let platform = FakeWorld::new(1).platform();
    let listener = net.host("server").listen(AT).await;
    let anything = Arc::new(Anything);
    let options = ServerOptions {
        platform: platform.clone(),
        me: me(1),
        cluster: ClusterId(7),
        key: Some(key()),
        clients: Arc::new(EveryClientKey),
        tls: None,
        hosts: Hosts::none()
            .with::<meta::Request, meta::Reply, _>(anything.clone())
            .with::<data::Request, data::Reply, _>(anything),
        attend: Arc::new(Unattended),
        capacity: Capacity::of_clients(64),
    };
    let server = Server::start(listener.expect("nobody has this address"), options);
    let net = net.host("a");
    let stream = net.connect(AT).await.expect("the server listens");
    let link = Arc::new(Link::new(stream, platform.clock.clone()));
    let mut reader = link.reader();
    let wish = Wish {
        number: 1,
        cluster: None,
        key: Some(&key().into()),
        fenced: false,
    };
    // As a peer of LINK 1, whose frames have no code: no input would get behind that.
    let former = |(kind, oldest, newest): (u16, u8, u8)| match Kind(kind) {
        Kind::LINK => (kind, 1, 1),
        _ => (kind, oldest, newest),
    };
    let offers = offered().into_iter().map(former).collect();
    greet_in(&link, &mut reader, &platform.dice, &me(5), wish, offers)
        .await
        .expect("somebody with the key is welcome");
    link.send_raw(bytes.to_vec());
    let beside = serves(&net, &platform, 6);
    let hear = async { while reader.next(crate::frame::Limits::AMONG_US).await.is_ok() {} };
    let all = tokio::time::timeout(FRAME + SILENCE, hear);
    tokio::join!(beside, async {
        tokio::select! {
            _ = all => {}
            () = link.flush() => {}
        }
    });
    link.close();
    serves(&net, &platform, 7).await;
    platform.clock.sleep(SILENCE * 2).await;
    let status = server.status();
    assert_eq!(
        (status.payload, status.questions, status.connections.len()),
        (0, 0, 0)
    );
}

async fn serves(net: &gupfs_platform::Net, platform: &Platform, who: u128) {
    let line = Line::open(LineOptions {
        to: AT.into(),
        whom: "the server".into(),
        net: net.clone(),
        platform: platform.clone(),
        me: me(who),
        cluster: None,
        key: Some(key().into()),
        tls: None,
        patience: Some(Duration::from_secs(20)),
        fence: false,
        hosts: Hosts::none(),
    });
    let peer: Peer<meta::Request, meta::Reply> = line.peer();
    assert_eq!(peer.call(question()).await.result, Ok(meta::Answer::Done));
}

/// Frames to begin with: a question, an answer, a sign of life, two at once.
pub fn samples() -> Vec<Vec<u8>> {
    let frame = |kind: Kind, flags| {
        let message = question().write();
        let packed = pack(kind, flags, 1, message).expect("it is short");
        packed.front().to_vec()
    };
    let whole = frame(Kind::META, Flags::empty());
    let both = [whole.clone(), frame(Kind::DATA, Flags::empty())].concat();
    let answer = frame(Kind::META, Flags::ANSWER);
    vec![
        whole,
        both,
        answer,
        frame(Kind::LINK, Flags::empty()),
        Vec::new(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_sample_leaves_a_server_that_serves() {
        for sample in samples() {
            after_handshake(&sample).await;
            assert_eq!(mend(&sample), sample);
        }
    }
}
