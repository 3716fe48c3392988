//! # tls: connections that nobody can read or change on their way
//!
//! Owns   what a site's certificates are made into, TLS 1.3 over any stream, why a certificate is not believed.
//! Never  reads a file, decides who belongs to the cluster: that is proved above it with the cluster's key, bound to this very
//!        connection.
//! Enter  at `Tls::new`; `Pipe` is a stream with or without it.

mod fault;
mod pipe;
mod stream;
#[cfg(test)]
mod tests;

pub use fault::{TlsError, TlsFault};
pub(crate) use pipe::Pipe;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::fmt;
use std::sync::Arc;

/// What a process needs to speak TLS with the others of its cluster.
#[derive(Clone)]
pub struct Tls {
    client: Arc<ClientConfig>,
    /// None: it has no certificate, and connects only.
    server: Option<Arc<ServerConfig>>,
    name: Option<ServerName<'static>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// PEM, as openssl writes it.
#[derive(Clone, Copy)]
pub struct TlsParts<'a> {
    /// Who signs certificates of this site: one or more.
    pub ca: &'a [u8],
    /// Our certificate, with those between it and the CA, and its private key. Servers need it.
    pub own: Option<(&'a [u8], &'a [u8])>,
    /// The name that certificates of servers carry. None: each carries the host's name by which it is reached.
    pub name: Option<&'a str>,
    /// A server lets in only who has a certificate of the CA.
    pub ask_clients: bool,
}

impl Tls {
    /// # Errors
    /// What part cannot be used, and why.
    pub fn new(parts: TlsParts<'_>) -> Result<Tls, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = Arc::new(roots(parts.ca)?);
        let own = parts.own.map(|(chain, key)| own(chain, key)).transpose()?;
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
                let server = match parts.ask_clients {
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
        Ok(Tls {
            client: Arc::new(client),
            server,
            name,
        })
    }

    /// Whether it has what a server needs.
    pub fn can_serve(&self) -> bool {
        self.server.is_some()
    }

    /// To who is reached at "host:port".
    pub(crate) fn connect(&self, to: &str) -> Result<rustls::Connection, TlsError> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => server_name(host_of(to))?,
        };
        Ok(ClientConnection::new(self.client.clone(), name)?.into())
    }

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

type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn own(chain: &[u8], key: &[u8]) -> Result<Own, TlsError> {
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

/// Of "host:port" or "[v6]:port".
fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}
