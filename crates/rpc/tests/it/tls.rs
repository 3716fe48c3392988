//! Connections that are encrypted, and certificates that are not believed.

use crate::house::*;
use gupfs_platform::Net;
use gupfs_proto::capability::Warrant;
use gupfs_proto::data::{self, BlockSums, Existing, Op, Owner};
use gupfs_proto::{Generation, InodeId, MapEpoch, ObjectId, ObjectOffset, OstId, SessionId};
use gupfs_rpc::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::sync::Arc;
use std::time::Duration;

/// Who signs the certificates of a site.
struct Ca {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Certificate and key.
type Own = (String, String);

impl Ca {
    fn new() -> Ca {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Ca { pem, issuer }
    }

    fn sign(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Own {
        let mut params = CertificateParams::new(vec![name.to_string()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        (signed.pem(), key.serialize_pem())
    }

    fn own(&self, name: &str) -> Option<Own> {
        Some(self.sign(name, |_| {}))
    }

    fn tls(&self, own: Option<Own>, ask_clients: bool) -> Option<Tls> {
        let own = own.as_ref();
        let parts = TlsParts {
            ca: self.pem.as_bytes(),
            own: own.map(|(cert, key)| (cert.as_bytes(), key.as_bytes())),
            name: None,
            ask_clients,
        };
        Some(Tls::new(parts).unwrap())
    }
}

/// Says a write's bytes back.
struct Echo;

impl Service<data::Request, data::Reply> for Echo {
    async fn answer(self: Arc<Self>, question: data::Request) -> data::Reply {
        let Op::Write { data, .. } = question.op else {
            return Err(gupfs_proto::Refusal::NotSupported);
        };
        Ok(data::Answer::Data {
            data,
            sums: BlockSums::default(),
        })
    }
}

async fn echoing(net: &Net, tls: Option<Tls>) -> Server {
    Server::start(
        net.listen(AT).await.unwrap(),
        ServerOptions {
            platform: platform(1),
            me: me(1, Role::Oss),
            cluster: CLUSTER,
            key: key(9),
            clients: Arc::new(EveryClientKey),
            tls,
            hosts: Hosts::none().with(Arc::new(Echo)),
            attend: Arc::new(Unattended),
            capacity: Capacity::of_clients(64),
        },
    )
}

fn line(net: &Net, tls: Option<Tls>) -> Arc<Line> {
    let mut options = line_options(net, &platform(2), 20, key(9));
    options.tls = tls;
    Line::open(options)
}

fn write(bytes: Vec<u8>) -> data::Request {
    data::Request {
        session: SessionId(1),
        map_epoch: MapEpoch(1),
        job: 0,
        ost: OstId(0),
        warrant: Warrant::None,
        op: Op::Write {
            object: ObjectId {
                ino: InodeId(1),
                generation: Generation(1),
                stripe: 0,
            },
            at: ObjectOffset(0),
            data: bytes.into(),
            sums: BlockSums::default(),
            existing: Existing::Perhaps,
            owner: Owner::default(),
        },
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_over_tls_arrives_whole_in_both_directions() {
    let (net, ca) = (net(), Ca::new());
    let _server = echoing(&net.host("mds"), ca.tls(ca.own("mds"), true)).await;
    let line = line(&net.host("a"), ca.tls(ca.own("client"), false));
    line.ready(Duration::from_secs(5)).await.unwrap();
    let peer: Peer<data::Request, data::Reply> = line.peer();
    // Several at once, up to the longest: more than fits into any buffer on the way.
    let calls = [0usize, 1, 100, 70_000, 4 << 20, 4 << 20].map(|length| {
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let (peer, said) = (peer.clone(), bytes.clone());
        tokio::spawn(async move {
            let Ok(data::Answer::Data { data, .. }) = peer.call(write(said)).await else {
                panic!("no bytes");
            };
            assert!(data == bytes);
        })
    });
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(line.status().connections, 1, "none of them broke it");
}

#[tokio::test(start_paused = true)]
async fn who_is_not_believed_is_told_at_once_and_what_to_do() {
    let (ca, other) = (Ca::new(), Ca::new());
    let expired = ca.sign("mds", |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 2, 1);
    });
    let ours = || ca.own("mds");
    let trusting = ca.tls(None, false);
    let cases: [(&str, Option<Tls>, Option<Tls>, &str); 7] = [
        (
            "another CA's server",
            other.tls(other.own("mds"), false),
            trusting.clone(),
            "its certificate is not signed by our CA",
        ),
        (
            "another host's certificate",
            ca.tls(ca.own("elsewhere"), false),
            trusting.clone(),
            "its certificate is of another name",
        ),
        (
            "an expired certificate",
            ca.tls(Some(expired), false),
            trusting.clone(),
            "its certificate has expired: make a new one",
        ),
        (
            "a client without TLS",
            ca.tls(ours(), false),
            None,
            "this server speaks TLS alone",
        ),
        (
            "a server without TLS",
            None,
            trusting.clone(),
            "it speaks without TLS, and we speak TLS alone",
        ),
        (
            "a client without a certificate where all must have one",
            ca.tls(ours(), true),
            trusting,
            "it wants to see a certificate of ours",
        ),
        (
            "a client with another CA's certificate",
            ca.tls(ours(), true),
            ca.tls(other.own("client"), false),
            "it does not believe our certificate",
        ),
    ];
    for (what, server, client, why) in cases {
        let net = net();
        let server = echoing(&net.host("mds"), server).await;
        let begun = tokio::time::Instant::now();
        let line = line(&net.host("a"), client);
        let error = line.ready(Duration::from_secs(20)).await.unwrap_err();
        assert!(error.to_string().contains(why), "{what}: {error}");
        assert!(error.is_for_good(), "{what}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let status = server.status();
        assert!(status.turned_away > 0, "{what}: {status:?}");
        assert_eq!(status.connections.len(), 0, "{what}");
    }
}

#[test]
fn certificates_that_cannot_be_used_are_told_by_part() {
    let (ca, other) = (Ca::new(), Ca::new());
    let why = |ca: &str, own: Option<(&str, &str)>| {
        let parts = TlsParts {
            ca: ca.as_bytes(),
            own: own.map(|(cert, key)| (cert.as_bytes(), key.as_bytes())),
            name: None,
            ask_clients: false,
        };
        Tls::new(parts).unwrap_err().to_string()
    };
    let ((cert, key), (_, another)) = (ca.own("a").unwrap(), other.own("a").unwrap());
    assert_eq!(why("", None), "there is no CA in it");
    assert_eq!(
        why(&ca.pem, Some(("", &key))),
        "there is no certificate in it"
    );
    assert_eq!(why(&ca.pem, Some((&cert, &cert))), "there is no key in it");
    let wrong = why(&ca.pem, Some((&cert, &another)));
    assert_eq!(wrong, "the key is not the one of the certificate");
}
