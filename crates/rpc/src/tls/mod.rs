//! # tls: connections that an attacker on the network can neither read nor change
//!
//! Owns   the TLS configuration made from a site's certificates, TLS 1.3 over any stream, the reasons of rejected certificates.
//! Never  reads a file, or decides which process belongs to the cluster: the handshake above it proves that with the cluster key,
//!        bound to this connection.
//! Enter  at `TlsConfig::new`; `MaybeTlsStream` is a stream with or without TLS.

mod fault;
mod maybe_tls;
mod stream;
#[cfg(test)]
mod tests;

pub use fault::{TlsError, TlsFault};
pub(crate) use maybe_tls::MaybeTlsStream;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::fmt;
use std::sync::Arc;

/// The TLS configuration of a process.
#[derive(Clone)]
pub struct TlsConfig {
    client: Arc<ClientConfig>,
    /// None: the process has no certificate and can only connect.
    server: Option<Arc<ServerConfig>>,
    name: Option<ServerName<'static>>,
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// Certificates and keys in PEM format, as openssl writes them.
#[derive(Clone, Copy)]
pub struct TlsMaterial<'a> {
    /// The CA certificates of this site: one or more.
    pub ca: &'a [u8],
    /// This process's certificate with the intermediate certificates, and its private key. Servers need them.
    pub own: Option<(&'a [u8], &'a [u8])>,
    /// The name in the servers' certificates. None: each certificate has the host name of the server's address.
    pub name: Option<&'a str>,
    /// A server accepts only clients with a certificate of the CA.
    pub require_client_certificates: bool,
}

impl TlsConfig {
    /// The configuration made from this material: TLS 1.3, with these CA certificates as the only roots.
    ///
    /// # Errors
    /// Which part of the material cannot be used, and why.
    pub fn new(parts: TlsMaterial<'_>) -> Result<TlsConfig, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = Arc::new(roots(parts.ca)?);
        let own = parts
            .own
            .map(|(chain, key)| certified_key(chain, key))
            .transpose()?;
        let only_13 = [&rustls::version::TLS13];
        let client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&only_13)?
            .with_root_certificates(roots.clone());
        let client = match &own {
            Some((chain, key)) => client.with_client_auth_cert(chain.clone(), key.clone_key())?,
            None => client.with_no_client_auth(),
        };
        let server = match own {
            None => None,
            Some((chain, key)) => {
                let server = ServerConfig::builder_with_provider(provider.clone())
                    .with_protocol_versions(&only_13)?;
                let server = match parts.require_client_certificates {
                    true => {
                        let verifier =
                            WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                        server.with_client_cert_verifier(verifier.map_err(TlsError::verifier)?)
                    }
                    false => server.with_no_client_auth(),
                };
                Some(Arc::new(server.with_single_cert(chain, key)?))
            }
        };
        let name = match parts.name {
            None => None,
            Some(name) => Some(server_name(name)?),
        };
        Ok(TlsConfig {
            client: Arc::new(client),
            server,
            name,
        })
    }

    /// Whether it has a server certificate.
    pub fn can_serve(&self) -> bool {
        self.server.is_some()
    }

    /// The client side of TLS with the server at "host:port".
    ///
    /// # Errors
    /// The host is not a valid certificate name.
    pub(crate) fn connect(&self, to: &str) -> Result<rustls::Connection, TlsError> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => server_name(host_of(to))?,
        };
        Ok(ClientConnection::new(self.client.clone(), name)?.into())
    }

    /// The server side of TLS with a client.
    ///
    /// # Errors
    /// This process has no certificate.
    pub(crate) fn accept(&self) -> Result<rustls::Connection, TlsError> {
        let server = self.server.clone().ok_or(TlsError::NoCertificate)?;
        Ok(ServerConnection::new(server)?.into())
    }
}

fn roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| TlsError::pem("CA", error))?;
        roots.add(certificate)?;
    }
    match roots.is_empty() {
        true => Err(TlsError::Empty("CA")),
        false => Ok(roots),
    }
}

type CertifiedKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn certified_key(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.map_err(|error| TlsError::pem("certificate", error))?;
    if chain.is_empty() {
        return Err(TlsError::Empty("certificate"));
    }
    let key = PrivateKeyDer::from_pem_slice(key);
    Ok((chain, key.map_err(|error| TlsError::pem("key", error))?))
}

fn server_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_string()).map_err(|_| TlsError::Name(name.to_string()))
}

/// The host of "host:port" or "[v6]:port".
fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}
