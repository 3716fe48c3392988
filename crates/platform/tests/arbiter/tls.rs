//! The contract on an etcd that requires TLS and client certificates, and what is said of those that do not fit.

use super::certificates::Certificates;
use super::contract::{TwoHosts, check_all};
use super::members::{EtcdMembers, start_secured};
use gupfs_platform::arbiter::{ArbiterError, EtcdOptions, EtcdTls};
use gupfs_platform::{Arbiter, Clock};
use std::time::{Duration, Instant};

const QUOTA: u64 = 64 << 20;

fn host(options: EtcdOptions) -> Arbiter {
    Arbiter::etcd(options, Clock::real())
}

#[tokio::test]
async fn one_member_with_client_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(&dir.path().join("ours"));
    let Some(members) = start_secured(1, QUOTA, certificates) else {
        return;
    };
    check_all(|number| {
        let options = members.options(&format!("/tls/{number}"));
        let two = TwoHosts {
            hosts: [host(options.clone()), host(options)],
            clock: Clock::real(),
            ends_by_time: true,
        };
        async move { two }
    })
    .await;
}

/// The error of a call with this TLS, to the member at this address.
async fn refused(members: &EtcdMembers, tls: Option<EtcdTls>, address: &str) -> ArbiterError {
    let options = EtcdOptions {
        endpoints: vec![address.to_owned()],
        tls,
        ..members.options("/refused")
    };
    let begun = Instant::now();
    let read = host(options).read().await;
    assert!(begun.elapsed() < Duration::from_secs(2));
    match read {
        Ok(state) => panic!("{state:?}"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn certificates_that_do_not_fit_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let ours = Certificates::make(&dir.path().join("ours"));
    let theirs = Certificates::make(&dir.path().join("theirs"));
    let Some(members) = start_secured(1, QUOTA, ours.clone()) else {
        return;
    };
    let (good, url) = (ours.tls(), members.url(0));
    let check = async |tls: EtcdTls, address: &str, parts: &[&str]| {
        // Several times: what is said does not depend on how fast a connection ends.
        for _ in 0..5 {
            let error = refused(&members, Some(tls.clone()), address).await;
            let why = match &error {
                ArbiterError::Refused(why) => why,
                // A member's alert may be lost when it ends the connection.
                ArbiterError::Unavailable(why) if why.contains("etcd ends connections so") => why,
                error => panic!("{error:?}"),
            };
            assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        }
    };
    let wrong_ca = EtcdTls {
        ca: theirs.tls().ca,
        ..good.clone()
    };
    let file = theirs.ca().display().to_string();
    check(wrong_ca, &url, &["is not signed by the CA in", &file]).await;
    let none = EtcdTls {
        own: None,
        ..good.clone()
    };
    check(none, &url, &["requires a client certificate"]).await;
    let foreign = EtcdTls {
        own: theirs.tls().own,
        ..good.clone()
    };
    let file = theirs.cert().display().to_string();
    check(foreign, &url, &["not accept the certificate in", &file]).await;
    let other_name = url.replace("127.0.0.1", "localhost");
    check(
        good,
        &other_name,
        &["etcd's certificate is not valid", "localhost"],
    )
    .await;
    // Without TLS, to a member that requires it.
    let error = refused(&members, None, &url.replace("https", "http")).await;
    assert!(matches!(error, ArbiterError::Unavailable(_)), "{error:?}");
    println!("{error}");
}
