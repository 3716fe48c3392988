//! Certificates for members of etcd and their clients.

use gupfs_platform::arbiter::{EtcdTls, PemText};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A directory with ca.pem, and with cert.pem and key.pem, which members and clients use.
#[derive(Clone, Debug)]
pub struct Certificates(PathBuf);

impl Certificates {
    /// Makes the directory, a new CA, and a certificate for 127.0.0.1.
    pub fn make(dir: &Path) -> Certificates {
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca_key = KeyPair::generate().unwrap();
        std::fs::create_dir(dir).unwrap();
        let made = Certificates(dir.to_path_buf());
        std::fs::write(made.ca(), ca.self_signed(&ca_key).unwrap().pem()).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut own = CertificateParams::new(vec!["127.0.0.1".to_string()]).unwrap();
        own.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // A member is a client of itself.
        own.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let own = own.signed_by(&key, &Issuer::new(ca, ca_key)).unwrap();
        std::fs::write(made.cert(), own.pem()).unwrap();
        std::fs::write(made.key(), key.serialize_pem()).unwrap();
        std::fs::set_permissions(made.key(), std::fs::Permissions::from_mode(0o600)).unwrap();
        made
    }

    pub fn ca(&self) -> PathBuf {
        self.0.join("ca.pem")
    }

    pub fn cert(&self) -> PathBuf {
        self.0.join("cert.pem")
    }

    pub fn key(&self) -> PathBuf {
        self.0.join("key.pem")
    }

    /// What a client with a certificate needs.
    pub fn tls(&self) -> EtcdTls {
        EtcdTls {
            ca: pem(&self.ca()),
            own: Some((pem(&self.cert()), pem(&self.key()))),
        }
    }
}

fn pem(path: &Path) -> PemText {
    PemText {
        file: path.display().to_string(),
        pem: std::fs::read(path).unwrap(),
    }
}
