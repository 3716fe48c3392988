//! Somebody in the middle, who has a certificate of the site and not the cluster's key.

use super::*;
use crate::handshake::{GreetError, Myself, Porter, Role, Turned, Wish, greet};
use crate::key::ClusterKey;
use crate::link::Link;
use bytes::BytesMut;
use gupfs_platform::fake::{FakeNet, FakeWorld};
use gupfs_platform::{Net, Platform};
use gupfs_proto::ClusterId;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::io::IoSlice;
use std::time::Duration;

/// One whose server's certificate is good for both hosts.
fn tls() -> Tls {
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().unwrap();
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let names = ["server".to_string(), "between".to_string()];
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::new(ca, ca_key);
    let params = CertificateParams::new(names).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    Tls::new(TlsParts {
        ca: ca_pem.as_bytes(),
        own: Some((certificate.as_bytes(), key.serialize_pem().as_bytes())),
        name: None,
        ask_clients: false,
    })
    .unwrap()
}

fn me(who: u128, role: Role) -> Myself {
    let name = format!("host{who}");
    Myself { who, role, name }
}

async fn client(net: Net, platform: Platform, tls: Tls, to: &str) -> Result<(), GreetError> {
    let pipe = Pipe::tls(net.connect(to).await.unwrap(), tls.connect(to).unwrap());
    let link = Arc::new(Link::new(pipe, platform.clock.clone()));
    let key = ClusterKey::new([9; 32]).into();
    let wish = Wish {
        number: 1,
        cluster: None,
        key: Some(&key),
        fenced: false,
    };
    let me = me(2, Role::Client);
    let met = greet(&link, &mut link.reader(), &platform.dice, &me, wish).await;
    link.close();
    met.map(drop)
}

async fn server(net: Net, platform: Platform, tls: Tls) -> Result<(), Turned> {
    let stream = net
        .listen("server:1")
        .await
        .unwrap()
        .accept()
        .await
        .unwrap();
    let pipe = Pipe::tls(stream, tls.accept().unwrap());
    let link = Arc::new(Link::new(pipe, platform.clock.clone()));
    let porter = Porter {
        me: me(1, Role::Mds),
        cluster: ClusterId(7),
        key: Some(ClusterKey::new([9; 32])),
        clients: Arc::new(crate::EveryClientKey),
    };
    let guest = porter
        .receive(&link, &mut link.reader(), &platform.dice)
        .await;
    if let Ok(guest) = &guest {
        crate::handshake::welcome(&link, guest);
    }
    guest.map(drop)
}

/// Decrypts and encrypts again all that passes.
async fn between(net: Net, tls: Tls) {
    let stream = net
        .listen("between:1")
        .await
        .unwrap()
        .accept()
        .await
        .unwrap();
    let near = Pipe::tls(stream, tls.accept().unwrap());
    let stream = net.connect("server:1").await.unwrap();
    let far = Pipe::tls(stream, tls.connect("server:1").unwrap());
    tokio::join!(pass(&near, &far), pass(&far, &near));
}

async fn pass(from: &Pipe, to: &Pipe) {
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
async fn who_sits_between_two_with_a_right_certificate_cannot_pass_on_their_proofs() {
    let net = || FakeNet::new(3, (Duration::from_micros(50), Duration::from_micros(300)));
    let (platform, tls) = (FakeWorld::new(1).platform(), tls());
    // Straight, they meet.
    let straight = net();
    let serving = server(straight.host("server"), platform.clone(), tls.clone());
    let serving = tokio::spawn(serving);
    tokio::task::yield_now().await;
    let met = client(
        straight.host("a"),
        platform.clone(),
        tls.clone(),
        "server:1",
    )
    .await;
    assert!(met.is_ok(), "{met:?}");
    assert!(serving.await.unwrap().is_ok());
    // Through somebody else, they do not.
    let bent = net();
    let serving = tokio::spawn(server(bent.host("server"), platform.clone(), tls.clone()));
    let between = tokio::spawn(between(bent.host("between"), tls.clone()));
    tokio::task::yield_now().await;
    let met = client(bent.host("a"), platform, tls, "between:1").await;
    assert!(matches!(met, Err(GreetError::Impostor)), "{met:?}");
    assert!(serving.await.unwrap().is_err());
    between.abort();
}
