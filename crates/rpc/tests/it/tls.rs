//! Encrypted connections, and certificates that a side rejects.

use crate::fixture::*;
use gupfs_platform::Net;
use gupfs_proto::capability::DataCredentials;
use gupfs_proto::data::{self, BlockChecksums, DataOp, ObjectExistence, ObjectOwner};
use gupfs_proto::{Generation, InodeId, MapEpoch, ObjectId, ObjectOffset, OstId, SessionId};
use gupfs_rpc::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::sync::Arc;
use std::time::Duration;

/// The certificate authority of a site.
pub struct Ca {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Certificate and key.
pub type CertifiedKey = (String, String);

impl Ca {
    pub fn new() -> Ca {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Ca { pem, issuer }
    }

    fn sign(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> CertifiedKey {
        let mut params = CertificateParams::new(vec![name.to_string()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        (signed.pem(), key.serialize_pem())
    }

    pub fn own(&self, name: &str) -> Option<CertifiedKey> {
        Some(self.sign(name, |_| {}))
    }

    pub fn tls(&self, own: Option<CertifiedKey>, ask_clients: bool) -> Option<TlsConfig> {
        let own = own.as_ref();
        let parts = TlsMaterial {
            ca: self.pem.as_bytes(),
            own: own.map(|(cert, key)| (cert.as_bytes(), key.as_bytes())),
            name: None,
            require_client_certificates: ask_clients,
        };
        Some(TlsConfig::new(parts).unwrap())
    }
}

/// Replies to a write with its bytes.
pub struct Echo;

impl Service<data::DataRequest, data::DataReply> for Echo {
    async fn handle(self: Arc<Self>, request: data::DataRequest) -> data::DataReply {
        let DataOp::Write { data, .. } = request.op else {
            return Err(gupfs_proto::FsError::NotSupported);
        };
        Ok(data::DataReplyBody::Data {
            data,
            checksums: BlockChecksums::default(),
        })
    }
}

pub async fn echoing(net: &Net, tls: Option<TlsConfig>) -> RpcServer {
    RpcServer::start(
        net.listen(ADDRESS).await.unwrap(),
        RpcServerOptions {
            platform: platform(1),
            identity: identity(1, Role::Oss),
            cluster: CLUSTER,
            key: key(9),
            client_keys: Arc::new(AcceptAllClientKeys),
            tls,
            handlers: Handlers::none().with_service(Arc::new(Echo)),
            observer: Arc::new(NoObserver),
            capacity: Capacity::for_clients(64),
            admission: Arc::new(AdmitAll),
            send_deadline: SendDeadline::none(),
        },
    )
}

fn connection(net: &Net, tls: Option<TlsConfig>) -> Arc<ClientConnection> {
    let mut options = connection_options(net, &platform(2), 20, key(9));
    options.tls = tls;
    ClientConnection::connect(options)
}

pub fn write(bytes: Vec<u8>) -> data::DataRequest {
    data::DataRequest {
        session: SessionId(1),
        map_epoch: MapEpoch(1),
        job: gupfs_proto::JobId(0),
        ost: OstId(0),
        credentials: DataCredentials::None,
        op: DataOp::Write {
            object: ObjectId {
                ino: InodeId(1),
                generation: Generation(1),
                stripe: 0,
            },
            at: ObjectOffset(0),
            data: bytes.into(),
            checksums: BlockChecksums::default(),
            existence: ObjectExistence::MayExist,
            owner: ObjectOwner::default(),
        },
    }
}

#[tokio::test(start_paused = true)]
async fn requests_and_replies_over_tls_arrive_complete() {
    let (net, ca) = (net(), Ca::new());
    let _server = echoing(&net.host("mds"), ca.tls(ca.own("mds"), true)).await;
    let connection = connection(&net.host("a"), ca.tls(ca.own("client"), false));
    connection
        .wait_connected(Duration::from_secs(5))
        .await
        .unwrap();
    let peer: Peer<data::DataRequest, data::DataReply> = connection.peer();
    // Several at once, up to the longest: more than fits into any buffer on the way.
    let calls = [0usize, 1, 100, 70_000, 4 << 20, 4 << 20].map(|length| {
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let (peer, sent) = (peer.clone(), bytes.clone());
        tokio::spawn(async move {
            let Ok(data::DataReplyBody::Data { data, .. }) = peer.call(write(sent)).await else {
                panic!("no bytes");
            };
            assert!(data == bytes);
        })
    });
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(
        connection.status().connections,
        1,
        "no request broke the connection"
    );
}

#[tokio::test(start_paused = true)]
async fn a_side_that_is_rejected_gets_the_reason_at_once() {
    let (ca, other) = (Ca::new(), Ca::new());
    let expired = ca.sign("mds", |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 2, 1);
    });
    let ours = || ca.own("mds");
    let trusting = ca.tls(None, false);
    let cases: [(&str, Option<TlsConfig>, Option<TlsConfig>, &str); 7] = [
        (
            "another CA's server",
            other.tls(other.own("mds"), false),
            trusting.clone(),
            "the peer's certificate is not signed by our CA",
        ),
        (
            "another host's certificate",
            ca.tls(ca.own("elsewhere"), false),
            trusting.clone(),
            "the peer's certificate has another name",
        ),
        (
            "an expired certificate",
            ca.tls(Some(expired), false),
            trusting.clone(),
            "the peer's certificate has expired: make a new one",
        ),
        (
            "a client without TLS",
            ca.tls(ours(), false),
            None,
            "this server requires TLS",
        ),
        (
            "a server without TLS",
            None,
            trusting.clone(),
            "the peer does not use TLS, and this process requires TLS",
        ),
        (
            "a client without a certificate where all must have one",
            ca.tls(ours(), true),
            trusting,
            "the server requires a client certificate",
        ),
        (
            "a client with another CA's certificate",
            ca.tls(ours(), true),
            ca.tls(other.own("client"), false),
            "the peer rejects our certificate",
        ),
    ];
    for (what, server, client, why) in cases {
        let net = net();
        let server = echoing(&net.host("mds"), server).await;
        let begun = tokio::time::Instant::now();
        let connection = connection(&net.host("a"), client);
        let error = connection
            .wait_connected(Duration::from_secs(20))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(why), "{what}: {error}");
        assert!(error.is_permanent(), "{what}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let status = server.status();
        assert!(status.rejected > 0, "{what}: {status:?}");
        assert_eq!(status.connections.len(), 0, "{what}");
    }
}

#[test]
fn an_unusable_certificate_error_names_the_part() {
    let (ca, other) = (Ca::new(), Ca::new());
    let why = |ca: &str, own: Option<(&str, &str)>| {
        let parts = TlsMaterial {
            ca: ca.as_bytes(),
            own: own.map(|(cert, key)| (cert.as_bytes(), key.as_bytes())),
            name: None,
            require_client_certificates: false,
        };
        TlsConfig::new(parts).unwrap_err().to_string()
    };
    let ((cert, key), (_, another)) = (ca.own("a").unwrap(), other.own("a").unwrap());
    assert_eq!(why("", None), "found no CA in the PEM data");
    assert_eq!(
        why(&ca.pem, Some(("", &key))),
        "found no certificate in the PEM data"
    );
    assert_eq!(
        why(&ca.pem, Some((&cert, &cert))),
        "found no key in the PEM data"
    );
    let wrong = why(&ca.pem, Some((&cert, &another)));
    assert_eq!(wrong, "the private key does not belong to the certificate");
}
