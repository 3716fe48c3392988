//! # etcd_options: which etcd, and what this process shows to it
//!
//! Owns   addresses, user, certificates, as a configuration gives them.
//! Never  reads a file, connects.
//! Enter  at `EtcdOptions`.

use std::fmt;

/// Which etcd, and where in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtcdOptions {
    /// URLs of the members: all with http, or all with https and `tls`.
    pub endpoints: Vec<String>,
    /// The keys are `PREFIX/register` and `PREFIX/holder`.
    pub prefix: String,
    /// Name and password.
    pub user: Option<(String, String)>,
    /// None: connections have no TLS.
    pub tls: Option<EtcdTls>,
}

/// Certificates for TLS to etcd.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtcdTls {
    /// The CA certificates that sign those of the members: one or more.
    pub ca: PemText,
    /// The certificate that this process shows, and its private key.
    pub own: Option<(PemText, PemText)>,
}

/// Certificates or a private key in PEM format.
#[derive(Clone, PartialEq, Eq)]
pub struct PemText {
    /// The file that has it, for errors.
    pub file: String,
    pub pem: Vec<u8>,
}

impl fmt::Debug for PemText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PemText({})", self.file)
    }
}
