//! A cluster with TLS, and processes that it rejects.

use crate::running::{can_mount, gupfs, refused};
use crate::test_cluster::{TestCluster, TlsFiles, text};
use expect_test::expect;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A directory for `--tls`, with a new CA.
fn certificates(dir: &Path, name: &str) {
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().unwrap();
    fs::create_dir(dir).unwrap();
    fs::write(dir.join("ca.pem"), ca.self_signed(&ca_key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_string()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    fs::write(dir.join("cert.pem"), certificate.pem()).unwrap();
    fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
    fs::set_permissions(dir.join("key.pem"), fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_cluster_over_tls_works_and_rejects_others_with_the_reason() {
    if !can_mount() {
        return;
    }
    let certs = tempfile::tempdir().unwrap();
    let ours = certs.path().join("ours");
    certificates(&ours, "gupfs.example.org");
    let secured = TlsFiles {
        dir: text(&ours),
        name: "gupfs.example.org".into(),
    };
    let mut cluster = TestCluster::secured(1, 2, Some(secured));
    let (a, b) = (cluster.mounts[0].at.clone(), cluster.mounts[1].at.clone());
    fs::write(a.join("f"), vec![9; 6 << 20]).unwrap();
    assert!(fs::read(b.join("f")).unwrap() == vec![9; 6 << 20]);
    // A killed server reconnects after its restart.
    cluster.osses[0].kill();
    cluster.osses[0].start_again();
    fs::write(b.join("g"), "again").unwrap();
    assert_eq!(fs::read_to_string(a.join("g")).unwrap(), "again");
    let (at, key) = (cluster.at.clone(), cluster.key());
    let point = text(&cluster.root().join("mnt"));
    fs::create_dir(&point).unwrap();
    let printed = |args: &[&str]| {
        let given = [args, &["--key", &key]].concat();
        let output = gupfs(given);
        refused(&output, &cluster.root())
            .replace(&at, "AT")
            .replace(&text(certs.path()), "CERTS")
    };
    expect![[r#"
        2
        gupfs mount: cannot reach the metadata server at 'AT': the server rejected the connection: this server requires TLS: name the directory of the site's certificates (--tls).
    "#]]
    .assert_eq(&printed(&["mount", &at, &point]));
    expect![[r#"
        2
        gupfs status: cannot reach the server at 'AT': the server rejected the connection: this server requires TLS: name the directory of the site's certificates (--tls).
    "#]]
    .assert_eq(&printed(&["status", &at]));
    let theirs = certs.path().join("theirs");
    certificates(&theirs, "gupfs.example.org");
    let (theirs, ours) = (text(&theirs), text(&ours));
    let name = ["--tls-name", "gupfs.example.org"];
    expect![[r#"
        2
        gupfs mount: cannot reach the metadata server at 'AT': the peer's certificate is not signed by our CA.
    "#]]
    .assert_eq(&printed(&[&["mount", &at, &point, "--tls", &theirs], &name[..]].concat()));
    let wrong_name = printed(&["mount", &at, &point, "--tls", &ours]);
    assert!(
        wrong_name.contains("the peer's certificate has another name"),
        "{wrong_name}"
    );
    let status = gupfs([&["status", &at, "--key", &key, "--tls", &ours], &name[..]].concat());
    assert!(status.status.success(), "{status:?}");
    cluster.stop();
}

#[test]
fn a_client_with_tls_learns_that_the_server_has_none() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 0);
    let certs = cluster.root().join("certs");
    certificates(&certs, "gupfs.example.org");
    let point = text(&cluster.root().join("mnt"));
    fs::create_dir(&point).unwrap();
    let (key, certs) = (cluster.key(), text(&certs));
    let args = ["mount", &cluster.at, &point, "--key", &key, "--tls", &certs];
    let printed = refused(&gupfs(args), &cluster.root()).replace(&cluster.at, "AT");
    expect![[r#"
        2
        gupfs mount: cannot reach the metadata server at 'AT': the peer does not use TLS, and this process requires TLS.
    "#]]
    .assert_eq(&printed);
    cluster.stop();
}

#[test]
fn files_for_tls_that_cannot_be_used_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let certs = dir.path().join("certs");
    certificates(&certs, "gupfs.example.org");
    let config = dir.path().join("gupfs.toml");
    fs::write(&config, format!("[cluster]\ntls = {:?}\n", text(&certs))).unwrap();
    let check = || gupfs(["config", "check", &text(&config)]);
    assert!(check().status.success());
    let key = certs.join("key.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    expect![[r#"
        2
        gupfs config: other users than its owner can read the private key 'DIR/certs/key.pem'.
          → chmod 600 'DIR/certs/key.pem'.
    "#]]
    .assert_eq(&refused(&check(), dir.path()));
    fs::remove_file(&key).unwrap();
    expect![[r#"
        2
        gupfs config: cannot read 'DIR/certs/key.pem' for TLS: No such file or directory (os error 2).
          → docs/operate.md, "TLS", describes how to make them.
    "#]]
    .assert_eq(&refused(&check(), dir.path()));
    fs::remove_file(certs.join("cert.pem")).unwrap();
    assert!(check().status.success(), "enough for who only connects");
    let target = text(dir.path());
    let oss = gupfs([
        "oss",
        &target,
        "--listen",
        "127.0.0.1:0",
        "--tls",
        &text(&certs),
    ]);
    expect![[r#"
        2
        gupfs oss: a server needs a certificate for TLS.
          → put cert.pem and key.pem into the directory of ca.pem; docs/operate.md, "TLS", describes how to make them.
    "#]]
    .assert_eq(&refused(&oss, dir.path()));
    fs::write(certs.join("ca.pem"), "nothing").unwrap();
    expect![[r#"
        2
        gupfs config: the files in 'DIR/certs' cannot be used for TLS: found no CA in the PEM data.
          → docs/operate.md, "TLS", describes how to make them.
    "#]]
    .assert_eq(&refused(&check(), dir.path()));
}
