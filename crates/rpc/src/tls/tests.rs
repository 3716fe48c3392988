//! A man in the middle that has a certificate of the site but not the cluster key.

use super::*;
use crate::framed_stream::FramedStream;
use crate::handshake::{
    Acceptor, HandshakeError, HandshakeOptions, LocalIdentity, RejectReason, Role,
    connect_handshake,
};
use crate::key::ClusterKey;
use crate::server_addresses::ServerAddresses;
use bytes::BytesMut;
use gupfs_platform::fake::{FakeNet, FakePlatform};
use gupfs_platform::{Net, Platform};
use gupfs_proto::ClusterId;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::io::IoSlice;
use std::time::Duration;

/// TLS with a server certificate that is valid for both hosts.
fn tls() -> TlsConfig {
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().unwrap();
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let names = ["server".to_string(), "between".to_string()];
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::new(ca, ca_key);
    let params = CertificateParams::new(names).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    TlsConfig::new(TlsMaterial {
        ca: ca_pem.as_bytes(),
        own: Some((certificate.as_bytes(), key.serialize_pem().as_bytes())),
        name: None,
        require_client_certificates: false,
    })
    .unwrap()
}

fn identity(process_id: u128, role: Role) -> LocalIdentity {
    let name = format!("host{process_id}");
    LocalIdentity {
        process_id,
        role,
        name,
    }
}

async fn client(
    net: Net,
    platform: Platform,
    tls: TlsConfig,
    to: &str,
) -> Result<(), HandshakeError> {
    let pipe = MaybeTlsStream::tls(net.connect(to).await.unwrap(), tls.connect(to).unwrap());
    let framed = Arc::new(FramedStream::new(pipe, platform.clock.clone()));
    let key = ClusterKey::new([9; 32]).into();
    let options = HandshakeOptions {
        number: 1,
        cluster: None,
        key: Some(&key),
        fenced: false,
    };
    let me = identity(2, Role::Client);
    let mut reader = framed.reader();
    let server = async {
        let proven = connect_handshake(&framed, &mut reader, &platform.random, &me, options);
        let addresses = ServerAddresses::one(to);
        let proven = proven.await?;
        proven
            .receive_verdict(&framed, &mut reader, &addresses)
            .await
    };
    let server = server.await;
    framed.close();
    server.map(drop)
}

async fn server(net: Net, platform: Platform, tls: TlsConfig) -> Result<(), RejectReason> {
    let stream = net
        .listen("server:1")
        .await
        .unwrap()
        .accept()
        .await
        .unwrap();
    let pipe = MaybeTlsStream::tls(stream, tls.accept().unwrap());
    let framed = Arc::new(FramedStream::new(pipe, platform.clock.clone()));
    let acceptor = Acceptor {
        identity: identity(1, Role::Mds),
        cluster: ClusterId(7),
        key: Some(ClusterKey::new([9; 32])),
        client_keys: Arc::new(crate::AcceptAllClientKeys),
    };
    let accepted = acceptor
        .accept_handshake(&framed, &mut framed.reader(), &platform.random)
        .await;
    if let Ok(accepted) = &accepted {
        crate::handshake::send_welcome(&framed, accepted, &[]);
    }
    accepted.map(drop)
}

/// The man in the middle: decrypts and re-encrypts all bytes.
async fn between(net: Net, tls: TlsConfig) {
    let stream = net
        .listen("between:1")
        .await
        .unwrap()
        .accept()
        .await
        .unwrap();
    let client_side = MaybeTlsStream::tls(stream, tls.accept().unwrap());
    let stream = net.connect("server:1").await.unwrap();
    let server_side = MaybeTlsStream::tls(stream, tls.connect("server:1").unwrap());
    tokio::join!(
        forward(&client_side, &server_side),
        forward(&server_side, &client_side)
    );
}

async fn forward(from: &MaybeTlsStream, to: &MaybeTlsStream) {
    loop {
        let mut bytes = BytesMut::with_capacity(1 << 16);
        match from.read(&mut bytes).await {
            Ok(0) | Err(_) => return to.close(),
            Ok(_) => {}
        }
        let _ = to.try_write(&[IoSlice::new(&bytes)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_man_in_the_middle_with_a_valid_certificate_cannot_forward_the_proofs() {
    let net = || FakeNet::new(3, (Duration::from_micros(50), Duration::from_micros(300)));
    let (platform, tls) = (FakePlatform::new(1).platform(), tls());
    // Without the man in the middle the handshake succeeds.
    let direct = net();
    let serving = server(direct.host("server"), platform.clone(), tls.clone());
    let serving = tokio::spawn(serving);
    tokio::task::yield_now().await;
    let handshake = client(direct.host("a"), platform.clone(), tls.clone(), "server:1").await;
    assert!(handshake.is_ok(), "{handshake:?}");
    assert!(serving.await.unwrap().is_ok());
    // With it the handshake fails.
    let intercepted = net();
    let serving = tokio::spawn(server(
        intercepted.host("server"),
        platform.clone(),
        tls.clone(),
    ));
    let between = tokio::spawn(between(intercepted.host("between"), tls.clone()));
    tokio::task::yield_now().await;
    let handshake = client(intercepted.host("a"), platform, tls, "between:1").await;
    assert!(
        matches!(handshake, Err(HandshakeError::ServerNotProven)),
        "{handshake:?}"
    );
    assert!(serving.await.unwrap().is_err());
    between.abort();
}
