//! An etcd that requires TLS and client certificates, or none: `gupfs mds`, and what `gupfs doctor` says of it.

use crate::certificates::Certificates;
use crate::etcd_members::{self, EtcdMembers};
use crate::running::{TIMEOUT, command, gupfs, refused};
use crate::test_cluster::{Daemon, text};
use expect_test::expect;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

const QUOTA: u64 = 64 << 20;

/// Writes a configuration with this etcd, and returns its path.
fn configure(dir: &Path, etcd: &str, keys: &[(&str, &Path)]) -> String {
    let mut config = format!("[mds]\netcd = [\"{etcd}\"]\n");
    for (key, file) in keys {
        config += &format!("etcd_{key} = \"{}\"\n", file.display());
    }
    let path = dir.join("mds.toml");
    fs::write(&path, config).unwrap();
    text(&path)
}

/// The findings that this doctor prints as JSON, one a line, and whether all is well.
fn findings(args: &[&str]) -> (bool, Vec<String>) {
    let printed = gupfs([&["doctor", "--json"], args].concat());
    let json: serde_json::Value = serde_json::from_slice(&printed.stdout)
        .unwrap_or_else(|error| panic!("{error}: {printed:?}"));
    let found = json["findings"].as_array().unwrap().iter();
    let lines = found.map(|found| format!("{}: {}", found["about"], found["found"]));
    let healthy = json["healthy"] == true;
    assert_eq!(printed.status.code(), Some(i32::from(!healthy)));
    if healthy {
        assert_eq!(json["etcd"]["lease_seconds"], 3, "{json}");
        assert!(json["etcd"]["writes"]["p99_ms"].as_f64().unwrap() > 0.0);
        assert!(json["etcd"]["members"][0]["version"].is_string(), "{json}");
    }
    (healthy, lines.collect())
}

fn has(lines: &[String], part: &str) -> bool {
    lines.iter().any(|line| line.contains(part))
}

#[test]
fn a_metadata_server_and_doctor_use_an_etcd_with_client_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let ours = Certificates::make(&root.join("ours"));
    let theirs = Certificates::make(&root.join("theirs"));
    let Some(etcd) = etcd_members::start_secured(1, QUOTA, ours.clone()) else {
        return;
    };
    let (url, ca, cert, key) = (etcd.url(0), ours.ca(), ours.cert(), ours.key());
    let good: [(&str, &Path); 3] = [("ca", &ca), ("cert", &cert), ("key", &key)];
    let config = configure(&root, &url, &good);
    let (healthy, lines) = findings(&["--config", &config]);
    assert!(healthy && has(&lines, "leads, database"), "{lines:#?}");
    assert!(
        has(&lines, "a lease of 3 s is granted as 3 s"),
        "{lines:#?}"
    );
    let (store, their_ca) = (root.join("m0"), theirs.ca());
    let store_text = text(&store);
    let args = [
        "mds",
        &store_text,
        "--listen",
        "127.0.0.1:0",
        "--config",
        &config,
    ];
    let mut daemon = Daemon::try_start(&args).unwrap();
    assert_eq!(daemon.stop(), 0);
    // Without a client certificate, and with another CA.
    let config = configure(&root, &url, &good[..1]);
    let (healthy, lines) = findings(&["--config", &config]);
    assert!(!healthy, "{lines:#?}");
    assert!(has(&lines, "requires a client certificate"), "{lines:#?}");
    let wrong: [(&str, &Path); 3] = [("ca", &their_ca), good[1], good[2]];
    let config = configure(&root, &url, &wrong);
    let (healthy, lines) = findings(&["--config", &config]);
    assert!(!healthy, "{lines:#?}");
    assert!(has(&lines, "is not signed by the CA in"), "{lines:#?}");
    // The metadata server says so, and asks again.
    let log = root.join("mds.log");
    let mut child = command()
        .args(args)
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let (begun, why) = (Instant::now(), "is not signed by the CA in");
    let shows = |text: &str| text.contains("etcd      cannot be used") && text.contains(why);
    loop {
        let status = gupfs(["status", &store_text]);
        if shows(&String::from_utf8_lossy(&status.stdout)) {
            break;
        }
        assert!(begun.elapsed() < TIMEOUT, "{status:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let logged = fs::read_to_string(&log).unwrap();
    assert_eq!(logged.matches(why).count(), 1, "{logged}");
    child.kill().unwrap();
    child.wait().unwrap();
    configure(&root, &url, &good);
    daemon.start_again();
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn files_and_addresses_that_do_not_fit_are_refused_before_etcd_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let ours = Certificates::make(&root.join("ours"));
    let theirs = Certificates::make(&root.join("theirs"));
    let (ca, cert, key) = (ours.ca(), ours.cert(), ours.key());
    let printed = |etcd: &str, keys: &[(&str, &Path)]| {
        let config = configure(&root, etcd, keys);
        refused(&gupfs(["doctor", "--config", &config]), &root)
    };
    let (https, mixed) = (
        "https://node1:2379",
        "https://node1:2379\", \"http://node2:2379",
    );
    expect![[r#"
        2
        gupfs doctor: the member of etcd 'https://node1:2379' cannot be asked with TLS: no CA is known that signs its certificate.
          → set mds.etcd_ca in the configuration to a file with the certificate of that CA, or name every member as http://HOST:PORT.
    "#]]
    .assert_eq(&printed(https, &[]));
    expect![[r#"
        2
        gupfs doctor: the member of etcd 'http://node2:2379' would be asked without TLS, and mds.etcd_ca is set.
          → name every member as https://HOST:PORT, or set no mds.etcd_ca.
    "#]]
    .assert_eq(&printed(mixed, &[("ca", &ca)]));
    expect![[r#"
        2
        gupfs doctor: 'ldap://node1' is no address of etcd that this program can use: it has ldap.
          → name each member as http://HOST:PORT, or as https://HOST:PORT with mds.etcd_ca.
    "#]]
    .assert_eq(&printed("ldap://node1", &[]));
    expect![[r#"
        2
        gupfs doctor: a client certificate for etcd needs its private key: give both, or neither.
          → set mds.etcd_cert and mds.etcd_key in the configuration.
    "#]]
    .assert_eq(&printed(https, &[("ca", &ca), ("cert", &cert)]));
    expect![[r#"
        2
        gupfs doctor: mds.etcd_cert and mds.etcd_key are set, and no CA is known that signs etcd's certificates.
          → set mds.etcd_ca in the configuration.
    "#]]
    .assert_eq(&printed(https, &[("cert", &cert), ("key", &key)]));
    expect![[r#"
        2
        gupfs doctor: cannot read 'DIR/none.pem' for TLS to etcd: No such file or directory (os error 2).
          → docs/operate.md, "Several metadata servers", describes them.
    "#]]
    .assert_eq(&printed(https, &[("ca", &root.join("none.pem"))]));
    expect![[r#"
        2
        gupfs doctor: these files cannot be used for TLS to etcd: mds.etcd_ca 'DIR/ours/key.pem': found no CA in the PEM data.
          → docs/operate.md, "Several metadata servers", describes them.
    "#]]
    .assert_eq(&printed(https, &[("ca", &key)]));
    let foreign = theirs.key();
    let pair: [(&str, &Path); 3] = [("ca", &ca), ("cert", &cert), ("key", &foreign)];
    expect![[r#"
        2
        gupfs doctor: these files cannot be used for TLS to etcd: mds.etcd_ca 'DIR/ours/ca.pem', mds.etcd_cert 'DIR/ours/cert.pem', mds.etcd_key 'DIR/theirs/key.pem': the private key does not belong to the certificate.
          → docs/operate.md, "Several metadata servers", describes them.
    "#]]
    .assert_eq(&printed(https, &pair));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    let pair: [(&str, &Path); 3] = [("ca", &ca), ("cert", &cert), ("key", &key)];
    expect![[r#"
        2
        gupfs doctor: other users than its owner can read the private key 'DIR/ours/key.pem'.
          → chmod 600 'DIR/ours/key.pem'.
    "#]]
    .assert_eq(&printed(https, &pair));
}

#[test]
fn doctor_describes_an_etcd_and_what_it_lacks() {
    let Some(mut etcd) = etcd_members::start(3, QUOTA) else {
        return;
    };
    let urls = |etcd: &EtcdMembers, numbers: &[usize]| {
        let urls = numbers.iter().map(|number| etcd.url(*number));
        urls.collect::<Vec<String>>().join(",")
    };
    let (healthy, lines) = findings(&["--etcd", &urls(&etcd, &[0, 1, 2])]);
    assert!(
        healthy && has(&lines, "3; changes need 2 of them"),
        "{lines:#?}"
    );
    let leading = lines.iter().filter(|line| line.contains(" leads, "));
    assert_eq!(leading.count(), 1, "{lines:#?}");
    assert!(has(&lines, "through the leader"), "{lines:#?}");
    // Two of three are named; then one is down.
    let (healthy, lines) = findings(&["--etcd", &urls(&etcd, &[0, 1])]);
    assert!(healthy && has(&lines, "is not named"), "{lines:#?}");
    let leader = etcd.leader();
    etcd.members[leader].kill();
    let begun = Instant::now();
    loop {
        let (healthy, lines) = findings(&["--etcd", &urls(&etcd, &[0, 1, 2])]);
        assert!(!healthy, "{lines:#?}");
        if has(&lines, "a lease of 3 s") {
            break;
        }
        assert!(begun.elapsed() < TIMEOUT, "{lines:#?}");
    }
    let dir = tempfile::tempdir().unwrap();
    let both = gupfs(["doctor", &text(dir.path()), "--etcd", "node1"]);
    assert_eq!(both.status.code(), Some(2), "{both:?}");
}
